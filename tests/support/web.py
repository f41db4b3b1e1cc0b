# SPDX-License-Identifier: PostgreSQL
"""The web server with nothing behind it, a plain client for it, and throwaway certificates."""

import base64
import os
import socket
import ssl
import subprocess
import threading
from pathlib import Path

from .wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin"))


class Harness:
    """http_harness on a free port of 127.0.0.1. Leaving the `with` stops it and looks that it was clean."""

    def __init__(self, *options, addresses=("127.0.0.1:0",), command=()):
        self.process = subprocess.Popen([*map(str, command), BIN / "http_harness", *map(str, options), *addresses],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.output = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.output.append(line.rstrip("\n"))

    def lines(self, word):
        """What was printed after that word, a string a line."""
        return [rest for first, _, rest in (line.partition(" ") for line in list(self.output)) if first == word]

    def line(self, word):
        return wait_until(lambda: self.lines(word), f"the harness prints {word}, not {self.output}")[-1]

    def say(self, word):
        done = len(self.lines("done"))
        self.send(word)
        wait_until(lambda: len(self.lines("done")) > done, f"the harness obeys {word}")

    def send(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def addresses(self):
        return self.line("listening").split()

    @property
    def port(self):
        return int(self.addresses()[0].rpartition(":")[2])

    def stop(self):
        """Milliseconds that stopping took, and "clean" if no body is missing a reference."""
        self.send("stop")
        milliseconds, verdict = self.line("stopped").split()
        self.process.wait(timeout=10)
        return int(milliseconds), verdict

    def __enter__(self):
        self.addresses()
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            took, verdict = self.stop()
            if kind is None:
                assert took < 1000 and verdict == "clean", f"stopped in {took} ms, {verdict}"
        assert kind is not None or self.process.returncode == 0, f"ended by {self.process.returncode}"

    def resident_kb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def grown_kb(self, before):
        """Growth since resident_kb() was before; 0 on sanitized builds, which keep what is freed for a while."""
        return 0 if os.environ.get("PGLEADER_VARIANT") else self.resident_kb() - before

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self, timeout=10):
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout))

    def get(self, path="/metrics", method="GET", headers=None, tls=None):
        """One request on a connection of its own."""
        client = self.connect()
        try:
            if tls:
                client.wrap(tls)
            return client.ask(path, method, {**(headers or {}), "Connection": "close"})
        finally:
            client.close()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:80]!r}>"


class Client:
    """One connection, read strictly by Content-Length: a byte too many breaks the next answer."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def wrap(self, context):
        self.sock = context.wrap_socket(self.sock, server_hostname="localhost")
        return self

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the connection ended")
        self.rest += data

    def answer(self, method="GET"):
        while b"\r\n\r\n" not in self.rest:
            self.more()
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        size = 0 if method == "HEAD" else int(headers["Content-Length"])
        while len(self.rest) < size:
            self.more()
        body, self.rest = self.rest[:size], self.rest[size:]
        return Answer(int(first.split()[1]), headers, body)

    def ask(self, path="/metrics", method="GET", headers=None):
        self.send(request(path, method, headers))
        return self.answer(method)

    def ended(self):
        """Whether the other side has closed; never blocks for long."""
        self.sock.settimeout(0.001)
        try:
            return self.sock.recv(65536) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


def request(path="/metrics", method="GET", headers=None, version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode()


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory, name):
        self.directory, self.name = Path(directory), name
        self.directory.mkdir(exist_ok=True)
        self.certificate, self.key = self.directory / "ca.crt", self.directory / "ca.key"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def openssl(self, *argv):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True, cwd=self.directory)

    def issue(self, name, serial, usage="serverAuth"):
        """(certificate, key), paths of PEM files."""
        key, request_, cert, ext = (self.directory / f"{name}{serial}.{end}" for end in ("key", "csr", "crt", "ext"))
        ext.write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage={usage}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", key, "-out", request_)
        self.openssl("x509", "-req", "-in", request_, "-CA", self.certificate, "-CAkey", self.key, "-days", "2",
                     "-set_serial", serial, "-extfile", ext, "-out", cert)
        return cert, key

    def trust(self, client=None, **settings):
        """A client's context that trusts this authority; client is its own (certificate, key)."""
        context = ssl.create_default_context(cafile=self.certificate)
        for name, value in settings.items():
            setattr(context, name, value)
        if client:
            context.load_cert_chain(*client)
        return context
