# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""A password reaches no log line, no label, no page and no process list, however it is given, right or wrong."""

import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter, program
from tests.support.faults import config, server
from tests.support.wait import wait_until

PASSWORD = "Xy7zz@Sec/ret:Q%'\\ #?"   # everything that a URI, a quoted value or a shell may trip over
PIECES = ("Xy7zz", "Sec/ret", "ret:Q", "ret%3A", "Q%")
HBA = "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all watcher 127.0.0.1/32 scram-sha-256\n"
URI = quote(PASSWORD, safe="")


@pytest.fixture(scope="module")
def pg():
    with Cluster(hba=HBA) as cluster:
        cluster.sql("create role watcher login password '{}'".format(PASSWORD.replace("'", "''")))
        yield cluster


def quoted(value):
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def keywords(port, password=None):
    return f"host=127.0.0.1 port={port} dbname=postgres user=watcher" + (f" password={quoted(password)}" if password else "")


def ways(port, password, folder):
    """(name, arguments of Exporter) for every way in which a password may be given."""
    file = folder / "password"
    file.write_text(password + "\n")
    uri = f"postgresql://watcher:{quote(password, safe='')}@127.0.0.1:{port}/postgres"
    (folder / "pass").write_text("127.0.0.1:*:*:watcher:" + password.replace("\\", "\\\\").replace(":", "\\:") + "\n")
    (folder / "pass").chmod(0o600)
    (folder / "name").write_text(keywords(port, password))
    plain = keywords(port)
    bare = f"127.0.0.1:{port}/postgres"
    return [
        ("argument", {"conninfo": keywords(port, password)}),
        ("argument, URI", {"conninfo": uri}),
        ("argument, URI's parameter", {"conninfo": f"postgres://{bare}?user=watcher&password={quote(password, safe='')}"}),
        ("config", {"config": config(server(keywords(port, password)))}),
        ("config, URI", {"config": config(server(uri))}),
        ("password_file", {"config": config(server(plain, password_file=str(file)))}),
        ("PGPASSWORD", {"conninfo": plain, "env": {"PGPASSWORD": password}}),
        ("PGPASSFILE", {"conninfo": plain, "env": {"PGPASSFILE": str(folder / "pass")}}),
        ("DATA_SOURCE_NAME", {"env": {"DATA_SOURCE_NAME": uri}}),
        ("DATA_SOURCE_NAME_FILE", {"env": {"DATA_SOURCE_NAME_FILE": str(folder / "name")}}),
        ("DATA_SOURCE_PASS", {"env": {"DATA_SOURCE_URI": bare, "DATA_SOURCE_USER": "watcher",
                                      "DATA_SOURCE_PASS": password}}),
        ("DATA_SOURCE_PASS_FILE", {"env": {"DATA_SOURCE_URI": bare, "DATA_SOURCE_USER": "watcher",
                                           "DATA_SOURCE_PASS_FILE": str(file)}}),
    ]


NAMES = ["argument", "argument, URI", "argument, URI's parameter", "config", "config, URI", "password_file", "PGPASSWORD",
         "PGPASSFILE", "DATA_SOURCE_NAME", "DATA_SOURCE_NAME_FILE", "DATA_SOURCE_PASS", "DATA_SOURCE_PASS_FILE"]


def shown(e):
    """Everything that a stranger may see of a running exporter."""
    pages = [e.get(path)[2] for path in ("/", "/metrics", "/probe?target=db", "/-/ready", "/nothing")]
    cmdline = Path(f"/proc/{e.pid}/cmdline").read_bytes()
    ps = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(e.pid)], capture_output=True).stdout
    return b"\n".join([*pages, cmdline, ps]).decode(errors="replace") + e.log()


def assert_hidden(text, where):
    for piece in PIECES:
        assert piece not in text, f"{piece} in {where}: {[line for line in text.splitlines() if piece in line][:3]}"


