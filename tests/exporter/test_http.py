# SPDX-License-Identifier: PostgreSQL
# ctest: serial asan tsan
"""What the web server does with requests: the good, the odd, the hostile and the slow."""

import gzip
import random
import resource
import socket
import struct
import subprocess
import time

import pytest

from tests.support.cluster import free_port
from tests.support.wait import hold_for, wait_until
from tests.support.web import Harness, request

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"


@pytest.fixture(scope="module")
def server():
    with Harness("--size=200000") as harness:
        yield harness


ROUTES = [
    # method, path, status, content type, words in the body, Allow
    ("GET", "/", 200, HTML, "<title>harness", None),
    ("GET", "/?x=1", 200, HTML, "<title>harness", None),
    ("GET", "/metrics", 200, TEXT, "# text 1", None),
    ("GET", "/metrics?name[]=x", 200, TEXT, "# text 1", None),
    ("GET", "/metrics?target=two", 200, TEXT, "# text 1", None),
    ("GET", "/%6detrics", 200, TEXT, "# text 1", None),
    ("GET", "/metrics/", 404, PLAIN, "the metrics are at /metrics", None),
    ("GET", "//", 404, PLAIN, "nothing here", None),
    ("GET", "/index.html", 404, PLAIN, "nothing here", None),
    ("GET", "/../../etc/passwd", 404, PLAIN, "nothing here", None),
    ("GET", "/%00", 404, PLAIN, "nothing here", None),
    ("POST", "/nothing", 404, PLAIN, "nothing here", None),
    ("GET", "/probe", 400, PLAIN, "target is missing", None),
    ("GET", "/probe?target=", 400, PLAIN, "target is missing", None),
    ("GET", "/probe?target", 400, PLAIN, "target is missing", None),
    ("GET", "/probe?target=one", 200, TEXT, "# text 1", None),
    ("GET", "/probe?x=2&target=%6fne", 200, TEXT, "# text 1", None),
    ("GET", "/probe?target=two", 404, PLAIN, "no server of that name", None),
    ("GET", "/probe?target=host%3Ddb", 404, PLAIN, "no server of that name", None),
    ("GET", "/probe?target=one%00x", 404, PLAIN, "no server of that name", None),
    ("GET", "/-/healthy%00x", 404, PLAIN, "nothing here", None),
    ("GET", "/probe?target=<script>", 404, PLAIN, "no server of that name", None),
    ("GET", "/-/healthy", 200, PLAIN, "healthy", None),
    ("GET", "/-/ready", 200, PLAIN, "ready", None),
    ("GET", "/-/reload", 404, PLAIN, "not switched on", None),
    ("POST", "/-/reload", 404, PLAIN, "not switched on", None),
    ("POST", "/", 405, PLAIN, "method", "GET, HEAD"),
    ("POST", "/metrics", 405, PLAIN, "method", "GET, HEAD"),
    ("PUT", "/-/ready", 405, PLAIN, "method", "GET, HEAD"),
    ("DELETE", "/probe?target=one", 405, PLAIN, "method", "GET, HEAD"),
    ("OPTIONS", "/metrics", 405, PLAIN, "method", "GET, HEAD"),
    ("BREW", "/metrics", 405, PLAIN, "method", "GET, HEAD"),
    ("get", "/metrics", 405, PLAIN, "method", "GET, HEAD"),
]


def test_routes(server):
    """Each path and method on one connection that stays open; HEAD says what GET would, without a body."""
    client = server.connect()
    for method, path, status, kind, words, allow in ROUTES:
        answer = client.ask(path, method)
        got = (answer.status, answer.headers["Content-Type"], answer.headers.get("Allow"))
        assert got == (status, kind, allow), f"{method} {path}: {answer}"
        assert words in answer.body.decode(), f"{method} {path}: {answer}"
        if method == "GET":
            head = client.ask(path, "HEAD")
            assert head.status == status, path
            assert head.headers["Content-Length"] == str(len(answer.body)), path
    client.close()


def test_telemetry_path():
    """--web.telemetry-path moves the metrics, and the 404 says where they are."""
    with Harness("--telemetry=/m") as server:
        assert server.get("/m").headers["Content-Type"] == TEXT
        assert b"the metrics are at /m\n" in server.get("/metrics").body


