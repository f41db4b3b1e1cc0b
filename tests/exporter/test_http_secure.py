# SPDX-License-Identifier: PostgreSQL
# ctest: serial asan tsan
"""The web server with a web configuration: passwords, TLS, headers, and files that change while it serves."""

import os
import select
import ssl
import statistics
import threading
import time

import pytest

from tests.support.wait import hold_for, wait_until
from tests.support.web import Authority, Harness, basic, request

# Hashes of: secret and secret2 (cost 4), slow (cost 8), and one that takes seconds (cost 15) and fits nothing.
SECRET = "$2b$04$nVN0/QnaD8I7l6/HJCXODu34Iub3ZQKQJ9/If27aCzzGM6kdgmZlu"
SECRET2 = "$2b$04$HIWWZhjf6wR3K9BUJrAaa.sbVCeZK3cUlcxrGWYv9PUUoe4WRSRF2"
SLOW = "$2b$08$JcCyUFa0eT4vBXhHA/BqLu.2KT7RmRYif9kot6yEk7oml.q.IymnC"
SECONDS = "$2b$15$c4iO5iLeG.TN6vh1GMrw0udJ/HNDndJNs4T0mJh9hJCsnpMmFyWjS"
CHALLENGE = 'Basic realm="pgleader", charset="UTF-8"'


def write(path, text):
    """Replaces a file in one step, as configuration management does."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)
    return path


def users(**hashes):
    return "basic_auth_users:\n" + "".join(f"  {name}: {value}\n" for name, value in hashes.items())


def tls(certificate, key, more=""):
    return f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n{more}"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "good")


@pytest.fixture
def config(tmp_path):
    return tmp_path / "web.yml"


def test_passwords(config):
    """Every path wants a password; it is asked for properly, and nothing of it is said anywhere."""
    write(config, users(alice=SECRET, bob=SLOW))
    with Harness("--lifecycle", f"--web-config={config}") as server:
        for path in ("/", "/metrics", "/probe?target=one", "/-/healthy", "/-/ready", "/nothing"):
            for headers in ({}, {"Authorization": "Basic"}, {"Authorization": "Bearer x"}, basic("alice", "wrong"),
                            basic("bob", "secret"), basic("nobody", "secret"), basic("alice", "")):
                answer = server.get(path, headers=headers)
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, CHALLENGE), (path, headers)
                assert answer.body == b"unauthorized\n"
            assert server.get(path, headers=basic("alice", "secret")).status != 401, path
            assert server.get(path, headers=basic("bob", "slow")).status != 401, path
        assert server.get("/-/reload", "POST", basic("alice", "wrong")).status == 401
        assert server.get("/-/reload", "POST").status == 401
        assert server.lines("reload") == []
        assert server.get("/-/reload", "POST", basic("alice", "secret")).status == 200
        assert not any(word in line for line in server.output for word in ("secret", "wrong", "$2b$", "alice"))


def test_password_on_a_connection_that_stays(config):
    """Parked requests, refused ones and pipelined ones do not get into each other's way."""
    write(config, users(alice=SLOW))
    with Harness("--size=100000", f"--web-config={config}") as server:
        client = server.connect()
        good, bad = basic("alice", "slow"), basic("alice", "wrong")
        rows = [({}, 401), (bad, 401), (good, 200), (good, 200), (bad, 401), (good, 200)]
        for headers, status in rows:
            assert client.ask(headers=headers).status == status
        client.send(b"".join(request(headers=headers) for headers, _ in rows))
        for _, status in rows:
            assert client.answer().status == status
        assert client.ask(method="HEAD", headers=basic("alice", "other")).status == 401
        client.send(request("/metrics", "POST", {**basic("alice", "third"), "Content-Length": 3}) + b"xyz")
        assert client.answer().status == 401
        assert client.ask(headers=good).status == 200
        client.close()


