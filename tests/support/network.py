# SPDX-License-Identifier: PostgreSQL
"""Networks that misbehave: a port that drops SYNs, a route that drops packets, a name server that is silent."""

import ctypes
import os
import socket
import struct
import subprocess
import tempfile
import threading
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000


@contextmanager
def black_hole():
    """A port that answers no connection: its queue is full, so that the kernel drops what comes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


def run(*argv):
    subprocess.run(argv, check=True, capture_output=True)


class LostRoute:
    """A network of its own behind a veth pair; needs root. `socket(port)` listens in it at `address`."""

    address = "10.213.7.2"

    def __init__(self):
        self.name = f"pgl{os.getpid()}"

    def __enter__(self):
        run("ip", "netns", "add", self.name)
        try:
            run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "there", "netns", self.name)
            run("ip", "addr", "add", "10.213.7.1/30", "dev", self.name)
            run("ip", "link", "set", self.name, "up")
            self.inside("ip", "addr", "add", f"{self.address}/30", "dev", "there")
            self.inside("ip", "link", "set", "there", "up")
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        run("ip", "netns", "del", self.name)

    def inside(self, *argv):
        run("ip", "netns", "exec", self.name, *argv)

    def drop(self):
        self.inside("iptables", "-I", "INPUT", "-j", "DROP")
        self.inside("iptables", "-I", "OUTPUT", "-j", "DROP")

    def pass_on(self):
        self.inside("iptables", "-F")

    def listener(self):
        """A listening socket in that network: a socket belongs to where its thread was when it was made."""
        made = []

        def make():
            with open(f"/run/netns/{self.name}", "rb") as namespace:
                assert ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET) == 0
            made.append(socket.create_server((self.address, 0)))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]


class NameServer:
    """A name server at 127.0.0.53 that is silent until `answering`; then every name is 127.0.0.1. Needs root."""

    address = "127.0.5.53"

    def __init__(self):
        self.answering = False
        self.asked = 0
        self.resolv_conf = tempfile.NamedTemporaryFile("w", prefix="resolv-", suffix=".conf")
        self.resolv_conf.write(f"nameserver {self.address}\noptions timeout:5 attempts:2\n")
        self.resolv_conf.flush()

    def __enter__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.address, 53))
        self.socket.settimeout(0.05)
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        self.socket.close()
        self.resolv_conf.close()

    @property
    def wrapper(self):
        """What runs a command so that it asks this name server, and it alone."""
        return ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
                self.resolv_conf.name)

    def run(self):
        while not self.stopping:
            try:
                query, peer = self.socket.recvfrom(512)
            except TimeoutError:
                continue
            self.asked += 1
            if self.answering:
                self.socket.sendto(self.answer(query), peer)

    @staticmethod
    def answer(query):
        end = query.index(b"\0", 12) + 5  # the question: a name, its type and its class
        is_a = query[end - 4:end - 2] == b"\0\1"
        header = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + b"\x7f\0\0\1"
        return header + query[12:end] + (record if is_a else b"")
