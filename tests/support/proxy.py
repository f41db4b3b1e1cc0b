# SPDX-License-Identifier: PostgreSQL
"""A TCP proxy that can lose every packet without a reset, as a dead route does; needs no privilege."""

import selectors
import socket
import threading


class Proxy:
    """`with Proxy(port) as proxy:` forwards 127.0.0.1:proxy.port to 127.0.0.1:port."""

    def __init__(self, target, listener=None):
        self.target = target
        self.listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.silent = self.cutting = False
        self.accepted = 0
        self.peers = {}
        self.stopping = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        for s in [self.listener, *self.peers]:
            s.close()

    def drop(self):
        """From now on nothing passes, in no direction, and nothing is closed."""
        self.silent = True

    def cut(self):
        """Closes what is open, at both ends; whoever connects again passes."""
        self.cutting = True

    def pass_on(self):
        self.silent = False

    def run(self):
        while not self.stopping:
            if self.cutting:
                self.cutting = False
                for client in list(self.peers):
                    self.end(client)
            for key, _ in self.selector.select(0.01):
                if self.silent:
                    threading.Event().wait(0.005)  # readable, and left unread
                elif key.fileobj is self.listener:
                    self.accept()
                else:
                    self.forward(key.fileobj)

    def accept(self):
        client, _ = self.listener.accept()
        self.accepted += 1
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            client.close()
            return
        self.peers[client], self.peers[server] = server, client
        for s in (client, server):
            s.settimeout(5)
            self.selector.register(s, selectors.EVENT_READ)

    def forward(self, source):
        peer = self.peers.get(source)
        if peer is None:
            return  # closed in this round
        try:
            data = source.recv(65536)
            if data:
                peer.sendall(data)
                return
        except OSError:
            pass
        self.end(source)

    def end(self, one):
        """Closes both ends of a connection, unless the other end was the first to go."""
        for s in (one, self.peers.get(one)):
            if s in self.peers:
                self.selector.unregister(s)
                del self.peers[s]
                s.close()
