# SPDX-License-Identifier: PostgreSQL
"""What a good dashboard is: the rules of Grafana's dashboard linter, and our own. Each yields what is wrong.

The linter's rules are written anew, under its names; where ours ask for more, they say so.
"""

import json
import re

from .page import LABEL_VALUES, LEGEND, VARIABLE, panels

UNITS = {"none", "short", "s", "dtdurations", "percentunit", "bytes", "dateTimeAsIso"}
KINDS = {"stat", "timeseries", "table", "state-timeline"}
SELECTOR = re.compile(r"\b((?:pgleader|process)_[a-z0-9_]+)\b(\{(?:[^{}`\"]|`[^`]*`|\"[^\"]*\")*\})?")
BUILT_IN = {"__all", "__rate_interval", "__range", "__interval", "__data", "__url_time_range"}
DESCRIBED = re.compile(r"\A.+\n\n\*\*Good:\*\* .+\n\n\*\*Bad:\*\* .+\n\n\*\*Alert:\*\* (.+)\Z", re.S)


def expressions(dashboard):
    """(where, expression) of every query of panels and annotations."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield f"{panel['title']}/{target['refId']}", target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']}", annotation["expr"]


def queries(dashboard):
    return {v["name"]: v for v in dashboard["templating"]["list"] if v["type"] == "query"}


def described_alerts(panel):
    found = DESCRIBED.match(panel["description"])
    return re.findall(r"\bPgleader\w+", found[1]) if found else []


def template_datasource_rule(dashboard):
    first = dashboard["templating"]["list"][0]
    if (first["type"], first["name"], first["label"], first["query"]) != ("datasource", "datasource", "Data source", "prometheus"):
        yield f"the first variable is {first['name']}"


def template_job_and_instance_rule(dashboard):
    for name in ("job", "instance"):
        have = queries(dashboard).get(name, {})
        wanted = {"label": name.capitalize(), "multi": True, "includeAll": True, "allValue": ".+"}
        if any(have.get(k) != v for k, v in wanted.items()):
            yield f"variable {name} is not {wanted}"


def template_on_time_change_reload_rule(dashboard):
    yield from (name for name, v in queries(dashboard).items() if v["refresh"] != 2)


def template_label_promql_rule(dashboard):
    yield from (name for name, v in queries(dashboard).items() if not LABEL_VALUES.match(v["query"]["query"]))


def template_chain_rule(dashboard):
    """Ours: each variable is narrowed by all that stand before it."""
    before = []
    for name, variable in queries(dashboard).items():
        used = {m[1] or m[2] for m in VARIABLE.finditer(variable["query"]["query"])}
        if used != set(before):
            yield f"{name} asks for {sorted(used)}, before it stand {before}"
        before.append(name)


def target_job_and_instance_rule(dashboard):
    """Ours also for server and duty, where a family has them, and in annotations."""
    known = dict(line.split("\t")[::2][:2] for line in LISTED)
    for where, expr in expressions(dashboard):
        for name, matchers in SELECTOR.findall(expr):
            family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in known else name
            wanted = ["job", "instance", *(l for l in ("server", "duty") if l in known[family].split(","))]
            if "and on (job, instance) pgleader_build_info" in expr and name == "pgleader_build_info":
                continue  # the other side of it is chosen
            missing = [l for l in wanted if not re.search(rf'\b{l}=(~"\${l}"|`\${{{l}:raw}}`)', matchers)]
            if missing:
                yield f"{where}: {name} without {missing}"


def panel_datasource_rule(dashboard):
    """Ours for every kind of panel, and for targets, variables and annotations."""
    wanted = {"type": "prometheus", "uid": "${datasource}"}
    places = [*panels(dashboard), *(t for p in panels(dashboard) for t in p["targets"]), *queries(dashboard).values(),
              *dashboard["annotations"]["list"]]
    yield from (str(place.get("title") or place.get("name") or place["refId"]) for place in places if place.get("datasource") != wanted)


def panel_title_description_rule(dashboard):
    """Ours: a description says what is good, what is bad, and which alert calls."""
    yield from (p["title"] for p in panels(dashboard) if not p["title"] or not DESCRIBED.match(p.get("description", "")))


def panel_units_rule(dashboard):
    for panel in panels(dashboard):
        field = panel["fieldConfig"]
        units = [field["defaults"].get("unit")] if panel["type"] != "table" else []
        units += [p["value"] for o in field["overrides"] for p in o["properties"] if p["id"] == "unit"]
        yield from (f"{panel['title']}: {unit}" for unit in units if unit not in UNITS)


def panel_no_targets_rule(dashboard):
    yield from (p["title"] for p in panels(dashboard) if not p["targets"])


def panel_kind_rule(dashboard):
    """Ours: kinds that Grafana 10 and later have, and that are drawn in the tests."""
    yield from (f"{p['title']}: {p['type']}" for p in panels(dashboard) if p["type"] not in KINDS)


def target_rate_interval_rule(dashboard):
    """A window that the page's own interval moves, or one that is said in words and does not follow the zoom."""
    for where, expr in expressions(dashboard):
        for function, window in re.findall(r"\b(rate|irate|increase|deriv)\(.*?\[([^\]]*)\]", expr, re.S):
            if window != "$__rate_interval" and (where, window) not in FIXED_WINDOWS:
                yield f"{where}: {function} over {window}"


