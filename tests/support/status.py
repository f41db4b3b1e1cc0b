# SPDX-License-Identifier: PostgreSQL
"""Runs `pgleader status`, and reads what it says."""

import csv
import io
import json
import os
import subprocess

import jsonschema

from .cluster import ROOT
from .exporter import program

SCHEMA = json.loads((ROOT / "tui/status.schema.json").read_text())


def strict(node):
    """The schema with no room for what it does not name: readers ignore a new field, the tests do not."""
    kept = {k: strict(v) if isinstance(v, dict) else v for k, v in node.items()}
    return {**kept, "additionalProperties": False} if "properties" in node and "required" in node else kept


CHECK = jsonschema.Draft7Validator(strict(SCHEMA))


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", **kept, **more}


def status(*argv, env=None, timeout=60):
    """The finished process; its output is text with the line ends that it wrote."""
    done = subprocess.run([str(program("pgleader")), "status", *map(str, argv)], env=environment(**(env or {})),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    done.stdout, done.stderr = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    return done


class Picture:
    """The JSON of one look, checked against the schema."""

    def __init__(self, *argv, expect=None):
        done = status("--json", *argv)
        self.code, self.errors = done.returncode, done.stderr
        assert expect in (None, self.code), f"exit {self.code}, not {expect}\n{done.stdout}{done.stderr}"
        self.document = json.loads(done.stdout, parse_constant=lambda word: 1 / 0)
        CHECK.validate(self.document)

    def server(self, name=None):
        found = [s for s in self.document["servers"] if name in (None, s["server"])]
        assert len(found) == 1, f"{len(found)} servers"
        return found[0]

    def duties(self, server=None):
        return {d["duty"]: d for s in self.document["servers"] if server in (None, s["server"]) for d in s["duties"]}

    def duty(self, name, server=None):
        return self.duties(server)[name]

    def states(self, server=None):
        return {name: d["state"] for name, d in self.duties(server).items()}


def table(done):
    """The lines of the text's table as lists of words, without the title."""
    body = done.stdout.split("\n\n", 1)[1]
    return [line.split() for line in body.splitlines()[1:]]


def rows(done):
    """The CSV as dictionaries."""
    return list(csv.DictReader(io.StringIO(done.stdout, newline=""), strict=True))
