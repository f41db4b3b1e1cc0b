# SPDX-License-Identifier: PostgreSQL
"""Runs a subcommand of pgleader to its end."""

import json
import os
import subprocess

from .exporter import program


def pgleader(*argv, env=None, given=None, timeout=60):
    """The finished process of `pgleader ARGV...`, with an environment of its own."""
    full = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", **(env or {})}
    full.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    return subprocess.run([str(program("pgleader")), *map(str, argv)], env=full, input=given or "", capture_output=True,
                          text=True, timeout=timeout)


def answer(*argv, status=0, **kw):
    """What `pgleader ARGV... --json` prints, which must end with that status."""
    done = pgleader(*argv, "--json", **kw)
    assert done.returncode == status, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)
