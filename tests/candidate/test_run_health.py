# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""--health: what a load balancer or a kubelet is told, and that nobody who asks can delay the candidate."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.exporter import program
from tests.support.faults import frozen
from tests.support.wait import wait_until

KEY = 99


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty('jobs/health', lock_key => %s)", (KEY,))
        yield cluster


class Checked(Candidate):
    """A candidate that serves health checks."""

    def __init__(self, conninfo, *args, options=(), host="127.0.0.1", **more):
        self.port = free_port()
        address = f"[{host}]" if ":" in host else host
        super().__init__(conninfo, *args, duty="jobs/health", options=[f"--health={address}:{self.port}", *options], **more)
        self.host = host

    def ask(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=5)
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def codes(self):
        return [self.ask(path)[0].status for path in ("/livez", "/readyz", "/leaderz")]

    def wait_codes(self, *codes):
        wait_until(lambda: self.codes() == list(codes), f"health is {codes}")

    def line(self, path="/leaderz"):
        return json.loads(self.ask(path)[1])


def test_follower_leader_and_end(pg, tmp_path):
    """A follower serves; the leader says so with its generation; what is being ended does not serve."""
    slow = 'trap "sleep 1.5; exit 0" TERM; echo beat 1 x 1 >>"$NOTES"; while :; do sleep 0.05; done'
    stranger = hold_lock(pg, KEY, "stranger")
    with Checked(pg.conninfo(), "x", command=["bash", "-c", slow]) as run:
        run.wait_codes(200, 200, 503)
        assert run.line()["state"] in ("follower", "acquiring") and "generation" not in run.line()
        stranger.close()
        run.wait_codes(200, 200, 200)
        line = run.line()
        assert (line["duty"], line["instance"], line["state"]) == ("jobs/health", "x", "leader")
        assert [(line["generation"],)] == pg.sql("select generation from pgleader.duty")
        assert line["since"].endswith("Z")
        wait_for_note(run.notes, "beat")
        run.signal(signal.SIGTERM)
        run.wait_codes(200, 503, 503)
        assert run.line("/readyz")["state"] == "yielding"
        assert run.wait() == 0


def test_without_a_database():
    with Checked(f"host=127.0.0.1 port={free_port()}", "x", command=["true"], options=["--lock=1"]) as run:
        wait_until(lambda: "refused" in run.line("/readyz").get("reason", ""), "it says why")
        assert run.codes() == [200, 503, 503]


def test_a_standby_is_not_ready(pg):
    """A candidate that is connected, and cannot compete there."""
    standby = pg.standby()
    try:
        standby.start()
        with Checked(standby.conninfo(), "x", command=["true"]) as run:
            wait_until(lambda: "standby" in run.log(), "it is connected")
            assert run.codes() == [200, 503, 503]
            assert "standby" in run.line("/readyz")["reason"]
    finally:
        standby.destroy()


def test_methods_and_paths(pg):
    with Checked(pg.conninfo(), "x") as run:
        run.wait_codes(200, 200, 200)
        answer, text = run.ask("/leaderz", "HEAD")
        assert (answer.status, text) == (200, "") and int(answer.headers["Content-Length"]) > 10
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            answer, _ = run.ask("/leaderz", method, body=b"x" * 10000 if method == "POST" else None)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD"), method
        assert [run.ask(path)[0].status for path in ("/", "/leader", "/leaderz/", "/LEADERZ", "/metrics")] == [404] * 5
        assert run.ask("/leaderz?verbose=1")[0].status == 200
        answer, _ = run.ask("/readyz")
        assert (answer.headers["Content-Type"], answer.headers["Cache-Control"]) == ("application/json", "no-store")


def test_a_pause_beyond_the_deadline(pg):
    """The first answer after it is not that of the leader it was: the load balancer would believe it."""
    with Checked(pg.conninfo(), "x") as run:
        run.wait_codes(200, 200, 200)
        with frozen(run.process.pid):
            request = socket.create_connection((run.host, run.port))
            request.sendall(b"GET /leaderz HTTP/1.0\r\n\r\n")
            wait_until(lambda paused=time.monotonic() + 5: time.monotonic() > paused, "the deadline has passed")
        answer = b"".join(iter(lambda: request.recv(4096), b""))
        assert b" 503 " in answer.splitlines()[0], answer
        assert run.wait() == 76


def test_slow_clients(pg):
    """Those that drip are sent away after five seconds; meanwhile the candidate checks its lock, and answers others."""
    checks = "select query_start from pg_stat_activity where application_name = 'pgleader:jobs/health:x'"
    with Checked(pg.conninfo(), "x") as run:
        run.wait_codes(200, 200, 200)
        slow = [socket.create_connection((run.host, run.port)) for _ in range(40)]
        for connection in slow:
            connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        began, before, seen = time.monotonic(), pg.sql(checks), set()

        def ended():
            for connection in slow:
                try:
                    connection.sendall(b"y")
                except OSError:
                    pass
            seen.update(pg.sql(checks))
            assert run.ask("/livez")[0].status == 200
            return all(gone(connection) for connection in slow)

        wait_until(ended, "they are sent away", every=0.1)
        assert time.monotonic() - began > 3
        assert len(seen - set(before)) >= 3, "it has not checked its lock meanwhile"
        for connection in slow:
            connection.close()


def gone(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_more_clients_than_places(pg):
    """They cannot use up its descriptors, nor keep it from leading."""
    with Checked(pg.conninfo(), "x") as run:
        run.wait_codes(200, 200, 200)
        crowd = [socket.create_connection((run.host, run.port)) for _ in range(200)]
        assert len(os.listdir(f"/proc/{run.process.pid}/fd")) < 100
        for connection in crowd:
            connection.close()
        run.wait_codes(200, 200, 200)


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_addresses(pg, host):
    with Checked(pg.conninfo(), "x", host=host) as run:
        run.wait_codes(200, 200, 200)
        assert f":{run.port}" in run.log()


@pytest.mark.parametrize("address, words", [("127.0.0.1", "not HOST:PORT"), ("::1:80", "in brackets"),
                                            ("192.0.2.1:8080", "could not listen"), ("127.0.0.1:99999", "not HOST:PORT")])
def test_an_address_that_cannot_be(address, words, tmp_path):
    path = tmp_path / "status"
    done = subprocess.run([program("pgleader-run"), "--duty=jobs/x", "--lock=1", f"--health={address}",
                           f"--status-file={path}", "host=127.0.0.1 port=1", "--", "true"], capture_output=True, text=True)
    assert (done.returncode, words in done.stderr) == (64, True), done.stderr
    assert json.loads(path.read_text())["outcome"] == "usage"


def test_an_address_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run([program("pgleader-run"), "--duty=jobs/x", "--lock=1",
                               f"--health=127.0.0.1:{taken.getsockname()[1]}", "host=127.0.0.1 port=1", "--", "true"],
                              capture_output=True, text=True)
        assert (done.returncode, "in use" in done.stderr) == (64, True), done.stderr
