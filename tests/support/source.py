# SPDX-License-Identifier: PostgreSQL
"""The project's own files, and C text without its comments and strings."""

import os
import re
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"build", ".git", "node_modules", "__pycache__", ".pytest_cache", ".cache"}

COMMENT_OR_STRING = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X)


@lru_cache(maxsize=None)
def files():
    """Every file of the project, sorted; what is built or fetched is not among them."""
    found = []
    for folder, names, leaves in os.walk(ROOT):
        names[:] = sorted(n for n in names if n not in SKIPPED)
        found += [Path(folder, leaf) for leaf in leaves if not leaf.endswith((".swp", "~", ".pyc"))]
    return sorted(found)


def with_suffix(*suffixes):
    return [path for path in files() if path.suffix in suffixes]


def scripts(word):
    """Files without a suffix or with .sh whose first line is a shebang that names `word`."""
    return [path for path in with_suffix("", ".sh")
            if (lines := text(path).split("\n", 1)) and lines[0].startswith("#!") and word in lines[0]]


@lru_cache(maxsize=None)
def text(path):
    return path.read_text(encoding="utf-8", errors="replace")


def room(path):
    """The first folder of a path: base, pg, observe, ..."""
    return path.relative_to(ROOT).parts[0]


def short(path):
    return str(path.relative_to(ROOT))


def code(source):
    """C text with comments and string literals blanked; lines keep their numbers."""
    return COMMENT_OR_STRING.sub(lambda m: '""' + "\n" * m[0].count("\n"), source)
