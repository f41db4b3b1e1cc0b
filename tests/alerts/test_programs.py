# SPDX-License-Identifier: PostgreSQL
"""alerts/configure and alerts/faster print what they say."""

import re
import subprocess

import pytest
import yaml

from .rules import ALERTS, RULES, program, promtool


def run(name, *argv):
    return subprocess.run([ALERTS / name, *argv], capture_output=True, text=True)


def check(text, tmp_path):
    path = tmp_path / "rules.yml"
    path.write_text(text)
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", path)
    assert done.returncode == 0, done.stdout + done.stderr
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_configure_without_options_is_what_is_shipped():
    assert run("configure").stdout == RULES.read_text()


def test_configure_puts_in_what_is_yours(tmp_path):
    done = run("configure", "--runbook", "https://wiki.corp/pgleader/", "--grafana", "http://grafana:3000", "--team", "dba")
    assert done.returncode == 0, done.stderr
    found = check(done.stdout, tmp_path)
    alerts = [rule for rule in found if "alert" in rule]
    for alert in alerts:
        assert alert["annotations"]["runbook_url"] == f"https://wiki.corp/pgleader/alerts/{alert['alert']}.md"
        assert alert["annotations"]["dashboard_url"].startswith("http://grafana:3000/d/pgleader-")
        assert alert["labels"].get("team", "dba") == "dba"
    assert '"team", "dba"' in found[0]["expr"]
    assert "example.com" not in done.stdout and "platform" not in done.stdout


@pytest.mark.parametrize("option", [("--team", 'a"b'), ("--team", ""), ("--grafana", "http://{{ x }}"), ("--runbook", "a b")])
def test_configure_refuses_what_would_break_the_rules(option):
    done = run("configure", *option)
    assert done.returncode == 2 and "could not configure the rules" in done.stderr and not done.stdout


# text, divisor, what comes out
DIVIDED = [
    ("    interval: 30s", 20, "    interval: 1500ms"),
    ("        for: 2m", 20, "        for: 6000ms"),
    ("        keep_firing_for: 1h30m", 20, "        keep_firing_for: 270000ms"),
    ("x[90s] + y[1d]", 20, "x[4500ms] + y[4320000ms]"),
    ("x[5m:15s] offset 1m", 5, "x[60000ms:3000ms] offset 12000ms"),
    ("x[5m:]", 5, "x[60000ms:]"),
    ("    for: 10ms", 100, "    for: 1ms"),
    ("> time() - 300) # seconds", 20, "> time() - 15) # seconds"),
    ("> 3600, # seconds", 20, "> 180, # seconds"),
    ("> 60 # seconds", 1.5, "> 40 # seconds"),
    ("> 1000000", 20, "> 1000000"),
    ("x_30m > 2", 20, "x_30m > 2"),
    ("last 30m of it", 20, "last 30m of it"),
]


@pytest.mark.parametrize("before, by, after", DIVIDED)
def test_faster_divides(before, by, after):
    assert program("faster").faster(before, by) == after


def test_faster_divides_every_duration(tmp_path):
    """Nothing of the shipped rules stays as it was, and promtool takes the result."""
    done = run("faster")
    assert done.returncode == 0, done.stderr
    check(done.stdout, tmp_path)
    kept = [line for line in done.stdout.splitlines() if "#" not in line.lstrip()[:1]]
    assert not [line for line in kept if re.search(r"\[\d+[smhd]\]|(?:for|interval): \d+[smhd]$", line)]
    assert done.stdout.count("# seconds") == RULES.read_text().count("# seconds")


def test_faster_by_one_means_the_same():
    def as_milliseconds(text):
        return re.sub(r"(?<=[\[ ])\d+(?:ms|[smhd])(?=[\]\n])", lambda m: str(program("faster").milliseconds(m[0])), text)
    assert as_milliseconds(run("faster", "1").stdout) == as_milliseconds(RULES.read_text())


@pytest.mark.parametrize("by", ["0", "-2", "soon"])
def test_faster_refuses_to_divide_by(by):
    done = run("faster", "--", by)
    assert done.returncode == 2 and "could not divide" in done.stderr
