# SPDX-License-Identifier: PostgreSQL
"""The command line: what it prints, what it refuses, where it finds its servers, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.support.cluster import ROOT, Cluster, free_port
from tests.support.exporter import Exporter, program
from tests.support.scene import config, holding, lock_duty, server
from tests.support.wait import wait_until

PASSWORD = "s3cret pass'w\\rd"
HBA = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhost all watcher 127.0.0.1/32 scram-sha-256\n"


@pytest.fixture(scope="module")
def cluster():
    with Cluster(hba=HBA) as pg:
        pg.sql(f"""create role watcher login password '{PASSWORD.replace("'", "''")}'""")
        pg.sql("grant pg_read_all_stats to watcher")
        yield pg


def run(*argv, env=None, timeout=10):
    done = subprocess.run([program(), *map(str, argv)], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "LC_ALL": "C", **(env or {})})
    return done.returncode, done.stdout, done.stderr


def sees_its_server(port):
    """Whether the exporter there answers, and sees its server."""
    try:
        body = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    except urllib.error.URLError:
        return False
    return re.search(r"^pgleader_up\{.*\} 1$", body, re.M) is not None


# what a user may ask for, and is told on standard output
def test_help():
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for option in ("config.file", "web.listen-address", "web.telemetry-path", "web.config.file", "log.level", "log.format",
                   "check-config", "list-metrics", "version", "help"):
        assert f"--{option}" in out
    for word in ("DATA_SOURCE_NAME", "SIGHUP", "Exit status: 0", "64"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 100


def test_version():
    code, out, err = run("--version")
    assert (code, err) == (0, "") and re.fullmatch(r"pgleader_exporter \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize("closed", ["1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_files(cluster, closed):
    """Started without them its log is lost; it does not go to a server or into an answer."""
    port = free_port()
    argv = ["bash", "-c", f'exec "$@" {closed}', "-", program(), f"--web.listen-address=127.0.0.1:{port}", "--log.level=debug", cluster.conninfo()]
    with subprocess.Popen([str(word) for word in argv], env={"PATH": os.environ["PATH"], "LC_ALL": "C"}) as process:
        try:
            wait_until(lambda: sees_its_server(port), "the exporter sees its server")
            assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (1, 2)] == 2 * ["/dev/null"]
        finally:
            process.terminate()


def test_list_metrics():
    code, out, err = run("--list-metrics")
    rows = [line.split("\t") for line in out.splitlines()]
    assert (code, err) == (0, "") and len(rows) > 50
    assert all(len(row) == 4 and re.fullmatch(r"(pgleader|process)_[a-z_]+", row[0]) for row in rows)
    assert {row[1] for row in rows} == {"gauge", "counter", "histogram", "info"}
    labels = {label for row in rows for label in row[2].split(",")}
    assert not labels & {"job", "instance", "namespace"}


USAGE = {  # 64, and one line that says why
    ("--no-such-option",): "no such option",
    ("--config.file",): "it takes a value",
    ("--log.level=loud",): "not debug, info, warn or error",
    ("--log.format=xml",): "not logfmt or json",
    ("--web.telemetry-path=metrics",): "not a path",
    ("--web.telemetry-path=/",): "not a path",
    ("--config.file=x", "dbname=y"): "exclude each other",
    ("dbname=x", "host=y"): "more than one CONNINFO",
    ("-x",): "no such option",
    ("--help=yes",): None,
}


@pytest.mark.parametrize("argv", USAGE, ids=" ".join)
def test_a_bad_command_line(argv):
    code, out, err = run(*argv)
    assert (code, out) == (64, "")
    assert "could not read" in err and len(err.splitlines()) == 1 and "level=error" in err
    assert USAGE[argv] is None or USAGE[argv] in err


BAD_FILES = {  # the file; then (line, words) of every problem
    "unknown keys": ("servers:\n  - name: a\n    conninfo: dbname=x\n    conninf: y\nserver: []\n", [(4, "conninf"), (5, "server")]),
    "wrong types": ("servers:\n  - name: a\n    conninfo: dbname=x\n    duties:\n      - duty: a/b\n        lock: many\n"
                    "        min_candidates: two\n        stall_after: 5 minutes\npoll: {interval: 1ms}\n",
                    [(6, "lock"), (7, "min_candidates"), (8, "stall_after"), (9, "interval")]),
    "duplicate duties": ("servers:\n  - name: a\n    conninfo: dbname=x\n    duties:\n      - {duty: a/b, lock: 1}\n"
                         "      - {duty: a/b, lock: 2}\n", [(6, '"a/b"')]),
    "two duties on one key": ("servers:\n  - name: a\n    conninfo: dbname=x\n    duties:\n      - {duty: a/b, lock: [0, 7]}\n"
                              "      - {duty: a/c, lock: [0, 7]}\n      - {duty: a/d, lock: 7}\n", [(6, "0,7")]),
    "two duties on one lease": ("servers:\n  - name: a\n    conninfo: dbname=x\n    duties:\n"
                                "      - {duty: a/b, lease: {table: public.l, row: x}}\n"
                                "      - {duty: a/c, lease: {table: PUBLIC.L, row: x}}\n", [(6, "lease")]),
    "two servers of one name": ("servers:\n  - {name: a, conninfo: dbname=x}\n  - {name: a, conninfo: dbname=y}\n", [(3, "same name")]),
    "a duty for no server": ("servers:\n  - {name: a, conninfo: dbname=x}\n  - {name: b, conninfo: dbname=y}\nduties:\n  - {duty: a/b, lock: 1}\n",
                             [(5, "there are 2 servers")]),
    "a conninfo that is none": ("servers:\n  - name: a\n    conninfo: \"host=x password=hunter2 port\"\n", [(3, "conninfo")]),
    "not YAML": ("servers:\n  - name: [a\n", [(None, "")]),
}


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("check", [True, False], ids=["check", "start"])
def test_a_bad_file(tmp_path, case, check):
    text, problems = BAD_FILES[case]
    path = tmp_path / "pgleader.yml"
    path.write_text(text)
    code, out, err = run(f"--config.file={path}", *["--check-config"] * check)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == len(problems), err
    for (line, words), said in zip(problems, err.splitlines()):
        assert re.search(rf'{re.escape(str(path))}:{line or "[0-9]+"}: could not ', said) and words in said.replace('\\"', '"'), said
    assert "hunter2" not in err


def test_check_config(tmp_path):
    path = tmp_path / "good.yml"
    path.write_text("servers: [{name: a, conninfo: dbname=x}, {name: b, conninfo: dbname=y}]\n")
    assert run(f"--config.file={path}", "--check-config") == (0, "configuration is valid: 2 servers\n", "")
    assert run("--check-config", "host=db1 dbname=app") == (0, "configuration is valid: 1 server\n", "")
    assert run(f"--config.file={ROOT / 'etc/pgleader.example.yml'}", "--check-config")[0] == 0
    code, _, err = run(f"--config.file={tmp_path / 'missing.yml'}", "--check-config")
    assert code == 2 and "missing.yml" in err and "No such file" in err
    code, _, err = run("--check-config", "host=db1 password=hunter2 nonsense")
    assert code == 2 and "libpq does not understand" in err and "hunter2" not in err


def test_check_config_reads_the_web_configuration_too(tmp_path):
    web = tmp_path / "web.yml"
    web.write_text("basic_auth_users:\n  anna: not-a-hash\n")
    code, out, err = run("--check-config", f"--web.config.file={web}", "dbname=x")
    assert (code, out) == (2, "") and f"{web}:2: could not" in err
    web.write_text("tls_server_config: {cert_file: none.pem, key_file: none.pem}\n")
    assert run("--check-config", f"--web.config.file={web}", "dbname=x")[0] == 2
    assert run(f"--web.config.file={web}", f"--web.listen-address=127.0.0.1:{free_port()}", "dbname=x")[0] == 2
    web.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    assert run("--check-config", f"--web.config.file={web}", "dbname=x")[0] == 0


def test_an_address_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = run(f"--web.listen-address={address}", "dbname=x")
        assert code == 1 and address in err and "Address already in use" in err
    assert run("--web.listen-address=nonsense", "dbname=x")[0] in (1, 64)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_by_a_signal(cluster, sig):
    with Exporter(cluster.conninfo()) as e:
        e.process.send_signal(sig)
        assert e.process.wait(timeout=1) == 0, "within a second"
    assert "stopping" in e.log()


def sources(cluster, tmp_path):
    """Every way to name the one server: (arguments, environment)."""
    uri = f"127.0.0.1:{cluster.port}/postgres"
    files = {name: tmp_path / name for name in ("name", "uri", "user", "pass")}
    files["name"].write_text(cluster.conninfo() + "\n")
    files["uri"].write_text(uri + "?sslmode=disable\n")
    files["user"].write_text("watcher\n")
    files["pass"].write_text(PASSWORD + "\n")
    service, passfile = tmp_path / "service", tmp_path / "passfile"
    service.write_text(f"[main]\nhost=127.0.0.1\nport={cluster.port}\ndbname=postgres\nuser=postgres\n")
    passfile.write_text(f"127.0.0.1:{cluster.port}:postgres:watcher:" + PASSWORD.replace("\\", "\\\\") + "\n")
    passfile.chmod(0o600)
    pg = {"PGHOST": "127.0.0.1", "PGPORT": str(cluster.port), "PGDATABASE": "postgres"}
    return {
        "an argument": ([cluster.conninfo()], {}),
        "an argument before the environment": ([cluster.conninfo()], {"DATA_SOURCE_NAME": "host=nowhere.invalid"}),
        "a URI as argument": ([f"postgresql://postgres@{uri}"], {}),
        "PG*": ([], {**pg, "PGUSER": "postgres"}),
        "PGPASSWORD": ([], {**pg, "PGUSER": "watcher", "PGPASSWORD": PASSWORD}),
        "PGPASSFILE": ([], {**pg, "PGUSER": "watcher", "PGPASSFILE": str(passfile)}),
        "PGSERVICE": ([], {"PGSERVICE": "main", "PGSERVICEFILE": str(service)}),
        "DATA_SOURCE_NAME": ([], {"DATA_SOURCE_NAME": cluster.conninfo()}),
        "DATA_SOURCE_NAME as a URI": ([], {"DATA_SOURCE_NAME": f"postgresql://postgres@{uri}"}),
        "DATA_SOURCE_NAME_FILE": ([], {"DATA_SOURCE_NAME_FILE": str(files["name"])}),
        "DATA_SOURCE_URI, USER, PASS": ([], {"DATA_SOURCE_URI": uri, "DATA_SOURCE_USER": "watcher", "DATA_SOURCE_PASS": PASSWORD}),
        "DATA_SOURCE_*_FILE": ([], {"DATA_SOURCE_URI_FILE": str(files["uri"]), "DATA_SOURCE_USER_FILE": str(files["user"]),
                                    "DATA_SOURCE_PASS_FILE": str(files["pass"])}),
    }


SOURCES = ["an argument", "an argument before the environment", "a URI as argument", "PG*", "PGPASSWORD", "PGPASSFILE", "PGSERVICE",
           "DATA_SOURCE_NAME", "DATA_SOURCE_NAME as a URI", "DATA_SOURCE_NAME_FILE", "DATA_SOURCE_URI, USER, PASS", "DATA_SOURCE_*_FILE"]


@pytest.mark.parametrize("source", SOURCES)
def test_where_the_server_is_named(cluster, tmp_path, source):
    argv, env = sources(cluster, tmp_path)[source]
    with Exporter(*argv, env=env) as e:
        samples = e.wait_for(lambda s: s.find("up") == [1], "up")
        name = samples.labels("up")["server"]
        assert name == ("service/main" if source == "PGSERVICE" else f"127.0.0.1:{cluster.port}/postgres")
        told = e.log() + e.get("/metrics")[2].decode() + e.get("/")[2].decode() + open(f"/proc/{e.pid}/cmdline").read()
        assert PASSWORD not in told and "s3cret" not in told


def test_password_file_of_a_server(cluster, tmp_path):
    """Group-readable, as mounted secrets are; read anew at each connection."""
    path = tmp_path / "secret"
    path.write_text("wrong\n")
    path.chmod(0o644)
    with Exporter(config=config({**server(cluster, user="watcher", duties=[lock_duty("jobs/one", 1)]), "password_file": str(path)})) as e:
        e.wait_for(lambda s: s.one("up") == 0 and s.one("last_poll_timestamp_seconds"), "refused")
        path.write_text(PASSWORD + "\n")
        e.wait_for(lambda s: s.one("up") == 1, "up with the right one")
        assert "s3cret" not in e.log()


def test_zero_config_shows_every_lock(cluster):
    with Exporter(cluster.conninfo()) as e, holding(cluster, 5, "w"):
        samples = e.wait_for(lambda s: s.one("unregistered_locks") == 1, "the lock is seen")
        assert samples.one("ledger_version") == 0 and samples.duties() == []
        assert samples.one("poll_interval_seconds") >= 1


def test_json_logs(cluster):
    import json
    with Exporter(cluster.conninfo(application_name='odd "name"'), options=["--log.format=json", "--log.level=debug"]) as e:
        e.wait_for(lambda s: s.one("up") == 1, "up")
        lines = [json.loads(line) for line in e.log().split("\n")[:-1]]
        assert {"ts", "level", "msg"} <= set(lines[0]) and any(line["msg"] == "connected" for line in lines)
