# SPDX-License-Identifier: PostgreSQL
"""Each alert that a real fault can cause is caused, arrives at a webhook with its links, and resolves once the remedy was
carried out: PostgreSQL, candidates, exporter, Prometheus with the shipped rules made faster, Alertmanager."""

import contextlib
import re
import urllib.parse

import pytest

from tests.alerts.faults import FAULTS
from tests.alerts.scene import Scene
from tests.alerts.watch import Watch, severities
from tests.support.cluster import ROOT
from tests.support.wait import DeadlinePassed, wait_until

FIRES_WITHIN, RESOLVES_WITHIN = 240, 180


class Play:
    """All faults at once, each on a duty or a server of its own; each is remedied as soon as its alert was heard."""

    def __init__(self, scene, hook):
        self.hook, self.fired, self.remedied = hook, {}, {}
        scene.register("e2e/paused")
        scene.pg.sql("select pgleader.pause_alerts('e2e/paused', now() + interval '1 day')")
        self.deeds = {alert: function(scene) for alert, (_, function) in FAULTS.items()}
        for deed in self.deeds.values():
            next(deed)
        with contextlib.suppress(DeadlinePassed):  # each that is missing fails a test of its own
            wait_until(self.all_heard, "every alert fires", deadline=FIRES_WITHIN, every=0.2)

    def find(self, alert, status):
        return self.hook.find(status, alertname=alert, **FAULTS[alert][0])

    def all_heard(self):
        for alert in FAULTS.keys() - self.fired.keys():
            heard = self.find(alert, "firing")
            if heard:
                self.fired[alert] = heard[0]
                self.remedied[alert] = self.remedy(alert)
        return len(self.fired) == len(FAULTS)

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
    assert alert in play.fired, f"{alert} did not fire within {FIRES_WITHIN} s"
    heard = play.fired[alert]
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
    assert alert in play.fired and play.remedied[alert] is None, play.remedied.get(alert)
    wait_until(lambda: play.find(alert, "resolved"), f"{alert} is resolved", deadline=RESOLVES_WITHIN, every=0.2)


def test_a_paused_duty_is_silent(play):
    assert play.hook.find(duty="e2e/paused") == []


def test_every_alert_is_caused():
    assert set(FAULTS) == set(severities())
