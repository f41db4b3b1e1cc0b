# SPDX-License-Identifier: PostgreSQL
"""What stands outside the database: accepts a write only with a fencing token as high as it has seen.

A worker sends "GENERATION ITEM INSTANCE now|later" on a Unix socket, which no cut network stops. A call
that is to come later is held back until deliver(): it was under way while the leader changed.
"""

import selectors
import socket
import threading
import time
from collections import namedtuple

Call = namedtuple("Call", "at_ns generation item instance accepted late")


class Target:
    def __init__(self, path):
        self.calls = []
        self.held = []
        self.highest = 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        path.chmod(0o777)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def run(self):
        while not self.stopping:
            for key, _ in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    self.selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                else:
                    self.serve(key.fileobj)

    def serve(self, peer):
        try:
            words = peer.recv(200).decode().split()
            if len(words) == 4:
                peer.sendall(self.answer(*words).encode())
                return
        except OSError:
            pass
        self.selector.unregister(peer)
        peer.close()

    def answer(self, generation, item, instance, when):
        if when == "later":
            self.held.append((int(generation), int(item), instance))
            return "later\n"
        return "accepted\n" if self.judge(int(generation), int(item), instance) else "refused\n"

    def judge(self, generation, item, instance, late=False):
        with self.lock:
            accepted = generation >= self.highest
            self.highest = max(self.highest, generation)
            self.calls.append(Call(time.monotonic_ns(), generation, item, instance, accepted, late))
            return accepted

    def deliver(self):
        """What was held back arrives now; how many calls, and how many of them were accepted."""
        held, self.held = self.held, []
        return len(held), sum(self.judge(*call, late=True) for call in held)
