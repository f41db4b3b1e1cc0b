# SPDX-License-Identifier: PostgreSQL
"""A dashboard's JSON, read as Grafana reads it: its variables chosen and put into its queries."""

import json
import re
from functools import lru_cache

from tests.support.source import ROOT

from .history import END, SCRAPE, START

UIDS = ("pgleader-overview", "pgleader-duty")
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\.[^}:]*)?(?::(\w+))?\})|\[\[(\w+)\]\]")
LABEL_VALUES = re.compile(r"^label_values\((?:(.+),\s*)?([a-zA-Z_]\w*)\)$", re.S)
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
ALL = "$__all"


@lru_cache(maxsize=None)
def load(uid):
    return json.loads((ROOT / "dashboards" / f"{uid}.json").read_text(encoding="utf-8"))


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def escape_pattern(value):
    """What Grafana's Prometheus data source does to a chosen value before it stands in =~."""
    return re.sub(r"[$^*{}\[\]+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\\\\\\\"))


def asked(variable, value):
    """The text that a variable with this choice stands for."""
    if value == ALL:
        return variable["allValue"]
    if not variable["multi"]:
        return value.replace("\\", "\\\\").replace('"', '\\"')
    values = [escape_pattern(v) for v in ([value] if isinstance(value, str) else value)]
    return values[0] if len(values) == 1 else f"({'|'.join(values)})"


class Reader:
    """One dashboard, opened with some choices: {variable: value, or list of values, or ALL}."""

    def __init__(self, uid, choices, step=None, start=START, end=END):
        self.dashboard = load(uid)
        self.start, self.end, self.step = start, end, step
        self.variables = {v["name"]: v for v in self.dashboard["templating"]["list"] if v["type"] == "query"}
        self.choices = {name: ALL if v["multi"] else "" for name, v in self.variables.items()} | choices

    def fill(self, text, step):
        built_in = {"__rate_interval": f"{max(step + SCRAPE, 4 * SCRAPE)}s", "__interval": f"{step}s",
                    "__range": f"{self.end - self.start}s"}

        def put(found):
            name, form = found[1] or found[2] or found[4], found[3]
            if name in built_in:
                return built_in[name]
            if name.isdigit():
                return found[0]  # label_replace's
            assert form in (None, "raw"), f"no test knows the format {form}"
            value = self.choices[name]
            return value if form == "raw" else asked(self.variables[name], value)
        return VARIABLE.sub(put, text)

    def step_of(self, panel):
        """Grafana's: the range by the points that are wanted (its width, if nothing is said), no less than the minimum."""
        points = panel.get("maxDataPoints", 600)
        least = int(panel.get("interval", f"{SCRAPE}s").replace("1m", "60s").removesuffix("s"))
        return self.step or max(-(-(self.end - self.start) // points), least)

    def targets(self):
        """(title/refId, panel, target, expression) of every query of every panel."""
        for panel in panels(self.dashboard):
            for target in panel["targets"]:
                yield f"{panel['title']}/{target['refId']}", panel, target, self.fill(target["expr"], self.step_of(panel))

    def ask(self, prometheus, panel, target, expression):
        """What Prometheus says to one query, as [(labels, values)]."""
        if target["instant"]:
            return [(labels, [value]) for labels, value in prometheus.query(expression, self.end)]
        return [(labels, [v for _, v in samples])
                for labels, samples in prometheus.over(expression, self.start, self.end, self.step_of(panel))]

    def choices_of(self, prometheus, name):
        """The values that a variable offers."""
        variable = self.variables[name]
        selector, label = LABEL_VALUES.match(self.fill(variable["query"]["query"], SCRAPE)).groups()
        return prometheus.label_values(selector, label, self.start, self.end)

    def events(self, prometheus, name):
        """{(time in seconds, text)} of one annotation, as Grafana places them."""
        annotation = next(a for a in self.dashboard["annotations"]["list"] if a["name"] == name)
        rows = prometheus.over(self.fill(annotation["expr"], 60), self.start, self.end, 60)
        found = set()
        for labels, samples in rows:
            text = LEGEND.sub(lambda m: labels[m[1]], annotation["textFormat"])
            found |= {(value / 1000, text) for _, value in samples if self.start <= value / 1000 <= self.end}
        return found
