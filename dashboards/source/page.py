# SPDX-License-Identifier: PostgreSQL
"""A dashboard around its panels: variables, annotations, links, and where each panel stands."""

from . import promql
from .panels import DATASOURCE
from .words import BAD, GREY, MOVING

WIDTH = 24
GRAFANA = "10.0.0"  # schemaVersion 39; older ones were not tried


def variable(name, label, query, many=True):
    text = f"label_values({query}, {name})"
    # Servers and duties may be named by anything, also by two lines, which .+ does not match; and what matches nothing as
    # well leaves the index of thousands of names alone.
    every = ".+" if name in ("job", "instance") else "(?s:.*)"
    everything = {"multi": True, "includeAll": True, "allValue": every, "current": {"text": ["All"], "value": ["$__all"]}}
    return {"type": "query", "name": name, "label": label, "datasource": DATASOURCE, "definition": text, "hide": 0,
            "query": {"query": text, "refId": "StandardVariableQuery"}, "refresh": 2, "sort": 1, "regex": "", "options": [],
            **(everything if many else {"multi": False, "includeAll": False, "current": {}})}


def variables(one):
    """Each is narrowed by those before it. one: the page is about a single duty."""
    where = "server=`${server:raw}`" if one else 'server=~"$server"'
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1,
              "hide": 0, "multi": False, "includeAll": False, "regex": "", "options": [], "current": {}}
    return [source,
            variable("job", "Job", "pgleader_build_info"),
            variable("instance", "Instance", 'pgleader_build_info{job=~"$job"}'),
            variable("server", "Server", f"pgleader_up{{{promql.PROGRAM}}}", many=not one),
            variable("duty", "Duty", f"pgleader_duty_info{{{promql.PROGRAM},{where}}}", many=not one)]


def annotation(name, colour, expr, text):
    """Events at the time that the value tells, in milliseconds; Prometheus's own times have no part in it."""
    return {"name": name, "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": colour, "expr": expr,
            "step": "1m", "titleFormat": name, "textFormat": text, "tagKeys": "", "useValueForTime": True}


def annotations(where, one):
    """A yield is a takeover that the audit counts: for one duty, while every takeover of the last minutes was one; over
    the fleet it is enough that a yield was counted in the last minutes, which thousands of duties can answer."""
    taken = promql.raw("last_takeover_timestamp_seconds", where)
    moved = promql.raw("yields_total", where, ',outcome="moved"')
    audited = f"({moved} > ({moved} offset 5m))"
    if one:
        takeovers = promql.raw("transitions_total", where, ',rule="takeover"')
        audited = (f"(increase({moved}[15m]) > 0 and on (job, instance, server, duty) increase({moved}[15m])"
                   f" >= on (job, instance, server, duty) increase({takeovers}[15m]))")
    started = f"process_start_time_seconds{{{promql.PROGRAM}}}"
    return [
        annotation("Takeover", BAD, f"1000 * max by (server, duty) ({taken})", "{{server}} {{duty}}: another instance leads"),
        annotation("Yield", MOVING, f"1000 * max by (server, duty) ({taken} and on (job, instance, server, duty) {audited})",
                   "{{server}} {{duty}}: moved by a yield"),
        annotation("Exporter started", GREY, f"1000 * max by (instance) ({started} and on (job, instance) pgleader_build_info)",
                   "{{instance}}: the observer restarted; nobody's leadership changed by that"),
    ]


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": []}


def placed(rows):
    """Panels with ids and places. rows: (title or None, [(height, [(width, panel), ...]), ...])."""
    found, y = [], 0
    for title, bands in rows:
        if title:
            found.append(row(title) | {"gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
            y += 1
        for height, band in bands:
            x = 0
            for width, panel in band:
                found.append(panel | {"gridPos": {"x": x, "y": y, "w": width, "h": height}})
                x += width
            assert x == WIDTH, f"a band of {title} is {x} wide"
            y += height
    return [panel | {"id": i} for i, panel in enumerate(found, 1)]


def dashboard(uid, title, description, rows, where, one=False, links=()):
    panels = placed(rows)
    kinds = sorted({panel["type"] for panel in panels} - {"row"})
    return {
        "__requires": [{"type": "grafana", "id": "grafana", "name": "Grafana", "version": GRAFANA},
                       {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
                       *({"type": "panel", "id": kind, "name": kind, "version": ""} for kind in kinds)],
        "uid": uid, "id": None, "title": title, "description": description, "tags": ["pgleader", "postgresql"],
        "schemaVersion": 39, "version": 1, "editable": False, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
        "time": {"from": "now-1h", "to": "now"}, "timepicker": {}, "fiscalYearStartMonth": 0, "liveNow": False,
        "links": list(links), "templating": {"list": variables(one)}, "annotations": {"list": annotations(where, one)},
        "panels": panels,
    }


VARIABLES = "${datasource:queryparam}&${job:queryparam}&${instance:queryparam}"


def link_to(uid, title):
    """A link at the head of a page; the duty that is looked at stays behind."""
    return {"type": "link", "title": title, "url": f"/d/{uid}?{VARIABLES}", "icon": "dashboard", "keepTime": True,
            "includeVars": False, "targetBlank": False, "asDropdown": False, "tags": [], "tooltip": ""}


DUTY_PAGE = {"title": "This duty in depth", "targetBlank": False, "url": (
    f"/d/pgleader-duty?{VARIABLES}&${{__url_time_range}}"
    "&var-server=${__data.fields.server:percentencode}&var-duty=${__data.fields.duty:percentencode}")}
