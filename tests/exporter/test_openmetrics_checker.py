# SPDX-License-Identifier: PostgreSQL
"""The checker of expositions catches what it claims to: each rule has a bad sample, and good ones pass."""

import pytest

from tests.support.openmetrics import canonical, check_openmetrics, check_text

GAUGE = "# TYPE a gauge\n# HELP a b\n"
COUNTER = "# TYPE a counter\n# HELP a b\n"
INFO = "# TYPE a info\n# HELP a b\n"
STATES = "# TYPE a stateset\n# HELP a b\n"
SUMMARY = "# TYPE a summary\n# HELP a b\n"
HISTOGRAM = "# TYPE a histogram\n# HELP a b\n"
EOF = "# EOF\n"

GOOD_OPENMETRICS = [
    EOF,
    GAUGE + EOF,
    GAUGE + "a 1\n" + EOF,
    GAUGE + "a{} 1\n" + EOF,
    GAUGE + 'a{b="c\\"\\\\\\n",d=""} -1.5e-07\n' + EOF,
    GAUGE + "a NaN\n" + EOF,
    GAUGE + 'a{b="1"} +Inf\na{b="2"} -Inf\n' + EOF,
    GAUGE + 'a{b="tab\tand \U0001f418"} 1\n' + EOF,
    COUNTER + "a_total 1\na_created 5.5\n" + EOF,
    INFO + 'a_info{b="c"} 1\n' + EOF,
    STATES + 'a{a="on"} 1\na{a="off"} 0\n' + EOF,
    SUMMARY + 'a{quantile="0.5"} 3\na_count 1\na_sum 3\n' + EOF,
    "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds say \\\"b\\\"\na_seconds 1\n" + EOF,
    HISTOGRAM + 'a_bucket{le="0.5"} 1\na_bucket{le="1.0"} 1\na_bucket{le="+Inf"} 2\na_sum 3\na_count 2\n' + EOF,
]

