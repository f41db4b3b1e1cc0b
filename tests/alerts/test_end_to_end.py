# SPDX-License-Identifier: PostgreSQL
"""Each alert that a real fault can cause is caused, arrives at a webhook with its links, and resolves once the remedy was
carried out: PostgreSQL, candidates, exporter, Prometheus with the shipped rules made faster, Alertmanager."""

import re
import urllib.parse

import pytest

from tests.alerts.faults import FAULTS
from tests.alerts.scene import Scene
from tests.alerts.watch import Watch, severities
from tests.support.cluster import ROOT
from tests.support.wait import wait_until

FIRES_WITHIN, RESOLVES_WITHIN = 150, 180
# The terms of a pool that recycles connections take hours, also made faster; promtool tests it.
NOT_CAUSED = {"PgleaderPeriodicFlapping"}


class Play:
    """All faults at once, each on a duty or a server of its own; then all remedies."""

    def __init__(self, scene, hook):
        self.hook = hook
        scene.register("e2e/paused")
        scene.pg.sql("select pgleader.pause_alerts('e2e/paused', now() + interval '1 day')")
        self.deeds = {alert: function(scene) for alert, (_, function) in FAULTS.items()}
        for deed in self.deeds.values():
            next(deed)
        self.fired = {alert: self.wait(alert, "firing", FIRES_WITHIN) for alert in FAULTS}
        self.remedied = {alert: self.remedy(alert) for alert in FAULTS}

    def wait(self, alert, status, deadline):
        """The alert as it was heard, or the error that says that it was not."""
        labels = FAULTS[alert][0]
        try:
            return wait_until(lambda: self.hook.find(status, alertname=alert, **labels), f"{alert} {labels} is {status}",
                              deadline=deadline, every=0.2)[0]
        except AssertionError as error:
            return error

    def remedy(self, alert):
        try:
            return next(self.deeds[alert])
        except Exception as error:
            return error


@pytest.fixture(scope="module")
def play():
    with Watch() as watch, Scene(watch) as scene:
        yield Play(scene, watch.hook)


@pytest.mark.parametrize("alert", FAULTS)
def test_it_fires(play, alert):
    heard = play.fired[alert]
    assert not isinstance(heard, Exception), heard
    assert heard["labels"]["severity"] in severities()[alert]
    assert heard["labels"]["team"] == ("e2e" if "duty" in heard["labels"] else "platform")
    words = heard["annotations"]
    page = re.fullmatch(r"https://\S+/runbook/(alerts/\w+\.md)", words["runbook_url"])[1]
    assert (ROOT / "runbook" / page).exists()
    board = urllib.parse.urlparse(words["dashboard_url"])
    assert (ROOT / f"dashboards/{board.path.rpartition('/')[2]}.json").exists()
    for name, value in urllib.parse.parse_qsl(board.query):
        assert heard["labels"][name.removeprefix("var-")] == value
    for label in ("server", "duty"):
        assert heard["labels"].get(label, "") in words["description"]


@pytest.mark.parametrize("alert", FAULTS)
def test_it_resolves(play, alert):
    assert play.remedied[alert] is None, play.remedied[alert]
    heard = play.wait(alert, "resolved", RESOLVES_WITHIN)
    assert not isinstance(heard, Exception), heard


def test_a_paused_duty_is_silent(play):
    assert play.hook.find(duty="e2e/paused") == []


def test_every_alert_is_caused_or_named():
    assert set(FAULTS) | NOT_CAUSED == set(severities()) and not set(FAULTS) & NOT_CAUSED
