# SPDX-License-Identifier: PostgreSQL
"""The golden scrapes are what both formats demand: by our strict checker, by promtool, and by each other."""

import subprocess

from tests.support.cluster import ROOT
from tests.support.openmetrics import check_openmetrics, check_text

GOLDEN = ROOT / "tests/golden"


def test_golden_openmetrics_is_strict():
    assert check_openmetrics((GOLDEN / "example.openmetrics").read_bytes()) == []


def test_golden_text_is_strict():
    assert check_text((GOLDEN / "example.prom").read_bytes()) == []


def test_promtool_is_silent():
    done = subprocess.run(["promtool", "check", "metrics"], input=(GOLDEN / "example.prom").read_bytes(),
                          capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_both_formats_have_the_same_series():
    """What is negotiated changes the metadata and nothing else: no series gets another name."""
    text, openmetrics = ([line for line in (GOLDEN / name).read_text().split("\n") if not line.startswith("#")]
                         for name in ("example.prom", "example.openmetrics"))
    assert text == openmetrics and len(text) > 150


def test_one_byte_less_is_noticed():
    """The checker is not blind on a real scrape: a line cut short, or doubled, is a problem."""
    lines = (GOLDEN / "example.openmetrics").read_bytes().split(b"\n")
    for number, line in list(enumerate(lines))[::7]:
        if line and not line.startswith(b"# HELP"):
            doubled = lines[:number] + [line] + lines[number:]
            assert check_openmetrics(b"\n".join(doubled)), f"doubled: {line}"
            cut = lines[:number] + [line[:-1]] + lines[number + 1:]
            if not line[-2:-1].isdigit() or line.startswith(b"#"):
                assert check_openmetrics(b"\n".join(cut)), f"cut: {line}"