@pytest.mark.parametrize("name", NAMES)
def test_right_password(pg, name, tmp_path):
    given = dict(ways(pg.port, PASSWORD, tmp_path))[name]
    with Exporter(**given, options=["--log.level=debug"]) as e:
        e.wait_for(lambda s: s.one("up") == 1, "connected")
        assert_hidden(shown(e), name)
        e.reload()
        wait_until(lambda: "reloaded" in e.log(), "the same is read again")
        pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgleader_exporter'")
        e.wait_for(lambda s: s.one("connects_total") >= 2, "connected again after the reload")
        assert_hidden(shown(e), name)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_password(pg, name, tmp_path):
    given = dict(ways(pg.port, PASSWORD + "wrong", tmp_path))[name]
    with Exporter(**given, options=["--log.level=debug", "--log.format=json"]) as e:
        wait_until(lambda: "password authentication failed for user" in e.log(), "the refusal is logged")
        assert e.scrape().one("up") == 0
        assert_hidden(shown(e), name)


def test_password_file_changes(pg, tmp_path):
    """A wrong password that is put right in its file is used by itself at the next attempt."""
    file = tmp_path / "password"
    file.write_text("Xy7zz-old\n")
    with Exporter(config=config(server(keywords(pg.port), password_file=str(file)))) as e:
        wait_until(lambda: "password authentication failed" in e.log(), "the refusal is logged")
        file.unlink()
        wait_until(lambda: "could not read the password file" in e.log(), "a missing file is said")
        file.write_text(PASSWORD + "\r\n")
        e.wait_for(lambda s: s.one("up") == 1, "connected", deadline=25)
        assert_hidden(shown(e), "password_file")


MALFORMED = [
    "host=127.0.0.1 password=Xy7zz Sec/ret", "host=127.0.0.1 password='Xy7zz", "host=127.0.0.1 pasword=Xy7zz",
    "postgresql://watcher:Xy7zz@Sec/ret@127.0.0.1/postgres", "postgres://watcher:Xy7zz/Sec/ret@127.0.0.1/postgres",
    "postgresql://watcher:Xy7zz", "postgresql://watcher:12/Xy7zz@127.0.0.1/postgres", "postgresql://watcher:Xy7zz%Q%@h/",
    "postgresql://h/db?pass=Xy7zz", "postgres//watcher:Xy7zz@h/db", "jdbc:postgresql://h/db?user=u&password=Xy7zz",
    "dbname='postgres://watcher:Xy7zz@h/db'", "Xy7zz", "postgresql://watcher:Xy7zz@[::1/db", "host=h port=Xy7zz",
]


@pytest.mark.parametrize("conninfo", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(conninfo, tmp_path):
    """What cannot be read is refused with exit status 2, and not one word of it is quoted."""
    file = tmp_path / "pgleader.yml"
    for text, argv, env in ((None, [conninfo], {}), (None, [], {"DATA_SOURCE_NAME": conninfo}),
                            (config(server(conninfo)), [f"--config.file={file}"], {})):
        if text:
            file.write_text(text)
        done = subprocess.run([program(), "--check-config", *argv], env=env, capture_output=True, text=True)
        assert done.returncode == 2, done.stderr + done.stdout
        assert "could not" in done.stderr
        assert_hidden(done.stderr + done.stdout, argv or "DATA_SOURCE_NAME")


CONFIGS = [
    'servers: [{conninfo: {host: h, password: Xy7zz}}]', 'servers: [{conninfo: "host=h", password: Xy7zz}]',
    'servers: [{conninfo: ["Xy7zz"]}]', 'servers: [{name: db, conninfo: "host=h", password_file: [Xy7zz]}]',
    'servers: [{conninfo: "postgresql://u:Xy7zz@h/db", conninfo: "x"}]', 'servers: "host=h password=Xy7zz"',
    'servers: [{conninfo: "host=h password=Xy7zz]',
]


@pytest.mark.parametrize("text", CONFIGS, ids=range(len(CONFIGS)))
def test_malformed_config(pg, text, tmp_path):
    """Also a mistake around it quotes nothing; at a reload the old configuration stays."""
    with Exporter(config=config(server(pg.conninfo()))) as e:
        e.wait_for(lambda s: s.one("up") == 1, "connected")
        e.config_path.write_text(text)
        e.reload()
        e.wait_for(lambda s: s.one("config_last_reload_successful") == 0, "refused")
        assert e.scrape().one("up") == 1 and "keeping the last one" in e.log()
        assert_hidden(shown(e), text)
