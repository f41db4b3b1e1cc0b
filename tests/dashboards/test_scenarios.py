# SPDX-License-Identifier: PostgreSQL
"""Every query of both dashboards, asked of a real Prometheus that holds what happened.

No query is refused; which panels have nothing to show is exactly what the scenario says; every legend is complete.
"""

from itertools import chain

import pytest

from .history import START
from .page import ALL, LEGEND, UIDS, Reader, load, panels
from .prometheus import Backfilled
from .scenarios import HOSTILE, INVOICE, NIGHTLY, QUEUE, SCENARIOS, STRAY

OVERVIEW, DUTY = UIDS

# Why a panel of all duties is empty.
NO_TAKEOVER = {"Longest last takeovers"}
NO_OLD_SNAPSHOT = {"Vacuum held back"}
WORST = {"Longest waits for the lock", "Candidates beyond the declared minimum", "Time without progress, of what the duty allows",
         "Time until the run's deadline", "Time since the last complete run, of what the duty allows", "Lease left",
         *NO_TAKEOVER, *NO_OLD_SNAPSHOT}  # the worst now: nobody can tell
BLIND = {"Duties led", "Without a leader", "Stalled or overdue", "Contested", "Too few candidates", "What a yield would meet", *WORST}
NO_LEASE_NO_WAITER = {"Longest waits for the lock", "Lease left"}

# Why a panel of one duty is empty.
IS_A_LOCK = {"Lease left"}
NEVER_HELD_BACK = {"Vacuum held back", "The leader's transaction is open for"}
LEDGERLESS = {"Generation", "Yields, by outcome"}
NO_RUNS = {"Stall limit used", "Cursor", "Pace of the cursor", "Time without progress", "Time until the run's deadline",
           "Time since the last complete run"}
NOTHING_DECLARED = {"Last takeover"}  # nor any takeover yet
NO_TAKEOVER_TODAY = {"Takeovers of this server within a day"}
NO_QUEUE = {"Candidates", "Candidates and waiters", "Longest wait for the lock"}
DISCOVERED = {"Led for at least", "Acquisition age", "Ledger, term and pooler", "Changes, by rule", "Candidates",
              "Longest wait for the lock"}
NOBODY = {"Generation", "Led for at least"}
AWAY = {*NOBODY, "Candidates", "Stall limit used", "The leader and the duty", "What a yield would meet"}
OF_A_LOCK = IS_A_LOCK | NEVER_HELD_BACK
OF_A_STRAY = DISCOVERED | LEDGERLESS | NO_RUNS | NOTHING_DECLARED | OF_A_LOCK

EMPTY = [
    ("steady", None, NO_TAKEOVER),
    ("steady", INVOICE, OF_A_LOCK | NO_TAKEOVER_TODAY),
    ("steady", QUEUE.name, LEDGERLESS | NO_RUNS | NOTHING_DECLARED | IS_A_LOCK | {"The leader's transaction is open for"} | NO_TAKEOVER_TODAY),
    ("steady", NIGHTLY.name, LEDGERLESS | NO_RUNS | NOTHING_DECLARED | NO_QUEUE | NEVER_HELD_BACK | NO_TAKEOVER_TODAY),
    ("steady", STRAY.name, OF_A_STRAY | NO_TAKEOVER_TODAY),
    ("crash takeover", None, set()),
    ("crash takeover", INVOICE, OF_A_LOCK),
    ("yield", None, set()),
    ("yield", INVOICE, OF_A_LOCK),
    ("yield, then crash", None, set()),
    ("yield, then crash", INVOICE, OF_A_LOCK),
    ("vacancy", None, NO_TAKEOVER),
    ("vacancy", INVOICE, OF_A_LOCK | NOBODY | NO_TAKEOVER_TODAY),
    ("stall", None, NO_TAKEOVER),
    ("stall", INVOICE, IS_A_LOCK | NO_TAKEOVER_TODAY),
    ("contested", None, NO_TAKEOVER),
    ("contested", INVOICE, OF_A_LOCK | NO_TAKEOVER_TODAY),
    ("exporter restart", None, set()),
    ("exporter restart", INVOICE, OF_A_LOCK),
    ("exporter gone", None, BLIND | {"The exporters"}),
    ("exporter gone", INVOICE, AWAY | OF_A_LOCK | NO_TAKEOVER_TODAY),
    ("server away", None, BLIND),
    ("server away", INVOICE, AWAY | OF_A_LOCK | NO_TAKEOVER_TODAY),
    ("two exporters", None, set()),
    ("two exporters", INVOICE, OF_A_LOCK),
    ("primary and standby", None, NO_TAKEOVER),
    ("primary and standby", INVOICE, OF_A_LOCK | NO_TAKEOVER_TODAY),
    ("nothing installed", None, WORST),
    ("nothing installed", STRAY.name, OF_A_STRAY | NO_TAKEOVER_TODAY),
    ("no duties", None, WORST | {"Who leads", "Leadership over time", "What a yield would meet"}),
    ("hostile", None, NO_OLD_SNAPSHOT | NO_LEASE_NO_WAITER),
    *(("hostile", name, OF_A_LOCK) for name in HOSTILE),
]
# What only shows where it goes wrong, and is asked for elsewhere.
ANSWERED = set()


