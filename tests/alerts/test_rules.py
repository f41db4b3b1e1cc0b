# SPDX-License-Identifier: PostgreSQL
"""The rules are well formed, name only what the exporter has, and tell whoever is woken what to do."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.source import ROOT

from .rules import RULES, alerts, groups, promtool, rules

EXPORTER = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin")) / "pgleader_exporter"
SEVERITIES = {"critical", "warning"}
ANNOTATIONS = ["summary", "description", "runbook_url", "dashboard_url"]
TARGET_LABELS = {"job", "instance", "pod"}
LONGEST_TAKEOVER = 13 + 2 * 30  # seconds: power loss with a full settle, and two scrapes that do not see its end
# What an aggregation may take away: which exporter saw it, and what an info metric has beside its team or holder.
TAKEN = {"instance", "pod", "mechanism", "source", "key", "application_name", "usename", "client_addr", "rule", "team",
         "holder"}
COMMAND = re.compile(r"Type(?: on its host| on both)?: (pgleader (?:status|doctor) |systemctl |promtool |timedatectl|pgleader_exporter )")
by_name = pytest.mark.parametrize("alert", alerts(), ids=lambda a: f"{a['alert']}-{a['labels']['severity']}")


def seconds(duration):
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(n) * units[u] for n, u in re.findall(r"(\d+)([smhd])", duration))


def expression(rule):
    return re.sub(r"#[^\n]*", "", rule["expr"])


def listed():
    """{metric: its labels}, from --list-metrics."""
    done = subprocess.run([EXPORTER, "--list-metrics"], capture_output=True, text=True, check=True)
    return {name: set(filter(None, labels.split(","))) for name, _, labels, _ in
            (line.split("\t") for line in done.stdout.splitlines())}


def test_promtool_is_content():
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@by_name
def test_it_tells_what_to_do(alert):
    """A severity, a team, a static summary, and a description that ends in a command to type."""
    labels, notes = alert["labels"], alert["annotations"]
    assert re.fullmatch(r"Pgleader[A-Z][A-Za-z]+", alert["alert"])
    assert labels["severity"] in SEVERITIES
    assert labels.get("team") == "platform" or "duty_info:on_call" in alert["expr"], "no team"
    assert list(notes) == ANNOTATIONS
    assert re.fullmatch(r"[A-Z][^{}]+\.", notes["summary"])
    subject = ("duty", "server") if "on_call" in alert["expr"] else ("server",) if "server" in notes["dashboard_url"] else ("instance",)
    assert all(f"$labels.{name}" in notes["description"] for name in subject)
    assert COMMAND.search(notes["description"]), notes["description"]
    if "on_call" in alert["expr"]:
        assert 'or $labels.holder "not known"' in notes["description"] and labels["holder"] == ""
    assert notes["runbook_url"] == f"https://pgleader.example.com/runbook/alerts/{alert['alert']}.md"


@by_name
def test_no_normal_takeover_fires_it(alert):
    """`for` outlasts a takeover, and every window that keeps a value over a missed scrape."""
    assert seconds(alert["for"]) > LONGEST_TAKEOVER
    windows = re.findall(r"last_over_time\([\w:]+(?:\{[^}]*\})?\[90s\]", alert["expr"])
    assert not windows or seconds(alert["for"]) > 90


@by_name
def test_the_dashboard_is_of_its_subject(alert):
    url = alert["annotations"]["dashboard_url"]
    of_server = "?var-server={{ $labels.server | urlquery }}"
    if "on_call" in alert["expr"]:
        assert url == f"https://grafana.example.com/d/pgleader-duty{of_server}&var-duty={{{{ $labels.duty | urlquery }}}}"
    else:
        assert url in ("https://grafana.example.com/d/pgleader-overview", f"https://grafana.example.com/d/pgleader-overview{of_server}")


def test_every_metric_exists():
    known, records = listed(), {rule["record"] for rule in rules() if "record" in rule}
    used = {name for rule in rules() for name in re.findall(r"(?<![\w:])(?:up|\w*:?pgleader_[\w:]+)(?![\w:]*\()", expression(rule))}
    assert len(used) > 40
    assert not used - set(known) - records - {"up"}
    recorded = {name for name in used if ":" in name}
    assert recorded == records, "a rule records what no rule uses"


def test_every_label_exists():
    """Labels in selectors belong to their metric; those in clauses to some metric, a target or a rule."""
    known = listed()
    for rule in rules():
        text = expression(rule)
        for name, matchers in re.findall(r"(pgleader_\w+)\{([^}]*)\}", text):
            wanted = set(re.findall(r"(\w+)[=!]", matchers))
            assert wanted <= known[name] | TARGET_LABELS, f"{name} has no {wanted - known[name]}"
        every = set().union(*known.values()) | TARGET_LABELS | {"side"}
        for clause in re.findall(r"(?:without|ignoring|on|group_left|group_right) ?\(([^)]*)\)", text):
            assert {word.strip() for word in clause.split(",") if word.strip()} <= every


def test_aggregations_keep_labels():
    """No `by`; `without` names nothing but who saw it; `on` is only between a target and what it told."""
    for rule in rules():
        text = expression(rule)
        assert not re.search(r"\bby ?\(", text), text
        taken = {w.strip() for clause in re.findall(r"without ?\(([^)]*)\)", text) for w in clause.split(",")}
        assert taken <= TAKEN, taken - TAKEN
        assert set(re.findall(r"\bon ?\(([^)]*)\)", text)) <= {"job, instance", "job, server"}, text


def test_duties_are_on_call():
    """Whatever has a duty is matched with those that are on call: named and not paused."""
    of_duties = {name for name, labels in listed().items() if "duty" in labels}
    for alert in alerts():
        used = set(re.findall(r"pgleader_\w+", expression(alert)))
        assert ("duty:pgleader_duty_info:on_call" in alert["expr"]) == bool(used & of_duties), alert["alert"]


def test_seconds_are_marked():
    """Every number that is a time has `# seconds` behind it, so that it can be divided."""
    counts = {"0", "1", "2", "3", "4.5", "0.5", "0.9", "0.25", "1000000"}
    for rule in rules():
        for line in rule["expr"].splitlines():
            text = re.sub(r'"[^"]*"|\[[^]]*\]|[a-z_]\w*(?::\w+)*', "", line.split("#")[0])
            numbers = set(re.findall(r"\d+(?:\.\d+)?", text))
            assert "# seconds" in line or numbers <= counts, line


def test_groups_hold_what_depends_on_another():
    """A rule comes after what it reads, if both are of one group."""
    for group in groups():
        mine = [rule["record"] for rule in group["rules"] if "record" in rule]
        for i, rule in enumerate(group["rules"]):
            later = {r["record"] for r in group["rules"][i + 1:] if "record" in r}
            read = set(re.findall(r"\w+:pgleader_\w+:\w+", expression(rule)))
            assert not read & later, f"{rule.get('alert', rule.get('record'))} reads {read & later} before it is recorded"
        assert len(mine) == len(set(mine))
