# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""Both dashboards, drawn in a real browser from their JSON with Grafana's own components, say in words what happened.

It is no Grafana server: nothing is imported or migrated, and state timelines and annotation lines are drawn by us.
"""

import copy
import json
from itertools import chain

import pytest

from .drawing import RENDER, draw, shot
from .history import END, START
from .page import UIDS, load, panels
from .prometheus import Backfilled
from .scenarios import INVOICE, SCENARIOS

OVERVIEW, DUTY = UIDS
ONE = {"server": "db", "duty": INVOICE}
PAGES = {  # every width, theme and page, over what it should show
    "takeover, all duties": (OVERVIEW, "crash takeover", "dark", 1920, {}),
    "stall, all duties": (OVERVIEW, "stall", "light", 1280, {}),
    "vacancy, one duty": (DUTY, "vacancy", "dark", 1280, ONE),
    "takeover, one duty": (DUTY, "crash takeover", "light", 1920, ONE),
}
SAYS = [  # page, panel, words in their order
    ("takeover, all duties", "Duties led", ["4"]),
    ("takeover, all duties", "Without a leader", ["none"]),
    ("takeover, all duties", "Who leads", ["State", "Duty", "Leader", "led", "db", INVOICE, "worker-2", "60297631304", "29 minutes"]),
    ("takeover, all duties", "Leadership over time", [f"db {INVOICE}", "led"]),
    ("takeover, all duties", "Longest last takeovers", [f"db {INVOICE}", "5.40 s"]),
    ("takeover, all duties", "What a yield would meet", ["Against it", "nothing known", INVOICE, "direct", "begun", "agree"]),
    ("takeover, all duties", "What the exporters see", ["seen", "db", "primary", "as expected", "none", "250 ms", "15.14"]),
    ("stall, all duties", "Stalled or overdue", ["1"]),
    ("stall, all duties", "Who leads", ["STALLED", "db", INVOICE, "led"]),
    ("stall, all duties", "Leadership over time", [f"db {INVOICE}", "led", "STALLED"]),
    ("stall, all duties", "Time without progress, of what the duty allows", [f"db {INVOICE}", "2003%"]),
    ("stall, all duties", "Longest last takeovers", ["none known"]),
    ("vacancy, one duty", "State", ["VACANT"]),
    ("vacancy, one duty", "Leader", ["nobody"]),
    ("vacancy, one duty", "Generation", ["no data"]),
    ("vacancy, one duty", "Leadership over time", ["state", "led", "VACANT", "worker-1", "led"]),
    ("vacancy, one duty", "What a yield would meet", ["1 Somebody leads it", "NO", "2 A successor is ready", "NO"]),
    ("takeover, one duty", "State", ["led"]),
    ("takeover, one duty", "Leader", ["worker-2"]),
    ("takeover, one duty", "Generation", ["60297631304"]),
    ("takeover, one duty", "Leadership over time", ["state", "worker-1", "led", "worker-2", "led"]),
    ("takeover, one duty", "The leader and the duty", ["worker-2", "worker", "10.0.4.8", "4101", "2026-01-15 11:30:05", "lock", "742118"]),
    ("takeover, one duty", "Ledger, term and pooler", ["ledger and lock", "agree", "term", "begun", "session", "direct"]),
    ("takeover, one duty", "Cursor", ["cursor", "target"]),
    ("takeover, one duty", "What a yield would meet", ["1 Somebody leads it", "yes", "7 No takeover within 5 minutes", "yes"]),
]


@pytest.fixture(scope="module")
def prometheus():
    jobs = sorted({job for _, job, *_ in PAGES.values()})
    with Backfilled(chain.from_iterable(SCENARIOS[job].lines() for job in jobs)) as found:
        yield found


@pytest.fixture(scope="module")
def drawn(prometheus):
    shots = [shot(uid, START, END, theme, width, job=[job], **one) for uid, job, theme, width, one in PAGES.values()]
    return dict(zip(PAGES, draw(prometheus.url, shots)))


def blank(page):
    """Panels that say nothing but their title."""
    return [panel["title"] for panel in page["panels"] if panel["text"].strip() == panel["title"]]


def text_of(page, title):
    found = [panel["text"] for panel in page["panels"] if panel["title"] == title]
    assert len(found) == 1, f"{title}: {len(found)} panels"
    return found[0].split("\n", 1)[1]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_whole(drawn, name):
    page, model = drawn[name], load(PAGES[name][0])
    assert page["problems"] == [] and page["refused"] == []
    assert sorted(p["title"] for p in page["panels"]) == sorted(p["title"] for p in panels(model))
    assert blank(page) == []
    assert not [p["title"] for p in page["panels"] if p["cut"] > 0], "a table is wider than its panel"


@pytest.mark.parametrize("name, title, words", SAYS, ids=lambda x: x if isinstance(x, str) else "")
def test_a_panel_says(drawn, name, title, words):
    text, at = text_of(drawn[name], title), 0
    for word in words:
        assert word in text[at:], f"{word!r} does not follow in:\n{text}"
        at = text.index(word, at) + len(word)


@pytest.mark.parametrize("name", PAGES)
def test_a_takeover_is_marked_where_the_database_put_it(drawn, name):
    marks = [(mark["name"], round(mark["time"] / 1000 - START, 3)) for mark in drawn[name]["marks"]]
    assert marks == ([("Takeover", 1804.8)] if "takeover" in name else [])


def test_what_is_broken_is_seen(prometheus, tmp_path):
    """The drawing can fail: a query that is refused, a kind of panel that is not known."""
    broken = copy.deepcopy(load(OVERVIEW))
    broken["panels"][0]["targets"][0]["expr"] = "sum(("
    broken["panels"][1]["type"] = "graph"
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    page, = draw(prometheus.url, [shot("broken", START, END, job=["stall"])], tmp_path)
    assert any("sum((" in refused for refused in page["refused"])
    assert text_of(page, "Duties led") == "no data"
    assert blank(page) == ["Without a leader"]


def test_what_is_drawn_with_is_free_to_use():
    """None of what npm brings asks for more than we may give: Grafana's server and its Prometheus plugin are AGPL."""
    packages = json.loads((RENDER / "package-lock.json").read_text())["packages"]
    assert len(packages) > 300
    assert [name for name, package in packages.items() if "GPL" in package.get("license", "")] == []