def test_telemetry_path_must_be_a_path():
    server = Harness("--telemetry=metrics")
    assert 'could not serve at "metrics"' in server.line("error")


def test_negotiation(server):
    """Format and encoding are told in the headers, and the body is what they say."""
    plain = {None: server.get().body, OPENMETRICS: server.get(headers={"Accept": OPENMETRICS}).body}
    assert plain[None].startswith(b"# text") and plain[OPENMETRICS].startswith(b"# openmetrics")
    for accept, kind in ((None, TEXT), (OPENMETRICS, OPENMETRICS), (";", TEXT)):
        for encoding, packed in ((None, False), ("gzip", True), ("gzip;q=0", False), ("br", False)):
            headers = {"Accept": accept, "Accept-Encoding": encoding}
            answer = server.get(headers={name: value for name, value in headers.items() if value})
            body = gzip.decompress(answer.body) if packed else answer.body
            assert answer.headers["Content-Type"] == kind, headers
            assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None), headers
            assert answer.headers["Vary"] == "Accept, Accept-Encoding", headers
            assert body == plain[accept if kind == OPENMETRICS else None], headers


def test_health_and_readiness():
    """503 and 200 follow what the poller says."""
    with Harness() as server:
        for word, path, status in (("unhealthy", "/-/healthy", 503), ("healthy", "/-/healthy", 200),
                                   ("unready", "/-/ready", 503), ("ready", "/-/ready", 200)):
            server.say(word)
            assert server.get(path).status == status, word
            assert server.get("/metrics").status == 200


def test_reload():
    """POST asks for a reload, where that is switched on; nothing else does."""
    with Harness("--lifecycle") as server:
        for method in ("GET", "HEAD", "PUT"):
            answer = server.get("/-/reload", method)
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert server.lines("reload") == []
        for _ in range(2):
            assert server.get("/-/reload", "POST").status == 200
        wait_until(lambda: len(server.lines("reload")) == 2, "two reloads were asked for")


def test_http_1_0(server):
    """An old client gets a length, and the connection ends, or stays if it asks."""
    client = server.connect()
    client.send(request(version="1.0", headers={"Connection": "Keep-Alive"}))
    assert len(client.answer().body) >= 200000
    client.send(request(version="1.0"))
    assert len(client.answer().body) >= 200000
    wait_until(client.ended, "the server closes after HTTP/1.0")


def test_pipelined(server):
    """Thirty requests in one write are answered in order."""
    client = server.connect()
    wanted = [("GET", "/metrics", 200), ("HEAD", "/metrics", 200), ("GET", "/nothing", 404)] * 10
    client.send(b"".join(request(path, method) for method, path, _ in wanted))
    for method, path, status in wanted:
        assert client.answer(method).status == status, (method, path)
    client.close()


def test_in_pieces(server):
    """A request that arrives byte by byte is as good as another."""
    client = server.connect()
    for _ in range(2):
        for byte in request("/-/ready"):
            client.send(bytes([byte]))
        assert client.answer().status == 200
    client.close()


def test_half_closed(server):
    """A client that has no more to send still gets its answer."""
    client = server.connect()
    client.send(request())
    client.sock.shutdown(socket.SHUT_WR)
    assert len(client.answer().body) >= 200000
    client.close()


