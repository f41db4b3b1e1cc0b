# SPDX-License-Identifier: PostgreSQL
"""Colours and words of the dashboards. No meaning hangs on a colour alone: every mapped value is also a word.

The colours are those of Okabe and Ito, which people tell apart whatever they see of red and green.
"""

import json

GOOD, WARN, BAD = "#0072B2", "#E69F00", "#D55E00"  # blue, orange, vermilion
ODD, MOVING, GREY = "#CC79A7", "#56B4E9", "#808080"
BOUND = "#999999"  # a declared limit or a lower bound, drawn dashed

NO_DATA = "no data"
NONE_KNOWN = "none known"  # where having nothing to show is the usual case


def mapped(*rows):
    """Value mappings from (value, word, colour); None stands for a number that is absent."""
    options = {str(value): {"text": word, "color": colour, "index": i}
               for i, (value, word, colour) in enumerate(rows) if value is not None}
    found = [{"type": "value", "options": options}] if options else []
    for i, (value, word, colour) in enumerate(rows):
        if value is None:
            found.append({"type": "special", "options": {
                "match": "null+nan", "result": {"text": word, "color": colour, "index": i}}})
    return found




def quiet(mappings):
    """The same words for a table, where only trouble is coloured."""
    plain = {GOOD: "transparent", GREY: "transparent"}
    return json.loads(json.dumps(mappings), object_hook=lambda o: o | {"color": plain.get(o["color"], o["color"])} if "color" in o else o)


UNKNOWN = (None, "unknown", GREY)
# 6 is ours: what nobody can tell sorts first.
STATES = mapped((0, "unknown", GREY), (1, "led", GOOD), (2, "VACANT", BAD), (3, "STALLED", WARN), (4, "CONTESTED", ODD),
                (5, "yielding", MOVING), (6, "unknown", GREY), UNKNOWN)
NONE_IS_GOOD = mapped((0, "none", GOOD), (None, NO_DATA, GREY))
YES_IS_GOOD = mapped((1, "yes", GOOD), (0, "NO", BAD), UNKNOWN)
ANSWERS = mapped((1, "yes", GOOD), (0, "NO", BAD), (2, "between runs", GOOD), (3, "run going on", WARN), UNKNOWN)
POOLED = mapped((0, "direct", GOOD), (1, "POOLED", BAD), UNKNOWN)
TERM = mapped((1, "begun", GOOD), (0, "NOT BEGUN", WARN), (None, "no ledger", GREY))
AGREE = mapped((0, "agree", GOOD), (1, "DIFFER", BAD), (None, "no ledger", GREY))
RUN = mapped((0, "between runs", GOOD), (1, "run going on", WARN), UNKNOWN)
PAUSED = mapped((0, "on", GOOD), (1, "PAUSED", WARN), (None, "none", GREY))  # discovered locks raise no alert
FRESH = mapped((1, "seen", GOOD), (0, "NOT SEEN", BAD), UNKNOWN)
ROLE = mapped((0, "primary", GOOD), (1, "standby", MOVING), UNKNOWN)
EXPECTED = mapped((0, "as expected", GOOD), (1, "UNEXPECTED", BAD), UNKNOWN)
LEDGER = mapped((0, "none", GREY), UNKNOWN)
WORKS = mapped((1, "works", GOOD), (0, "FAILS", BAD), UNKNOWN)
HINDRANCES = mapped((0, "nothing known", GOOD), UNKNOWN)