# what must be said -> the exposition that deserves it
BAD_OPENMETRICS = [
    ("not UTF-8", GAUGE.encode() + b'a{b="\xff"} 1\n# EOF\n'),
    ("not UTF-8", GAUGE.encode() + b'a{b="\xed\xa0\x80"} 1\n# EOF\n'),
    ("a byte order mark", "\ufeff" + GAUGE + "a 1\n" + EOF),
    ("does not end with # EOF", GAUGE + "a 1\n"),
    ("does not end with # EOF", GAUGE + "a 1\n" + EOF + "a 2\n"),
    ("does not end with # EOF", ""),
    ("does not end with a newline", GAUGE + "a 1\n# EOF"),
    ("neither metadata nor a sample", GAUGE + EOF + EOF),
    ("an empty line", GAUGE + "\na 1\n" + EOF),
    ("a carriage return", GAUGE + "a 1\r\n" + EOF),
    ("neither metadata nor a sample", GAUGE + "# a comment here\na 1\n" + EOF),
    ("neither metadata nor a sample", "#TYPE a gauge\n" + EOF),
    ("neither metadata nor a sample", "# type a gauge\n" + EOF),
    ("bad family name", "# TYPE 1a gauge\n# HELP 1a b\n" + EOF),
    ("unknown type untyped", "# TYPE a untyped\n# HELP a b\n" + EOF),
    ("TYPE twice", GAUGE + "# TYPE a gauge\n" + EOF),
    ("HELP twice", GAUGE + "# HELP a c\n" + EOF),
    ("not in the order", "# HELP a b\n# TYPE a gauge\na 1\n" + EOF),
    ("has no HELP", "# TYPE a gauge\na 1\n" + EOF),
    ("has no TYPE", "# HELP a b\na 1\n" + EOF),
    ("empty help", "# TYPE a gauge\n# HELP a  \n" + EOF),
    ("bad escape", "# TYPE a gauge\n# HELP a \\x\n" + EOF),
    ("bare quote", '# TYPE a gauge\n# HELP a say "b"\n' + EOF),
    ("metadata after samples", "# TYPE a gauge\na 1\n# HELP a b\n" + EOF),
    ("family a is interleaved", GAUGE + "# TYPE b gauge\n# HELP b c\nb 1\na 1\n" + EOF),
    ("family a is interleaved", GAUGE + "# TYPE b gauge\n# HELP b c\n# HELP a b\n" + EOF),
    ("does not end in its unit", "# TYPE a gauge\n# UNIT a seconds\n# HELP a b\na 1\n" + EOF),
    ("info a_seconds has a unit", "# TYPE a_seconds info\n# UNIT a_seconds seconds\n# HELP a_seconds b\n" + EOF),
    ("has no family", "a 1\n" + EOF),
    ("not the suffix of a counter", COUNTER + "a 1\n" + EOF),
    ("not the suffix of a gauge", GAUGE + "a_total 1\n" + EOF),
    ("not the suffix of a info", INFO + "a 1\n" + EOF),
    ("counter a_total ends in _total", "# TYPE a_total counter\n# HELP a_total b\n" + EOF),
    ("gauge a_count ends in _count", "# TYPE a_count gauge\n# HELP a_count b\n" + EOF),
    ("has the name of a sample", COUNTER + "a_total 1\n# TYPE a_total unknown\n# HELP a_total b\n" + EOF),
    ("bad metric name", GAUGE + "1a 1\n" + EOF),
    ("bad metric name", GAUGE + " a 1\n" + EOF),
    ("bad label name", GAUGE + 'a{1b="c"} 1\n' + EOF),
    ("bad label name", GAUGE + 'a{b="c",} 1\n' + EOF),
    ("bad label name", GAUGE + 'a{b="c", d="e"} 1\n' + EOF),
    ("reserved label name", GAUGE + 'a{__b="c"} 1\n' + EOF),
    ("label b twice", GAUGE + 'a{b="c",b="d"} 1\n' + EOF),
    ('does not begin with ="', GAUGE + "a{b='c'} 1\n" + EOF),
    ('does not begin with ="', GAUGE + 'a{b ="c"} 1\n' + EOF),
    ("neither , nor }", GAUGE + 'a{b="c"d="e"} 1\n' + EOF),
    ("neither , nor }", GAUGE + 'a{b="say "c""} 1\n' + EOF),
    ("bad escape", GAUGE + 'a{b="\\t"} 1\n' + EOF),
    ("unterminated label value", GAUGE + 'a{b="c\n"} 1\n' + EOF),
    ("unterminated label value", GAUGE + 'a{b="c\\"} 1\n' + EOF),
    ("no blank before the value", GAUGE + "a\t1\n" + EOF),
    ("no blank before the value", GAUGE + "a\n" + EOF),
    ("bad number", GAUGE + "a \n" + EOF),
    ("bad number", GAUGE + "a 1,5\n" + EOF),
    ("bad number", GAUGE + "a 0x1\n" + EOF),
    ("bad number", GAUGE + "a nan\n" + EOF),
    ("bad number", GAUGE + "a Inf\n" + EOF),
    ("bad number", GAUGE + "a 1.\n" + EOF),
    ("text after the value", GAUGE + "a  1\n" + EOF),
    ("text after the value", GAUGE + "a 1 \n" + EOF),
    ("text after the value", GAUGE + "a 1 2 3\n" + EOF),
    ("the same series twice", GAUGE + "a 1\na 1\n" + EOF),
    ("the same series twice", GAUGE + 'a{b="1",c="2"} 1\na{c="2",b="1"} 2\n' + EOF),
    ("other label names", GAUGE + 'a{b="1"} 1\na{c="1"} 1\n' + EOF),
    ("interleaved", COUNTER + 'a_total{b="1"} 1\na_total{b="2"} 1\na_created{b="1"} 1\n' + EOF),
    ("a counter below 0 or NaN", COUNTER + "a_total -1\n" + EOF),
    ("a counter below 0 or NaN", COUNTER + "a_total NaN\n" + EOF),
    ("an info that is not 1", INFO + "a_info 0\n" + EOF),
    ("a state that is not 0 or 1", STATES + 'a{a="on"} 2\n' + EOF),
    ("without its label", STATES + 'a{b="on"} 1\n' + EOF),
    ("a quantile that is not", SUMMARY + 'a{quantile="2"} 1\n' + EOF),
    ("a quantile that is not", SUMMARY + "a 1\n" + EOF),
    ("a sum or count below 0", SUMMARY + "a_sum -1\n" + EOF),
    ("no +Inf bucket", HISTOGRAM + 'a_bucket{le="1.0"} 1\n' + EOF),
    ("no +Inf bucket", HISTOGRAM + "a_sum 1\na_count 1\n" + EOF),
    ("a bucket without a bound", HISTOGRAM + "a_bucket 1\n" + EOF),
    ("a bucket without a bound", HISTOGRAM + 'a_bucket{le="NaN"} 1\n' + EOF),
    ("bound 1 should read 1.0", HISTOGRAM + 'a_bucket{le="1"} 1\na_bucket{le="+Inf"} 1\n' + EOF),
    ("not sorted", HISTOGRAM + 'a_bucket{le="2.0"} 1\na_bucket{le="1.0"} 1\na_bucket{le="+Inf"} 1\n' + EOF),
    ("not cumulative", HISTOGRAM + 'a_bucket{le="1.0"} 2\na_bucket{le="+Inf"} 1\n' + EOF),
    ("a bucket that is not an integer", HISTOGRAM + 'a_bucket{le="+Inf"} 1.5\n' + EOF),
    ("sum and count belong together", HISTOGRAM + 'a_bucket{le="+Inf"} 1\na_sum 1\n' + EOF),
    ("count is not the +Inf bucket", HISTOGRAM + 'a_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n' + EOF),
    ("a sum below 0", HISTOGRAM + 'a_bucket{le="+Inf"} 1\na_sum -1\na_count 1\n' + EOF),
    ("a bound on a sum", HISTOGRAM + 'a_bucket{le="+Inf"} 1\na_sum{le="1.0"} 1\na_count 1\n' + EOF),
]