@pytest.fixture(scope="module")
def prometheus():
    with Backfilled(chain.from_iterable(scenario.lines() for scenario in SCENARIOS.values())) as found:
        yield found


def reader(job, duty):
    if duty is None:
        return Reader(OVERVIEW, {"job": job})
    return Reader(DUTY, {"job": job, "server": SCENARIOS[job].servers[0].name, "duty": duty})


@pytest.mark.parametrize("job, duty, empty", EMPTY, ids=lambda x: x if isinstance(x, str) else "")
def test_every_panel_shows_what_it_can(prometheus, job, duty, empty):
    page, full, titles = reader(job, duty), set(), set()
    for key, panel, target, expression in page.targets():
        titles.add(panel["title"])
        rows = page.ask(prometheus, panel, target, expression)
        if rows:
            full.add(panel["title"])
            ANSWERED.add((page.dashboard["uid"], key))
        for labels, values in rows:
            assert all(value == value for value in values), f"{key}: a value that is no number"
            missing = set(LEGEND.findall(target.get("legendFormat", ""))) - set(labels)
            assert not missing, f"{key}: a legend needs {missing}, the series has {labels}"
    assert titles - full == empty


def test_every_query_has_had_an_answer():
    """Each target of each panel showed something in some scenario: none is empty by mistake."""
    all_targets = {(uid, f"{panel['title']}/{target['refId']}") for uid in UIDS for panel in panels(load(uid))
                   for target in panel["targets"]}
    assert all_targets - ANSWERED == set()


def of_table(page, prometheus, title, letter):
    """{server and duty: value} of one query of a table."""
    key = f"{title}/{letter}"
    panel, target, expression = next(rest for k, *rest in page.targets() if k == key)
    return {(labels.get("server"), labels.get("duty")): values[-1] for labels, values in page.ask(prometheus, panel, target, expression)}


def number(page, prometheus, title):
    panel, target, expression = next(rest for k, *rest in page.targets() if k == f"{title}/A")
    rows = page.ask(prometheus, panel, target, expression)
    return rows[0][1][-1] if rows else None


STATE_OF = [("steady", 1), ("crash takeover", 1), ("vacancy", 2), ("stall", 3), ("contested", 4), ("exporter gone", 6),
            ("server away", 6), ("two exporters", 1)]


@pytest.mark.parametrize("job, state", STATE_OF)
def test_the_table_says_what_is(prometheus, job, state):
    """Also when nobody can tell: what was known within the hour stays in the table, as unknown."""
    states = of_table(reader(job, None), prometheus, "Who leads", "A")
    rest = 6 if state == 6 else 1
    assert states == {("db", duty.name): state if duty.name == INVOICE else rest for duty in SCENARIOS[job].servers[0].duties}


