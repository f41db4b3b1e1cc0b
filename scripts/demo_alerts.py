# SPDX-License-Identifier: PostgreSQL
"""--check --alerts: an alert of the shipped rules, from its cause to its end, as Alertmanager shows it."""

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

from scripts.demo_stage import DUTY, STARTUP_SECONDS, Failed
from tests.support.cluster import ROOT

# An alert with keep_firing_for needs 2 minutes to fire and 2 more to end. This one has none.
ALERT = "PgleaderSlowTakeover"
BEYOND_SECONDS = 3  # so much longer than the duty allows is it vacant: the lower bound is to exceed it as well
EVALUATION_SECONDS = 45  # the rules' own interval, and what it takes to see it
FOR_SECONDS = 150  # the alert's own `for`, and what it takes to see it
COMMAND_SECONDS = 60


class Diary:
    """What was done and seen, each with its time."""

    def __init__(self):
        self.started = time.monotonic()

    def note(self, words):
        print(f"{time.monotonic() - self.started:5.0f} s {words}", flush=True)


def fired(demo):
    """The alert of the duty that Alertmanager has, or None."""
    words = urllib.parse.urlencode([("active", "true"), ("filter", f'alertname="{ALERT}"'), ("filter", f'duty="{DUTY}"')])
    with urllib.request.urlopen(f"{demo.address('alertmanager')}/api/v2/alerts?{words}", timeout=5) as answer:
        found = json.load(answer)
    return found[0] if found else None


def in_prometheus(demo):
    """pending, firing, or None. The series ALERTS would not do: Prometheus begins it after its second evaluation."""
    with urllib.request.urlopen(f"{demo.address('prometheus')}/api/v1/alerts", timeout=5) as answer:
        found = json.load(answer)["data"]["alerts"]
    return next((a["state"] for a in found if (a["labels"]["alertname"], a["labels"].get("duty")) == (ALERT, DUTY)), None)


def leave_vacant(demo, diary):
    """Ends every worker, and starts them again when the duty has had no leader for longer than it declares."""
    demo.wait(lambda: not demo.cast.due and demo.leader(), "all workers run", STARTUP_SECONDS)
    allowed = demo.number("pgleader_duty_takeover_slow_after_seconds")
    leader = demo.leader()[0]
    again = demo.cast.rest("worker-")
    diary.note(f"all {len(again)} workers of {DUTY} are ended; it allows a takeover of {allowed:.0f} s")

    def vacant():
        since = demo.number("pgleader_vacant_since_timestamp_seconds")
        return since and time.time() - since > allowed + BEYOND_SECONDS
    demo.wait(vacant, f"Prometheus shows {DUTY} vacant", STARTUP_SECONDS)
    again_leader = again.pop(leader)  # last: a duty that returns to its leader was not taken over
    for start in again.values():
        start()
    diary.note("they are started again")
    demo.wait(lambda: (lower_bound(demo) or 0) > allowed and demo.leader(), "Prometheus shows a slow takeover", STARTUP_SECONDS)
    again_leader()
    diary.note(f"{demo.leader()[0]} leads; the takeover took {lower_bound(demo):.1f} s or more")
    return allowed


def lower_bound(demo):
    return demo.number("pgleader_last_takeover_lower_bound_seconds")


def see_it_fire(demo, diary):
    demo.wait(lambda: in_prometheus(demo), f"{ALERT} is pending in Prometheus", EVALUATION_SECONDS)
    diary.note(f"{ALERT} is {in_prometheus(demo)} in Prometheus")
    alert = demo.wait(lambda: fired(demo), f"{ALERT} fires in Alertmanager", FOR_SECONDS)
    link = alert["annotations"]["runbook_url"]
    page = ROOT / "runbook/alerts" / Path(urllib.parse.urlsplit(link).path).name
    if not page.exists():
        raise Failed(f"{ALERT} links to {link}, and there is no {page}")
    receivers = ", ".join(receiver["name"] for receiver in alert["receivers"])
    diary.note(f"{ALERT} fires in Alertmanager, for {receivers}: {alert['annotations']['description']}")
    diary.note(f"its page is {link}, here {page.relative_to(ROOT)}")


def pgleader(demo, *words):
    """What a command of the person on call prints."""
    done = subprocess.run([demo.pgleader, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS,
                          env={**os.environ, "PGLEADER_CONFIG": str(demo.operator_config)})
    if done.returncode != 0:
        raise Failed(f"pgleader {' '.join(words)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def move(demo, diary, allowed):
    """A yield, which shows whether the next takeover is quicker now that there are successors."""
    before = demo.leader()
    confirm = json.loads(pgleader(demo, "yield", DUTY, "--dry-run", "--json"))["confirm"]
    pgleader(demo, "yield", DUTY, "--reason=slow takeover", f"--confirm={confirm}")
    diary.note(f"pgleader yield {DUTY} moved it away from {before[0]}")

    def moved():
        now = demo.leader()
        return now if now and now[2] > before[2] and (lower_bound(demo) or 0) <= allowed else None
    now = demo.wait(moved, "Prometheus shows the next takeover", STARTUP_SECONDS)
    diary.note(f"{now[0]} leads; the takeover took {demo.number('pgleader_last_takeover_seconds'):.3f} s at most")


def check_alert(demo):
    diary = Diary()
    allowed = leave_vacant(demo, diary)
    see_it_fire(demo, diary)
    move(demo, diary, allowed)
    demo.wait(lambda: not in_prometheus(demo) and not fired(demo), f"{ALERT} ends in Alertmanager", EVALUATION_SECONDS)
    diary.note(f"{ALERT} has ended in Prometheus and in Alertmanager")