TEXT_GAUGE = "# HELP a b\n# TYPE a gauge\n"
TEXT_HISTOGRAM = "# HELP a b\n# TYPE a histogram\n"
BUCKETS = 'a_bucket{le="1"} 1\na_bucket{le="+Inf"} 1\n'

GOOD_TEXT = [
    TEXT_GAUGE + "a 1\n",
    TEXT_GAUGE + 'a{b="\\\\\\"\\n"} NaN\n',
    '# HELP a say "b"\n# TYPE a gauge\na 1\n',
    "# HELP a_total b\n# TYPE a_total counter\na_total 1\n",
    "# HELP a_info b\n# TYPE a_info gauge\na_info 1\n",
    TEXT_HISTOGRAM + BUCKETS + "a_sum 1\na_count 1\n",
]

BAD_TEXT = [
    ("does not end with a newline", TEXT_GAUGE + "a 1"),
    ("neither metadata nor a sample", TEXT_GAUGE + "a 1\n" + EOF),
    ("neither metadata nor a sample", "# HELP a_seconds b\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n"),
    ("not in the order", "# TYPE a gauge\n# HELP a b\na 1\n"),
    ("unknown type info", "# HELP a b\n# TYPE a info\n"),
    ("counter a does not end in _total", "# HELP a b\n# TYPE a counter\na 1\n"),
    ("gauge a_total ends in _total", "# HELP a_total b\n# TYPE a_total gauge\na_total 1\n"),
    ("has no family", TEXT_GAUGE + "b 1\n"),
    ("bad escape", '# HELP a \\"b\\"\n# TYPE a gauge\na 1\n'),
    ("the same series twice", TEXT_GAUGE + "a 1\na 1\n"),
    ("sum and count belong together", TEXT_HISTOGRAM + BUCKETS),
    ("count is not the +Inf bucket", TEXT_HISTOGRAM + BUCKETS + "a_sum 1\na_count 3\n"),
]

BOUNDS = [(0, "0.0"), (0.001, "0.001"), (0.0001, "0.0001"), (0.00001, "1e-05"), (1, "1.0"), (10, "10.0"), (300, "300.0"),
          (100000, "100000.0"), (1e6, "1e+06"), (1e23, "1e+23"), (1.1e23, "1.1e+23"), (2.5, "2.5"), (float("inf"), "+Inf")]


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


@pytest.mark.parametrize("text", GOOD_OPENMETRICS)
def test_good_openmetrics_passes(text):
    assert check_openmetrics(as_bytes(text)) == []


@pytest.mark.parametrize("problem,text", BAD_OPENMETRICS)
def test_bad_openmetrics_is_caught(problem, text):
    found = check_openmetrics(as_bytes(text))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("text", GOOD_TEXT)
def test_good_text_passes(text):
    assert check_text(as_bytes(text)) == []


@pytest.mark.parametrize("problem,text", BAD_TEXT)
def test_bad_text_is_caught(problem, text):
    found = check_text(as_bytes(text))
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("value,text", BOUNDS)
def test_canonical_bounds(value, text):
    assert canonical(float(value)) == text