def test_a_standby_has_no_duties_to_lead(prometheus):
    states = of_table(reader("primary and standby", None), prometheus, "Who leads", "A")
    assert {server for server, _ in states} == {"db-1"}


GLANCE = [  # led, without a leader, stalled, contested, too few candidates, servers not seen
    ("steady", (4, 0, 0, 0, 0, 0)), ("vacancy", (3, 1, 0, 0, 1, 0)), ("stall", (4, 0, 1, 0, 0, 0)),
    ("contested", (4, 0, 0, 1, 0, 0)), ("two exporters", (4, 0, 0, 0, 0, 0)), ("no duties", (0, 0, 0, 0, 0, 0)),
    ("server away", (None, None, None, None, None, 1)), ("exporter gone", (None, None, None, None, None, 1)),
    ("hostile", (8, 0, 0, 0, 0, 0)),
]


@pytest.mark.parametrize("job, numbers", GLANCE)
def test_a_glance(prometheus, job, numbers):
    """None stands for no data: nothing that nobody can tell is shown as 0."""
    page = reader(job, None)
    titles = [panel["title"] for panel in panels(page.dashboard)[:6]]
    assert tuple(number(page, prometheus, title) for title in titles) == numbers


TAKEN, MOVED = "db jobs/invoice-reconcile: another instance leads", "db jobs/invoice-reconcile: moved by a yield"
STARTED = "observer:10187: the observer restarted; nobody's leadership changed by that"
EVENTS = [  # job, {annotation: {(seconds after the start, text)}}
    ("steady", {}),
    ("crash takeover", {"Takeover": {(1804.8, TAKEN)}}),
    ("yield", {"Takeover": {(1800, TAKEN)}, "Yield": {(1800, MOVED)}}),
    ("yield, then crash", {"Takeover": {(1800, TAKEN), (2103.8, TAKEN)}, "Yield": {(1800, MOVED)}}),
    ("exporter restart", {"Takeover": {(603.8, TAKEN)}, "Exporter started": {(1560, STARTED)}}),
    ("two exporters", {"Takeover": {(1803.8, TAKEN)}}),
    ("vacancy", {}),
]


@pytest.mark.parametrize("duty", (None, INVOICE), ids=("all", "one"))
@pytest.mark.parametrize("job, events", EVENTS, ids=lambda x: x if isinstance(x, str) else "")
def test_events_stand_at_the_time_of_the_database(prometheus, job, events, duty):
    """And a restart of the exporter is no takeover, though its counters begin anew."""
    page = reader(job, duty)
    found = {a["name"]: page.events(prometheus, a["name"]) for a in page.dashboard["annotations"]["list"]}
    wanted = {name: {(START + at, text) for at, text in rows} for name, rows in events.items()}
    assert {name: rows for name, rows in found.items() if rows} == wanted


@pytest.mark.parametrize("uid", UIDS)
def test_variables_offer_what_there_is(prometheus, uid):
    page = Reader(uid, {"job": "hostile", "server": 'db "1"\\' if uid == DUTY else ALL})
    assert page.choices_of(prometheus, "job") == sorted(SCENARIOS)
    assert page.choices_of(prometheus, "instance") == ["observer:10187"]
    assert page.choices_of(prometheus, "server") == ['db "1"\\']
    assert page.choices_of(prometheus, "duty") == sorted(HOSTILE)


def test_variables_are_narrowed_by_those_before(prometheus):
    page = Reader(OVERVIEW, {"job": ["two exporters"], "instance": ["a:10187"]})
    assert page.choices_of(prometheus, "instance") == ["a:10187", "b:10187"]
    assert page.choices_of(prometheus, "duty") == sorted(duty.name for duty in SCENARIOS["steady"].servers[0].duties)
    assert Reader(OVERVIEW, {"job": ["no duties"]}).choices_of(prometheus, "duty") == []