def test_wrong_passwords_in_plenty(config):
    """Fifty wrong passwords a second: those who know theirs wait for nobody, and memory stays as it is."""
    write(config, users(alice="$2b$10$IgQKhUIKCvsaqSdw5m2EB.ntuQ27DkrdOJoeyyqAgK5/FNbbytFE."))
    good = basic("alice", "slow")
    with Harness("--size=100000", f"--web-config={config}") as server:
        wait_until(lambda: server.get(headers=good).status == 200, "the right password is known")
        statuses, over = [], threading.Event()

        def attack(number):
            n = 0
            while not over.wait(0.1):
                n += 1
                statuses.append(server.get(headers=basic("alice", f"wrong {number} {n}")).status)

        threads = [threading.Thread(target=attack, args=(number,)) for number in range(25)]
        for thread in threads:
            thread.start()
        times = []

        def scrape():
            start = time.monotonic()
            assert server.get(headers=good).status == 200
            times.append(time.monotonic() - start)
            return True

        hold_for(scrape, "scrapes go on", 1, every=0.02)
        before = server.resident_kb()
        hold_for(scrape, "scrapes go on", 3, every=0.02)
        grown = server.grown_kb(before)
        over.set()
        for thread in threads:
            thread.join()
        assert set(statuses) == {401, 429}, "wrong passwords are refused, or turned away at once"
        assert len(statuses) > 4 * 50
        assert statistics.median(times) < 0.1 and max(times) < 1
        assert grown < 3000
        scrape()


def test_stops_while_a_password_is_checked(config):
    """Even where one takes seconds and several wait."""
    write(config, users(alice=SECONDS))
    with Harness(f"--web-config={config}") as server:
        clients = [server.connect() for _ in range(12)]
        for number, client in enumerate(clients):
            client.send(request(headers=basic("alice", f"wrong {number}")))
        sockets = [client.sock for client in clients]
        wait_until(lambda: len(select.select(sockets, [], [], 0)[0]) == 4, "eight wait, four are turned away")
        took, verdict = server.stop()
        assert took < 1000 and verdict == "clean"


def test_clients_that_leave_while_they_wait(config):
    """A connection that is gone when its password has been checked is no trouble."""
    write(config, users(alice=SLOW))
    with Harness(f"--web-config={config}") as server:
        for number in range(8):
            client = server.connect()
            client.send(request(headers=basic("alice", f"gone {number}")))
            client.close()
        wait_until(lambda: server.get(headers=basic("alice", "slow")).status == 200, "the server goes on")


def test_headers(config):
    """The configured headers are on every answer, errors too."""
    write(config, "http_server_config:\n  headers:\n    X-Frame-Options: deny\n"
                  "    Content-Security-Policy: default-src 'none'\n" + users(alice=SECRET))
    with Harness(f"--web-config={config}") as server:
        for headers, status in (({}, 401), (basic("alice", "secret"), 200)):
            answer = server.get("/", headers=headers)
            assert (answer.status, answer.headers["X-Frame-Options"]) == (status, "deny")
            assert answer.headers["Content-Security-Policy"] == "default-src 'none'"


def test_web_config_changes(config):
    """Users come and go without a restart; a broken file keeps the last good one and is told once."""
    write(config, users(alice=SECRET))
    with Harness(f"--web-config={config}") as server:
        client = server.connect()

        def status(user, password):
            return client.ask("/-/ready", headers=basic(user, password)).status

        assert (status("alice", "secret"), status("bob", "slow")) == (200, 401)
        write(config, users(alice=SECRET2, bob=SLOW))
        wait_until(lambda: status("bob", "slow") == 200, "the new user is known", deadline=5)
        assert (status("alice", "secret"), status("alice", "secret2")) == (401, 200)
        write(config, "basic_auth_users: [")
        complaint = server.line("warn")
        assert complaint.startswith(str(config)) or f"{config}:" in complaint, complaint
        assert complaint.endswith("keeping the last settings")
        hold_for(lambda: status("bob", "slow") == 200, "the last good users stay", 1.5)
        config.unlink()
        wait_until(lambda: len(server.lines("warn")) == 2, "the missing file is told")
        assert status("bob", "slow") == 200
        write(config, "tls_server_config:\n  cert_file: /none\n  key_file: /none\n")
        wait_until(lambda: len(server.lines("warn")) == 3, "the missing certificate is told")
        write(config, users(carol=SECRET))
        wait_until(lambda: status("carol", "secret") == 200, "it recovers by itself", deadline=5)
        assert status("bob", "slow") == 401
        assert len(server.lines("warn")) == 3


def test_web_config_that_never_was_good(config):
    """At the start a broken file is an error."""
    for text in ("basic_auth_users: [", "no_such_key: 1\n", users(alice="plain"), tls("/none", "/none")):
        write(config, text)
        server = Harness(f"--web-config={config}")
        assert str(config) in server.line("error"), text
        assert server.process.wait(timeout=5) == 1


def serial_of(server, context):
    client = server.connect().wrap(context)
    serial = int(client.sock.getpeercert()["serialNumber"], 16)
    assert client.ask("/-/ready").status == 200
    client.close()
    return serial