def test_bodies_of_requests(server):
    """A small body is read and forgotten, a large one is refused, an endless one ends the connection."""
    client = server.connect()
    client.send(request(method="POST", headers={"Content-Length": 60000}) + b"x" * 60000)
    assert client.answer().status == 405
    client.send(request(headers={"Content-Length": 3}) + b"xyz")
    assert client.answer().status == 200
    client.send(request("/-/ready", "POST", {"Expect": "100-continue", "Content-Length": 2000000}))
    assert client.answer().status == 413
    wait_until(client.ended, "the server closes rather than read two megabytes")
    client = server.connect()
    before = server.resident_kb()
    with pytest.raises(OSError):
        client.send(request(method="POST", headers={"Transfer-Encoding": "chunked"}))
        for _ in range(2000):
            client.send(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
    assert server.grown_kb(before) < 4000


def flood(server, data):
    """Sends what may be refused half-way; the status, or None where the connection was cut."""
    client = server.connect()
    try:
        client.send(data)
        return client.answer().status
    except OSError:
        return None
    finally:
        client.close()


def test_huge_headers(server):
    """What does not fit is refused with its status, or cut; nothing of it stays in memory."""
    rows = [
        (request(headers={"X": "x" * 8000}), {200}),
        (request(headers={"X": "x" * 40000}), {431, 413, None}),
        (request(headers={"X": "x" * 1000000}), {431, 413, None}),
        (request(headers={f"X-{i}": "x" for i in range(5000)}), {431, 413, None}),
        (request("/" + "x" * 40000), {414, 431, None}),
        (request("/?" + "a=1&" * 20000), {414, 431, None}),
        (request("/metrics", "M" * 40000), {414, 431, 400, 501, None}),
        (request(headers={"Accept": "text/plain;q=0.1," * 500}), {200}),
        (request(headers={"Cookie": "a=" + "x" * 15000}), {200}),
    ]
    for data, statuses in rows:
        status = flood(server, data)
        assert status in statuses, f"{data[:60]}...: {status}"
    before = server.resident_kb()
    for _ in range(30):
        for data, _ in rows:
            flood(server, data)
    assert server.grown_kb(before) < 2000
    assert server.get().status == 200


def test_garbage(server):
    """Noise gets an error or is cut, never a 200 that it did not earn, and the server goes on."""
    noise = random.Random(7)
    rows = [b"\r\n" * 5000, b"GET\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"\0" * 3000,
            b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
            request(headers={"Content-Length": "-1"}), request(headers={"Content-Length": "9" * 30}),
            request(headers={"Transfer-Encoding": "chunked"}) + b"zz\r\n"]
    rows += [noise.randbytes(noise.randrange(1, 3000)) + b"\r\n\r\n" for _ in range(100)]
    clients = [server.connect() for _ in rows]
    for client, data in zip(clients, rows):
        try:
            client.send(data)
        except OSError:
            pass
    assert server.get().status == 200
    for client in clients:
        client.close()


def test_clients_that_leave(server):
    """Connections reset in the middle of a large answer leave nothing behind."""
    with Harness("--size=8000000") as big:
        for i in range(60):
            client = big.connect()
            client.send(request() * 3)
            client.sock.recv(1000)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", i % 2, 0))
            client.close()
        assert len(big.get().body) >= 8000000
        slow = big.connect()
        slow.send(request())
        slow.sock.recv(1000)  # and then it reads no further, and is still there when the server stops


def test_idle_and_slow_clients(server):
    """1,000 idle connections and clients that send a byte now and then: scrapes go on, and the others are sent
    away after ten seconds."""
    began = time.monotonic()
    idle = [server.connect() for _ in range(1000)]
    slow = [(server.connect(), request(headers={"X": "x" * 5000})) for _ in range(5)]
    slow += [(server.connect(), b"POST /metrics HTTP/1.1\r\n" + b"X: x\r\n" * 5000)]
    alive = server.connect()
    spent = server.cpu_seconds()

    def scrape_and_dribble():
        for client, data in slow:
            try:
                client.send(data[:1])
            except OSError:
                pass
        start = time.monotonic()
        assert server.get().status == 200 and alive.ask().status == 200
        return time.monotonic() - start < 2

    hold_for(scrape_and_dribble, "scrapes go on beside idle and slow clients", 8, every=0.2)
    assert not idle[0].ended() and not slow[0][0].ended(), "closed too early"
    everyone = idle + [client for client, _ in slow]
    wait_until(lambda: scrape_and_dribble() and all(client.ended() for client in everyone),
               "idle and slow clients are sent away", deadline=10)
    assert 9 < time.monotonic() - began < 20
    assert server.cpu_seconds() - spent < 4, "the server is busy with idle clients"
    assert alive.ask().status == 200
    alive.close()


def test_more_connections_than_fit():
    """At its limit the server lets the longest idle go, not the newcomer."""
    with Harness(command=["prlimit", "--nofile=128:128"]) as server:
        idle = [server.connect() for _ in range(300)]
        for _ in range(20):
            assert server.get().status == 200
        wait_until(lambda: sum(client.ended() for client in idle) >= 300 - 64, "the first of them are gone")
        assert not idle[-1].ended()


def test_out_of_file_descriptors():
    """With none left it neither spins nor dies, and recovers by itself."""
    with Harness() as server:
        old = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (14, old[1]))
        clients = [server.connect() for _ in range(50)]
        before = server.cpu_seconds()
        hold_for(lambda: server.process.poll() is None, "it lives", 1.5)
        assert server.cpu_seconds() - before < 0.4, "it spins"
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, old)
        wait_until(lambda: server.get().status == 200, "it serves again")
        for client in clients:
            client.close()


