# SPDX-License-Identifier: PostgreSQL
"""The shipped dashboards keep every rule, and each rule finds what it is for."""

import copy
import json
import re
import subprocess

import pytest

from tests.support.exporter import program
from tests.support.source import ROOT

from . import rules
from .page import UIDS, load, panels


@pytest.fixture(scope="module", autouse=True)
def listed():
    rules.LISTED[:] = subprocess.run([program(), "--list-metrics"], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_kept(rule, uid):
    assert list(rule(load(uid))) == []


def panel_of(dashboard, kind):
    return next(p for p in panels(dashboard) if p["type"] == kind)


def set_in(*path):
    """Sets a value deep inside: set_in("panels", 1, "title", "")."""
    *way, last, value = path

    def spoil(dashboard):
        place = dashboard
        for step in way:
            place = place[step]
        place[last] = value
    return spoil


def in_panel(kind, spoil):
    return lambda dashboard: spoil(panel_of(dashboard, kind))


EXPR = ("targets", 0, "expr")
SPOILT = [
    ("template_datasource_rule", set_in("templating", "list", 0, "name", "ds")),
    ("template_job_and_instance_rule", set_in("templating", "list", 1, "allValue", ".*")),
    ("template_on_time_change_reload_rule", set_in("templating", "list", 2, "refresh", 1)),
    ("template_label_promql_rule", set_in("templating", "list", 3, "query", "query", "label_values(pgleader_up")),
    ("template_chain_rule", set_in("templating", "list", 4, "query", "query", 'label_values(pgleader_duty_info{job=~"$job"}, duty)')),
    ("target_job_and_instance_rule", in_panel("stat", set_in(*EXPR, 'max(pgleader_leader_held{job=~"$job"})'))),
    ("target_job_and_instance_rule", set_in("annotations", "list", 0, "expr", "1000 * pgleader_last_takeover_timestamp_seconds")),
    ("panel_datasource_rule", in_panel("state-timeline", set_in("datasource", {"type": "prometheus", "uid": "mine"}))),
    ("panel_datasource_rule", in_panel("stat", lambda p: p["targets"][0].pop("datasource"))),
    ("panel_title_description_rule", in_panel("table", set_in("description", "Who leads."))),
    ("panel_units_rule", in_panel("timeseries", set_in("fieldConfig", "defaults", "unit", "parsecs"))),
    ("panel_no_targets_rule", in_panel("stat", set_in("targets", []))),
    ("panel_kind_rule", in_panel("timeseries", set_in("type", "graph"))),
    ("target_rate_interval_rule", in_panel("stat", set_in(*EXPR, "sum(rate(pgleader_connects_total[5m]))"))),
    ("target_counter_agg_rule", in_panel("stat", set_in(*EXPR, 'max(pgleader_transitions_total{rule="lost"})'))),
    ("uneditable_dashboard", set_in("editable", True)),
    ("no_inputs_rule", set_in("__inputs", [])),
    ("variables_exist_rule", in_panel("stat", set_in(*EXPR, 'pgleader_up{job="$cluster"}'))),
    ("legend_rule", in_panel("timeseries", set_in("targets", 0, "legendFormat", ""))),
    ("grid_rule", in_panel("timeseries", lambda p: p["gridPos"].update(y=0))),
    ("grid_rule", in_panel("timeseries", lambda p: p.update(id=1))),
    ("words_not_colours_rule", in_panel("stat", set_in("fieldConfig", "defaults", "thresholds", "steps", 0, "color", "green"))),
    ("words_not_colours_rule", in_panel("state-timeline", lambda p: p["fieldConfig"]["defaults"].update(
        mappings=[{"type": "value", "options": {"1": {"text": "", "color": "#0072B2"}}}]))),
    ("metrics_exist_rule", in_panel("stat", set_in(*EXPR, "pgleader_leaders_held"))),
    ("table_columns_rule", in_panel("table", set_in("options", "sortBy", [{"displayName": "Nobody", "desc": True}]))),
    ("annotation_rule", set_in("annotations", "list", 0, "useValueForTime", False)),
]


@pytest.mark.parametrize("name, spoil", SPOILT, ids=lambda x: x if isinstance(x, str) else "")
def test_each_rule_finds_what_it_is_for(name, spoil):
    dashboard = copy.deepcopy(load(UIDS[0]))
    spoil(dashboard)
    assert list(getattr(rules, name)(dashboard)), f"{name} found nothing wrong"


def test_every_rule_is_tried():
    assert {name for name, _ in SPOILT} == {rule.__name__ for rule in rules.RULES}


def test_uids_and_titles_are_their_own():
    """uids are what links and alerts name; two files with one uid would overwrite each other in Grafana without end."""
    found = {path.stem: json.loads(path.read_text()) for path in (ROOT / "dashboards").glob("*.json")}
    assert sorted(found) == sorted(UIDS)
    assert all(made["uid"] == stem and len(stem) <= 40 for stem, made in found.items())
    assert len({made["title"] for made in found.values()}) == len(found)


def test_they_are_what_their_source_makes():
    done = subprocess.run([ROOT / "scripts/update-dashboards", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run scripts/update-dashboards\n{done.stdout}{done.stderr}"


def test_alerts_and_panels_know_each_other():
    """Every alert that a description names exists, and every alert is named by some panel."""
    shipped = set(re.findall(r"^\s*- alert: (\w+)", (ROOT / "alerts/pgleader.rules.yml").read_text(), re.M))
    named = {alert for uid in UIDS for panel in panels(load(uid)) for alert in rules.described_alerts(panel)}
    assert shipped and named == shipped