FIXED_WINDOWS = {("Takeovers of this server within a day/A", "1d"), ("Takeovers of this server within a day/B", "1d"),
                 ("annotation Yield", "15m")}


# The ledger's totals come from a row that nothing lowers; an exporter's restart does not reset them.
COMPARED_TOTALS = ("annotation Yield", "pgleader_yields_total")


def target_counter_agg_rule(dashboard):
    counter = re.compile(r"(?<!\w)((?:pgleader|process)_\w+_(?:total|bucket|sum|count))\b")
    for where, expr in expressions(dashboard):
        bare = re.sub(r"\b(rate|irate|increase)\([^()]*\)", "", expr)
        yield from (f"{where}: {name}" for name in counter.findall(bare) if (where, name) != COMPARED_TOTALS)


def uneditable_dashboard(dashboard):
    if dashboard["editable"] or dashboard["id"] is not None or dashboard["schemaVersion"] != 39:
        yield "editable, id or schemaVersion"


def no_inputs_rule(dashboard):
    """Ours: only the import wizard would fill them in."""
    if "__inputs" in dashboard or "${DS_" in json.dumps(dashboard):
        yield "__inputs"


def variables_exist_rule(dashboard):
    """Ours: every $name is a variable of the page or one of Grafana's."""
    names = {v["name"] for v in dashboard["templating"]["list"]} | BUILT_IN
    text = json.dumps(dashboard)
    used = {m[1] or m[2] or m[4] for m in VARIABLE.finditer(text)}
    yield from sorted(name for name in used - names if not name.isdigit())  # $1 is label_replace's


def legend_rule(dashboard):
    """Ours: whatever is drawn over time has a legend of its own."""
    for panel in panels(dashboard):
        legends = [t["legendFormat"] for t in panel["targets"] if t.get("range")]
        if any(not legend for legend in legends) or len(set(legends)) < len(legends):
            yield panel["title"]


def grid_rule(dashboard):
    """Ours: ids are unique, panels stay inside of 24 columns and overlap nowhere."""
    taken = {}
    for panel in dashboard["panels"]:
        g = panel["gridPos"]
        if g["x"] + g["w"] > 24:
            yield f"{panel['title']} is too wide"
        for cell in ((x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])):
            if cell in taken:
                yield f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]
    ids = [p["id"] for p in dashboard["panels"]]
    if len(set(ids)) < len(ids):
        yield "an id twice"


def words_not_colours_rule(dashboard):
    """Ours: a mapped value is a word, absent numbers have one too, and colours are of the palette that all can tell apart."""
    allowed = {"#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#808080", "#999999", "transparent"}
    text = json.dumps(dashboard["panels"])
    colours = set(re.findall(r'"(?:color|fixedColor)": "([^"]+)"', text)) | set(re.findall(r'"color": \{"mode": "([a-z-]*palette[a-z-]*)"', text))
    yield from sorted(colours - allowed)
    for panel in panels(dashboard):
        lists = [panel["fieldConfig"]["defaults"]["mappings"]]
        lists += [p["value"] for o in panel["fieldConfig"]["overrides"] for p in o["properties"] if p["id"] == "mappings"]
        for mappings in filter(None, lists):
            special = [m for m in mappings if m["type"] == "special"]
            words = [o["text"] for m in mappings if m["type"] == "value" for o in m["options"].values()]
            if not special or not all(words):
                yield f"{panel['title']}: a value without a word"


def metrics_exist_rule(dashboard):
    """Ours: every family is one that the exporter lists."""
    names = {line.split("\t")[0] for line in LISTED}
    for where, expr in expressions(dashboard):
        for name, _ in SELECTOR.findall(expr):
            if name not in names and re.sub(r"_(bucket|sum|count)$", "", name) not in names:
                yield f"{where}: {name}"


def table_columns_rule(dashboard):
    """Ours: every column that is named, sorted by or given a unit is one that the table shows, and no label is by chance."""
    for panel in panels(dashboard):
        if panel["type"] == "table":
            organize = panel["transformations"][-1]["options"]
            shown = set(organize["renameByName"].values())
            named = {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]} | {s["displayName"] for s in panel["options"]["sortBy"]}
            settled = {"server", "duty"} <= set(organize["renameByName"]) | set(organize["excludeByName"])
            if named - shown or len(shown) < len(organize["renameByName"]) or not settled:
                yield f"{panel['title']}: {sorted(named - shown)}"


def annotation_rule(dashboard):
    """Ours: events stand at the time that the database tells, in milliseconds, and their texts name labels that are kept."""
    for annotation in dashboard["annotations"]["list"]:
        kept = re.search(r"^1000 \* max by \(([^)]*)\)", annotation["expr"])
        labels = set(LEGEND.findall(annotation["textFormat"]))
        if not annotation["useValueForTime"] or not kept or not labels <= set(kept[1].split(", ")):
            yield annotation["name"]


RULES = [rule for name, rule in list(globals().items()) if name.endswith("_rule") or name == "uneditable_dashboard"]
LISTED = []  # the lines of pgleader_exporter --list-metrics
