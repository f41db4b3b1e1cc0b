# SPDX-License-Identifier: PostgreSQL
"""The walls of the house: who may include what, who may say what, and how large a room may grow."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.source import ROOT, code, files, room, scripts, short, text, with_suffix

# header -> the only files that may include it (globs below the root); at most that many files
OWNERS = [
    ("libpq-fe.h", "pg/*", None),
    ("microhttpd.h", "exporter/http.c candidate/run/health.c", 2),
    ("gnutls/gnutls.h", "exporter/tls.c", 1),
    ("libfyaml.h", "observe/yaml.c", 1),
    ("curses.h", "tui/term.c", 1),
    ("systemd/sd-daemon.h", "base/notify.c", 1),
    ("crypt.h", "exporter/*.c", 1),
]

# room -> the rooms whose headers it may include; tests may include all
ARROWS = {
    "base": {"base"},
    "pg": {"pg", "base"},
    "observe": {"observe", "pg", "base"},
    "exporter": {"exporter", "observe", "pg", "base"},
    "tui": {"tui", "observe", "pg", "base"},
    "candidate": {"candidate", "pg", "base"},
}

BANNED = [
    ("strcpy", "it cannot know the room that is left: use text_copy or asprintf"),
    ("strcat", "it cannot know the room that is left: write to a FILE"),
    ("sprintf", "it cannot know the room that is left: use snprintf or a FILE"),
    ("vsprintf", "it cannot know the room that is left: use vsnprintf or a FILE"),
    ("atoi", "it cannot fail: use strtoll and look at where it stopped"),
    ("atol", "it cannot fail: use strtoll and look at where it stopped"),
    ("sscanf", "it overflows without a word: parse by hand or with strtoll"),
    ("strtok", "it keeps state between threads: use strtok_r or strcspn"),
    ("gets", "it cannot know the room that is left: use getline"),
    ("localtime", "it is not thread-safe, and the server's times are UTC: use gmtime_r"),
    ("gmtime", "it is not thread-safe: use gmtime_r"),
]

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 80
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
SPDX = "SPDX-License-Identifier: PostgreSQL"
FIRST_LINE = {".c": f"/* {SPDX} */", ".h": f"/* {SPDX} */", ".sql": f"-- {SPDX}", ".py": f"# {SPDX}",
              ".sh": f"# {SPDX}", "": f"# {SPDX}"}


def sources():
    return [path for path in with_suffix(".c", ".h") if room(path) in ARROWS]


def test_headers_have_one_owner():
    """libpq, libmicrohttpd, libfyaml, curses, sd-daemon and crypt are each known to one place."""
    wrong = []
    for header, owner, most in OWNERS:
        users = [path for path in sources() if header in INCLUDE.findall(text(path))]
        wrong += [f"{short(path)} includes {header}; only {owner} may"
                  for path in users if not any(path in ROOT.glob(one) for one in owner.split())]
        if most is not None and len(users) > most:
            wrong.append(f"{header} is included by {len(users)} files, not {most}: {', '.join(map(short, users))}")
    assert not wrong, "\n".join(wrong)


def test_arrows_point_down():
    """No room includes a header of a room above or beside it."""
    wrong = []
    for path in sources():
        for header in INCLUDE.findall(text(path)):
            there = header.split("/")[0]
            if "/" in header and there in ARROWS and there not in ARROWS[room(path)]:
                wrong.append(f"{short(path)} includes {header}; {room(path)} may include {sorted(ARROWS[room(path)])}")
    assert not wrong, "\n".join(wrong)


def test_own_headers_are_named_by_their_room():
    """#include "base/text.h", never "text.h": a reader sees where it comes from."""
    local = {path.name for path in with_suffix(".h")}
    wrong = [f'{short(path)} includes "{header}" without its room'
             for path in sources() for header in re.findall(r'#\s*include\s*"([^"]+)"', text(path))
             if "/" not in header and header in local]
    assert not wrong, "\n".join(wrong)


def test_only_the_operator_terminates():
    """pg_terminate_backend stands in the operator's program and the ledger alone."""
    allowed = {"tui", "ledger", "tests", "scripts"}
    wrong = [short(path) for path in files()
             if path.suffix != ".md" and room(path) not in allowed and "pg_terminate_backend" in text(path)]
    assert not wrong, f"pg_terminate_backend in {', '.join(wrong)}"


def test_the_exporter_cannot_terminate():
    """The exporter's bytes do not even contain the word."""
    program = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin"), "pgleader_exporter")
    data = program.read_bytes()
    assert b"pg_stat_get_activity" in data, f"{program} does not contain its own query: is it the exporter?"
    assert b"pg_terminate_backend" not in data
    assert b"pg_cancel_backend" not in data


@pytest.mark.parametrize("function, reason", BANNED)
def test_banned_functions(function, reason):
    call = re.compile(rf"(?<![\w.>]){function}\s*\(")
    wrong = [f"{short(path)}:{source.count(chr(10), 0, m.start()) + 1}: {function}: {reason}"
             for path in with_suffix(".c", ".h") for source in [code(text(path))] for m in call.finditer(source)]
    assert not wrong, "\n".join(wrong)


def test_files_stay_readable():
    """No file of ours is longer than 500 lines."""
    ours = with_suffix(".c", ".h", ".sql", ".py") + scripts("sh") + scripts("python")
    wrong = [f"{short(path)}: {lines} lines" for path in ours
             if (lines := text(path).count("\n")) > MAX_FILE_LINES]
    assert not wrong, "\n".join(wrong)


def functions():
    """(path, name, first line, last line) of every C function, by universal-ctags."""
    tags = subprocess.run(
        ["ctags", "--languages=C", "--kinds-C=f", "--fields=ne", "--excmd=number", "-f", "-", "-L", "-"],
        input="\n".join(map(str, with_suffix(".c"))), capture_output=True, text=True, check=True).stdout
    for line in tags.splitlines():
        if line.startswith("!"):
            continue
        name, path, _, *rest = line.split("\t")
        fields = dict(field.split(":", 1) for field in rest if ":" in field)
        if "end" in fields:
            yield Path(path), name, int(fields["line"]), int(fields["end"])


def test_functions_stay_readable():
    """No function is longer than 80 lines."""
    found = list(functions())
    assert found, "ctags names no function at all"
    wrong = [f"{short(path)}:{first}: {name} has {last - first + 1} lines"
             for path, name, first, last in found if last - first + 1 > MAX_FUNCTION_LINES]
    assert not wrong, "\n".join(wrong)


def first_line(path):
    """The first line, or the second where the first is a shebang."""
    lines = text(path).split("\n", 2)
    return lines[1] if lines[0].startswith("#!") else lines[0]


def test_every_file_names_its_licence():
    """Line 1 is the SPDX line; only a shebang may stand before it. Empty files are free."""
    ours = with_suffix(".c", ".h", ".sql", ".py") + scripts("sh") + scripts("python")
    wrong = [f"{short(path)}: {first_line(path)!r}" for path in ours
             if text(path) and first_line(path) != FIRST_LINE[path.suffix]]
    assert not wrong, "\n".join(wrong)


def test_headers_are_included_once():
    """#pragma once, in every header."""
    wrong = [short(path) for path in with_suffix(".h") if "\n#pragma once\n" not in text(path)]
    assert not wrong, "\n".join(wrong)


def test_ci_runs_the_documented_command():
    """.ci/run calls scripts/test and nothing else."""
    lines = [line for line in text(ROOT / ".ci/run").splitlines() if line and not line.startswith("#")]
    assert lines == ['exec "$(dirname "$0")/../scripts/test"']
