# SPDX-License-Identifier: PostgreSQL
"""Panels in Grafana's classic JSON, with what all of ours have in common."""

from string import ascii_uppercase

from .words import BOUND, GOOD, GREY, NO_DATA, quiet

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def told(what, good, bad, alerts):
    """The description of a panel: what it shows, what to hope for, what to fear, and who calls when it is so."""
    names = ", ".join(alerts) if alerts else "none; this is for looking"
    return f"{what}\n\n**Good:** {good}\n\n**Bad:** {bad}\n\n**Alert:** {names}"


def steps(*rows):
    """Thresholds from (value, colour), the lowest first; its value is None."""
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in rows]}


PLAIN = steps((None, GOOD))
DASHES = ("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})


def override(name, *properties, by="byName"):
    return {"matcher": {"id": by, "options": name},
            "properties": [{"id": id, "value": value} for id, value in properties]}


def target(number, expr, legend="", instant=False):
    found = {"datasource": DATASOURCE, "editorMode": "code", "expr": expr, "refId": ascii_uppercase[number]}
    kind = {"format": "table", "instant": True, "range": False} if instant else {
        "format": "time_series", "instant": False, "range": True, "legendFormat": legend}
    return found | kind


def panel(kind, title, description, targets, defaults, options, overrides=(), **more):
    return {"type": kind, "title": title, "description": description, "datasource": DATASOURCE, "targets": targets,
            "fieldConfig": {"defaults": defaults, "overrides": list(overrides)}, "options": options, **more}


def stat(title, description, expr, unit="none", mappings=(), thresholds=PLAIN, legend="", show="value"):
    """One number now, or with show="name" the legend of its one series."""
    defaults = {"unit": unit, "mappings": list(mappings), "thresholds": thresholds, "noValue": NO_DATA,
                "color": {"mode": "thresholds"}}
    options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "background",
               "graphMode": "none", "justifyMode": "center", "textMode": show, "orientation": "auto", "wideLayout": True}
    now = target(0, expr, legend) | {"instant": True, "range": False}
    return panel("stat", title, description, [now], defaults, options)


def series(title, description, targets, unit, limits=None, lines=None, stacked=False, empty=NO_DATA, **more):
    """Numbers over time. targets: (expr, legend); limits: thresholds, drawn as dashed lines;
    lines: {legend: (colour, dashed)} where the series are known, else they are shades of one colour."""
    custom = {"drawStyle": "bars" if stacked else "line", "lineWidth": 0 if stacked else 2,
              "fillOpacity": 85 if stacked else 0, "showPoints": "never", "spanNulls": False, "axisSoftMin": 0,
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
              "thresholdsStyle": {"mode": "dashed" if limits else "off"}}
    defaults = {"unit": unit, "custom": custom, "thresholds": limits or PLAIN, "noValue": empty,
                "color": {"mode": "shades", "fixedColor": GOOD}, "mappings": []}
    drawn = [override(name, ("color", {"mode": "fixed", "fixedColor": colour}),
                      *([DASHES] if dashed else []))
             for name, (colour, dashed) in (lines or {}).items()]
    options = {"legend": {"displayMode": "table" if not lines else "list", "placement": "bottom", "showLegend": True,
                          "calcs": [] if lines else ["lastNotNull"]},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    return panel("timeseries", title, description, [target(i, *each) for i, each in enumerate(targets)], defaults, options,
                 drawn, **more)


def timeline(title, description, targets, mappings, overrides=()):
    """States over time, a band each. A gap is a time at which nobody could tell."""
    custom = {"fillOpacity": 85, "lineWidth": 0, "spanNulls": False}
    defaults = {"unit": "none", "custom": custom, "mappings": list(mappings), "thresholds": steps((None, GREY)),
                "color": {"mode": "thresholds"}, "noValue": NO_DATA}
    options = {"mergeValues": True, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85,
               "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "single"}}
    return panel("state-timeline", title, description, [target(i, *each) for i, each in enumerate(targets)], defaults,
                 options, overrides)


def number(title, expr, unit="none", mappings=(), limits=None, width=None, loud=False):
    """A column of a table that holds the values of a query. Only trouble is coloured, or with loud every word."""
    filled = bool(mappings or limits)
    properties = [("unit", unit), ("mappings", list(mappings) if loud else quiet(mappings)),
                  ("thresholds", limits or steps((None, "transparent"))),
                  ("custom.cellOptions", {"type": "color-background", "mode": "basic"} if filled else {"type": "auto"})]
    return title, expr, None, properties + ([("custom.width", width)] if width else [])


def label(title, name, expr=None, width=None, link=None):
    """A column that holds a label; expr is the query that brings it, where no number's query does."""
    properties = [("links", [link])] if link else []
    return title, expr, name, properties + ([("custom.width", width)] if width else [])


def table(title, description, columns, sort=()):
    """One row for each set of labels that the queries of the columns share. sort: titles, the greatest first."""
    queries = list(dict.fromkeys(expr for _, expr, _, _ in columns if expr))
    letters = {expr: ascii_uppercase[i] for i, expr in enumerate(queries)}
    # Grafana names the values of a query after its letter, but not where it is the only one.
    values = {expr: f"Value #{letter}" if len(queries) > 1 else "Value" for expr, letter in letters.items()}
    named = {name or values[expr]: name_shown for name_shown, expr, name, _ in columns}
    hidden = {name: True for name in ("Time", "server", "duty", *values.values()) if name not in named}
    organize = {"excludeByName": hidden, "indexByName": {name: i for i, name in enumerate(named)}, "renameByName": named}
    overrides = [override(name_shown, *properties) for name_shown, _, _, properties in columns if properties]
    defaults = {"custom": {"align": "left", "filterable": False, "cellOptions": {"type": "auto"}}, "noValue": "–",
                "mappings": [], "thresholds": steps((None, "transparent")), "color": {"mode": "thresholds"}}
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False},
               "sortBy": [{"displayName": name, "desc": True} for name in sort]}
    return panel("table", title, description, [target(i, expr, instant=True) for i, expr in enumerate(queries)], defaults,
                 options, overrides,
                 transformations=[{"id": "merge", "options": {}}, {"id": "organize", "options": organize}])


def dashed():
    return BOUND, True


__all__ = ["DATASOURCE", "GREY", "dashed", "label", "number", "panel", "series", "stat", "steps", "table", "target",
           "timeline", "told"]
