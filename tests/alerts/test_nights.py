# SPDX-License-Identifier: PostgreSQL
"""promtool runs every test of alerts/tests; every alert has one in which it fires and one in which it must not."""

import pytest
import yaml

from .rules import RULES, TESTS, alerts, promtool


def loaded():
    return [test for path in TESTS for test in yaml.safe_load(path.read_text())["tests"]]


@pytest.mark.parametrize("path", TESTS, ids=lambda p: p.stem)
def test_promtool(path):
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_test_the_shipped_rules():
    for path in TESTS:
        named = yaml.safe_load(path.read_text())["rule_files"]
        assert [(path.parent / name).resolve() for name in named] == [RULES]


def test_every_alert_fires_and_is_silent():
    """Each rule fires with all it carries, in every severity it has; and it is asked for by name where it must not."""
    fired, silent = set(), set()
    for test in loaded():
        for case in test.get("alert_rule_test", []):
            if not case["exp_alerts"]:
                silent.add(case["alertname"])
            for alert in case["exp_alerts"]:
                fired.add((case["alertname"], alert["exp_labels"]["severity"]))
    assert fired == {(alert["alert"], alert["labels"]["severity"]) for alert in alerts()}
    assert silent == {alert["alert"] for alert in alerts()}


def test_nights_ask_for_all_alerts():
    """A test that must find nothing asks for every alert there is, not for one."""
    asked = [case["expr"] for path in TESTS if path.stem.startswith("nights")
             for test in yaml.safe_load(path.read_text())["tests"] for case in test["promql_expr_test"]]
    assert len(asked) > 40 and set(asked) == {'ALERTS{alertstate="firing"}'}