LISTEN = [
    # addresses, what is bound , or the error
    (["127.0.0.1:{port}"], "127.0.0.1:{port}"),
    (["[::1]:{port}"], "[::1]:{port}"),
    (["127.0.0.1:{port}", "[::1]:{port}"], "127.0.0.1:{port} [::1]:{port}"),
    ([":{port}"], "0.0.0.0:{port} [::]:{port}"),
    (["0.0.0.0:{port}"], "0.0.0.0:{port}"),
    (["127.0.0.1"], 'could not listen on "127.0.0.1": it is not HOST:PORT'),
    (["127.0.0.1:http"], "it is not HOST:PORT"),
    (["127.0.0.1:65536"], "it is not HOST:PORT"),
    (["::1:{port}"], "too many colons"),
    (["192.0.2.1:{port}"], "Cannot assign requested address"),
    (["127.0.0.1:{port}", "127.0.0.1:{port}"], "Address already in use"),
    (["x" * 70 + ".invalid:{port}"], 'could not listen on "xxx'),
]


def test_listen_addresses():
    for addresses, want in LISTEN:
        port = free_port()
        server = Harness(addresses=[address.format(port=port) for address in addresses])
        wait_until(lambda: server.lines("listening") or server.lines("error"), f"{addresses}: something is said")
        if server.lines("error"):
            assert want.format(port=port) in server.line("error"), addresses
            assert server.process.wait(timeout=5) == 1
        else:
            assert set(server.addresses()) == set(want.format(port=port).split()), addresses
            assert server.stop()[1] == "clean"


def default_port_is_free():
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, 10187))
            except OSError:
                return False
    return True


def test_default_addresses():
    """One of the two defaults may be taken: that is a warning. Both: an error."""
    if not default_port_is_free():
        pytest.skip("port 10187 is in use on this machine, or it has no IPv6")
    with Harness(addresses=()) as first:
        assert first.addresses() == ["127.0.0.1:10187", "[::1]:10187"]
        second = Harness(addresses=())
        assert 'could not listen on "[::1]:10187"' in second.line("error")
        assert second.process.wait(timeout=5) == 1
    with Harness(addresses=("127.0.0.1:10187",)), Harness(addresses=()) as other:
        assert 'could not listen on "127.0.0.1:10187": Address already in use' in other.line("warning")
        assert other.addresses() == ["[::1]:10187"]


def test_stops_at_once():
    """With connections idle, half a request in, and half an answer out."""
    with Harness("--size=8000000") as server:
        clients = [server.connect() for _ in range(50)]
        for client in clients[10:]:
            client.send(request()[:20])
        for client in clients[30:]:
            client.send(request()[20:])
        took, verdict = server.stop()
        assert took < 1000 and verdict == "clean"


def test_under_load(server):
    """Sixteen connections at once, as fast as they can: every answer whole."""
    done = subprocess.run(["/usr/bin/python3", "-c", f"""
import http.client, threading
def ask():
    c = http.client.HTTPConnection("127.0.0.1", {server.port}, timeout=20)
    for _ in range(100):
        c.request("GET", "/metrics"); r = c.getresponse(); assert r.status == 200 and len(r.read()) >= 200000
    good.append(1)
good = []
threads = [threading.Thread(target=ask) for _ in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(good))"""], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "16", done.stderr
