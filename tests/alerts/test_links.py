# SPDX-License-Identifier: PostgreSQL
"""What an alert links to is there."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.source import ROOT

from .rules import alerts

DASHBOARDS = {board["uid"]: board for path in sorted((ROOT / "dashboards").glob("*.json"))
              if "uid" in (board := json.loads(path.read_text()))}


@pytest.mark.parametrize("alert", alerts(), ids=lambda a: f"{a['alert']}-{a['labels']['severity']}")
def test_the_dashboard_and_its_variables_exist(alert):
    url = urlsplit(re.sub(r"\{\{.*?\}\}", "x", alert["annotations"]["dashboard_url"]))
    board = DASHBOARDS[url.path.removeprefix("/d/")]
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert {name.removeprefix("var-") for name in parse_qs(url.query)} <= variables


def test_each_alert_has_its_page_and_each_page_its_alert():
    pages = {path.stem for path in (ROOT / "runbook/alerts").glob("*.md")}
    assert pages == {alert["alert"] for alert in alerts()}
