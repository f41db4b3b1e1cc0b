# SPDX-License-Identifier: PostgreSQL
"""The program that yields: tests/races/race.c, one process for many yields."""

import json
import select
import subprocess
import tempfile

from tests.support.exporter import program
from tests.support.scene import config


class Driver:
    """`with Driver(server_entry) as d:` where server_entry is one of tests.support.scene.server(); more is of config()."""

    def __init__(self, entry, **more):
        self.file = tempfile.NamedTemporaryFile("w", prefix="pgleader-race-", suffix=".yml")
        self.file.write(config(entry, **more))
        self.file.flush()
        self.buffer = b""

    def __enter__(self):
        self.process = subprocess.Popen([str(program("race")), self.file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.file.close()

    def say(self, words):
        self.process.stdin.write(words.encode() + b"\n")
        self.process.stdin.flush()

    def line(self, deadline=60):
        while b"\n" not in self.buffer:
            assert select.select([self.process.stdout], [], [], deadline)[0], "the driver does not answer"
            data = self.process.stdout.read1(65536)
            assert data, f"the driver ended with status {self.process.wait()}"
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def hear(self):
        """"asked", "armed", or the JSON object of the yield's end."""
        line = self.line()
        if not line.startswith("done "):
            return line
        text = line[5:]
        while (line := self.line()) != "end":
            text += line
        return json.loads(text)

    def ask(self, duty, pid, generation=-1, wait_ms=40, grace_ms=0, pause="-"):
        self.say(f"ask {duty} {pid} {generation} {wait_ms} {grace_ms} {pause}")
        return self.hear()

    def go(self):
        """Confirms, or ends a pause; what comes of it is heard."""
        self.say("go")
