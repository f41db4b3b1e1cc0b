# SPDX-License-Identifier: PostgreSQL
"""The histories say what the exporter says: every family that it lists, no other, each with its labels."""

import re
import subprocess

from tests.support.cluster import ROOT
from tests.support.exporter import Samples, program

from .history import OUTCOMES, RULES
from .scenarios import SCENARIOS

LABELS_OF_PROMETHEUS = {"job", "instance"}


def described(samples):
    """{name of a series: the names of its labels}"""
    return {name: set(labels) - LABELS_OF_PROMETHEUS for name, labels, _ in samples}


def told():
    lines = (line.rsplit(" ", 1)[0] for job in ("stall", "yield", "steady", "vacancy") for line in SCENARIOS[job].lines())
    return Samples.parse("\n".join(sorted(set(lines))))


def test_the_families_of_the_exporter():
    listing = subprocess.run([program(), "--list-metrics"], capture_output=True, text=True, check=True).stdout
    listed = {name: set(filter(None, labels.split(","))) for name, _, labels, _ in
              (line.split("\t") for line in listing.splitlines())}
    found = {}
    for name, labels in described(told()).items():
        family = name if name in listed else re.sub(r"_(bucket|sum|count)$", "", name)
        found[family] = labels - {"le"}
    assert found == listed


def test_the_series_of_a_scrape():
    """Whatever the exporter's own picture has, a history has under the same name, labels and bounds."""
    golden = Samples.parse((ROOT / "tests/golden/example.prom").read_text())
    history = told()
    have, want = described(history), described(golden)
    assert {name: have.get(name) for name in want} == want
    for label, name in (("le", "pgleader_takeover_seconds_bucket"), ("le", "pgleader_poll_seconds_bucket"),
                        ("rule", "pgleader_transitions_total"), ("outcome", "pgleader_yields_total"),
                        ("mechanism", "pgleader_duty_info"), ("source", "pgleader_duty_info")):
        values = [{labels[label] for n, labels, _ in samples if n == name} for samples in (history, golden)]
        assert values[1] <= values[0], f"{name}: {label}"


def test_rules_and_outcomes_are_complete():
    history = told()
    assert {labels["rule"] for n, labels, _ in history if n == "pgleader_transitions_total"} == set(RULES)
    assert {labels["outcome"] for n, labels, _ in history if n == "pgleader_yields_total"} == set(OUTCOMES)