def test_certificate_rotates(config, authority, tmp_path):
    """A new certificate is shown to who connects from then on; those who are there stay; a broken one is not
    taken."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def install(serial):
        for source, target in zip(authority.issue("localhost", serial), (cert, key)):
            write(target, source.read_text())

    install(1)
    write(config, tls(cert, key))
    trust = authority.trust()
    with Harness("--size=300000", f"--web-config={config}") as server:
        assert serial_of(server, trust) == 1
        stays = server.connect().wrap(trust)
        assert len(stays.ask().body) > 299000
        install(2)
        wait_until(lambda: serial_of(server, trust) == 2, "the new certificate is shown", deadline=5)
        assert len(stays.ask().body) > 299000
        write(key, authority.issue("localhost", 3)[1].read_text())
        assert "could not use certificate" in server.line("warn")
        hold_for(lambda: serial_of(server, trust) == 2, "the last good certificate stays", 1.5)
        assert len(server.lines("warn")) == 1
        install(4)
        wait_until(lambda: serial_of(server, trust) == 4, "it recovers by itself", deadline=5)
        assert len(stays.ask().body) > 299000
        assert server.get(tls=trust).status == 200
        write(config, users(alice=SECRET))
        wait_until(lambda: len(server.lines("warn")) == 2, "TLS cannot be switched off")
        assert "takes a restart" in server.lines("warn")[1]
        assert serial_of(server, trust) == 4
        stays.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_is_strict(config, authority):
    """Plain HTTP, TLS 1.1, and strangers to the certificate get nothing; a slow handshake harms nobody."""
    write(config, tls(*authority.issue("localhost", 5)))
    with Harness(f"--web-config={config}") as server:
        plain = server.connect()
        plain.send(request())
        wait_until(plain.ended, "plain HTTP is cut")
        half = server.connect()
        half.send(b"\x16\x03\x01\x02\x00")
        old = authority.trust(minimum_version=ssl.TLSVersion.TLSv1_1, maximum_version=ssl.TLSVersion.TLSv1_1)
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError):
            serial_of(server, old)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            only = authority.trust(minimum_version=version, maximum_version=version)
            assert serial_of(server, only) == 5
        half.close()


def test_least_tls_version(config, authority):
    write(config, tls(*authority.issue("localhost", 6), "  min_version: TLS13\n"))
    with Harness(f"--web-config={config}") as server:
        assert serial_of(server, authority.trust()) == 6
        with pytest.raises(OSError):
            serial_of(server, authority.trust(maximum_version=ssl.TLSVersion.TLSv1_2))


def test_client_certificates(config, authority, tmp_path):
    """Who has to show one, and which will do."""
    strangers = Authority(tmp_path / "strangers", "strangers")
    clients = {"none": None, "good": authority.issue("client", 7, "clientAuth"),
               "stranger": strangers.issue("client", 8, "clientAuth"),
               "server": authority.issue("client", 9, "serverAuth")}
    allowed = {
        "NoClientCert": {"none", "good", "stranger", "server"},
        "RequestClientCert": {"none", "good", "stranger", "server"},
        "RequireAnyClientCert": {"good", "stranger", "server"},
        "VerifyClientCertIfGiven": {"none", "good"},
        "RequireAndVerifyClientCert": {"good"},
    }
    server_cert = authority.issue("localhost", 10)
    for kind, may in allowed.items():
        more = f"  client_auth_type: {kind}\n"
        if "Verify" in kind:
            more += f"  client_ca_file: {authority.certificate}\n"
        write(config, tls(*server_cert, more))
        with Harness(f"--web-config={config}") as server:
            for name, own in clients.items():
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    context = authority.trust(own, maximum_version=version)
                    try:
                        got = serial_of(server, context) == 10
                    except OSError:
                        got = False
                    assert got == (name in may), f"{kind}: {name} by {version.name}"


def test_tls_with_passwords(config, authority):
    """Both at once, with requests that have to wait, and at full speed."""
    write(config, tls(*authority.issue("localhost", 11)) + users(alice=SLOW))
    trust = authority.trust()
    with Harness("--size=300000", f"--web-config={config}") as server:
        client = server.connect().wrap(trust)
        assert client.ask(headers=basic("alice", "wrong")).status == 401
        for _ in range(50):
            assert len(client.ask(headers=basic("alice", "slow")).body) > 299000
        client.send(request(headers=basic("alice", "slow")) * 5)
        for _ in range(5):
            assert len(client.answer().body) > 299000
        idle = [server.connect() for _ in range(200)]
        assert server.get(headers=basic("alice", "slow"), tls=trust).status == 200
        for other in idle:
            other.close()
        client.close()
