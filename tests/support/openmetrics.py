# SPDX-License-Identifier: PostgreSQL
"""A strict checker of both exposition formats: OpenMetrics 1.0.0 and the Prometheus text format 0.0.4.

check_openmetrics(data) and check_text(data) return what is wrong as "line N: ..."; an empty list is good. Strict means
that a SHOULD of the specification counts as a MUST, and that every family has a type and a help.
"""

import math
import re
import sys
from dataclasses import dataclass, field
from decimal import Decimal

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?|\.\d+)(e[+-]?\d+)?|[+-]Inf|NaN")
ESCAPES = {"\\": "\\", "n": "\n", '"': '"'}
RESERVED = re.compile(r"_(total|info|created|bucket|count|sum|gcount|gsum)$")

# type -> the suffixes of its samples
OPENMETRICS = {"counter": ["_total", "_created"], "gauge": [""], "info": ["_info"], "stateset": [""], "unknown": [""],
               "histogram": ["_bucket", "_count", "_sum", "_created"], "gaugehistogram": ["_bucket", "_gcount", "_gsum"],
               "summary": ["", "_count", "_sum", "_created"]}
TEXT = {"counter": [""], "gauge": [""], "untyped": [""], "histogram": ["_bucket", "_count", "_sum"],
        "summary": ["", "_count", "_sum"]}


class Bad(Exception):
    """What is wrong with the line being read."""


@dataclass
class Sample:
    line: int
    name: str
    labels: list  # of (name, value)
    value: float
    number: str

    def label(self, name):
        return dict(self.labels).get(name)

    def metric(self):
        """The labels that say which metric of its family it belongs to."""
        return tuple(sorted((n, v) for n, v in self.labels if n not in ("le", "quantile")))


@dataclass
class Family:
    name: str
    line: int
    words: list = field(default_factory=list)  # TYPE, UNIT, HELP, in the order seen
    type: str = ""
    unit: str = ""
    samples: list = field(default_factory=list)


def canonical(value):
    """A bucket's bound as OpenMetrics wants it spelled: 0.001, 1.0, 1e+06, +Inf."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0.0"
    sign, digits, shift = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) - 1 + shift
    if -4 <= exponent < 6:
        plain = format(Decimal(repr(value)).normalize(), "f")
        return plain if "." in plain else plain + ".0"
    rest = "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{digits[0]}{'.' + rest if rest else ''}e{exponent:+03d}"


def unescape(text, at, stop, allowed):
    """Reads escaped text from `at` up to the character `stop` (None: the end); returns it and where it stopped."""
    out = []
    while at < len(text) and text[at] != stop:
        if text[at] == "\\":
            if text[at + 1:at + 2] not in allowed:
                raise Bad(f"bad escape {text[at:at + 2]!r}")
            out.append(ESCAPES[text[at + 1]])
            at += 2
        else:
            out.append(text[at])
            at += 1
    if stop is not None and at >= len(text):
        raise Bad("unterminated label value")
    return "".join(out), at


def read_labels(line, at):
    labels = []
    while True:
        match = LABEL_NAME.match(line, at)
        if not match:
            raise Bad("bad label name")
        at = match.end()
        if line[at:at + 2] != '="':
            raise Bad('label value does not begin with ="')
        value, at = unescape(line, at + 2, '"', ESCAPES)
        if match[0].startswith("__"):
            raise Bad(f"reserved label name {match[0]}")
        if match[0] in dict(labels):
            raise Bad(f"label {match[0]} twice")
        labels.append((match[0], value))
        at += 1
        if line[at:at + 1] == "}":
            return labels, at + 1
        if line[at:at + 1] != ",":
            raise Bad("neither , nor } after a label")
        at += 1


def read_sample(line, number):
    name = NAME.match(line)
    if not name:
        raise Bad("bad metric name")
    at, labels = name.end(), []
    if line[at:at + 1] == "{":
        labels, at = ([], at + 2) if line[at:at + 2] == "{}" else read_labels(line, at + 1)
    if line[at:at + 1] != " ":
        raise Bad("no blank before the value")
    rest = line[at + 1:]
    if not NUMBER.fullmatch(rest):
        raise Bad(f"bad number {rest[:40]!r}" if " " not in rest else "text after the value")
    return Sample(number, name[0], labels, float(rest), rest)


class Checker:
    def __init__(self, types, openmetrics):
        self.types = types
        self.openmetrics = openmetrics
        self.problems = []
        self.families = {}
        self.current = None

    def say(self, line, what):
        self.problems.append(f"line {line}: {what}")

    def check(self, data):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            self.say(data[:error.start].count(b"\n") + 1, "not UTF-8")
            return self.problems
        if text.startswith("\ufeff"):
            self.say(1, "a byte order mark")
        lines = text.split("\n")
        if lines.pop() != "":
            self.say(len(lines) + 1, "does not end with a newline")
        if self.openmetrics and (not lines or lines.pop() != "# EOF"):
            self.say(len(lines) + 1, "does not end with # EOF")
        for number, line in enumerate(lines, 1):
            try:
                self.read_line(number, line)
            except Bad as bad:
                self.say(number, bad)
        for family in self.families.values():
            self.check_family(family)
        self.check_names()
        return self.problems

    def read_line(self, number, line):
        if line == "":
            raise Bad("an empty line")
        if line.endswith("\r"):
            raise Bad("a carriage return")
        if not line.startswith("#"):
            self.add_sample(read_sample(line, number))
            return
        words = line.split(" ", 3)
        known = ("TYPE", "HELP", "UNIT") if self.openmetrics else ("TYPE", "HELP")
        if len(words) < 4 or words[0] != "#" or words[1] not in known:
            raise Bad("neither metadata nor a sample")
        self.add_metadata(number, *words[1:])

    def add_metadata(self, number, word, name, text):
        if not NAME.fullmatch(name):
            raise Bad("bad family name")
        if self.current is None or self.current.name != name:
            if name in self.families:
                raise Bad(f"family {name} is interleaved")
            self.current = self.families[name] = Family(name, number)
        family = self.current
        if family.samples:
            raise Bad("metadata after samples")
        if word in family.words:
            raise Bad(f"{word} twice")
        family.words.append(word)
        if word == "TYPE":
            if text not in self.types:
                raise Bad(f"unknown type {text}")
            family.type = text
        elif word == "UNIT":
            family.unit = text
        elif not unescape(text, 0, None, "\\n\"" if self.openmetrics else "\\n")[0].strip():
            raise Bad("empty help")
        elif self.openmetrics and re.search(r'(?<!\\)(\\\\)*"', text):
            raise Bad("a bare quote in the help")

    def names(self, family):
        return [family.name + suffix for suffix in self.types.get(family.type, [""])]

    def add_sample(self, sample):
        if self.current is None or sample.name not in self.names(self.current):
            for family in self.families.values():
                if family is not self.current and sample.name in self.names(family):
                    raise Bad(f"family {family.name} is interleaved")
            raise Bad(f"{sample.name} has no family" + (
                f", or not the suffix of a {self.current.type}" if self.current else ""))
        self.current.samples.append(sample)

    def check_family(self, family):
        order = ["TYPE", "UNIT", "HELP"] if self.openmetrics else ["HELP", "TYPE"]
        if family.words != [word for word in order if word in family.words]:
            self.say(family.line, f"metadata of {family.name} is not in the order {', '.join(order)}")
        for word in ("TYPE", "HELP"):
            if word not in family.words:
                self.say(family.line, f"family {family.name} has no {word}")
        if "UNIT" in family.words and (not family.unit or not family.name.endswith("_" + family.unit)):
            self.say(family.line, f"family {family.name} does not end in its unit")
        if family.unit and family.type in ("info", "stateset"):
            self.say(family.line, f"{family.type} {family.name} has a unit")
        self.check_name(family)
        self.check_series(family)
        check = getattr(self, f"check_{family.type}", None)
        for sample in family.samples:
            if check:
                check(family, sample)
        if family.type in ("histogram", "gaugehistogram"):
            for samples in self.metrics(family).values():
                self.check_buckets(family, samples)

    def check_name(self, family):
        reserved = RESERVED.search(family.name)
        counter = family.type == "counter" and not self.openmetrics
        if counter and not family.name.endswith("_total"):
            self.say(family.line, f"counter {family.name} does not end in _total")
        elif reserved and not counter and not (family.name.endswith("_info") and not self.openmetrics):
            self.say(family.line, f"{family.type} {family.name} ends in {reserved[0]}")

    def metrics(self, family):
        groups = {}
        for sample in family.samples:
            groups.setdefault(sample.metric(), []).append(sample)
        return groups

    def check_series(self, family):
        seen, left, last = set(), set(), None
        for sample in family.samples:
            series = (sample.name, tuple(sorted(sample.labels)))
            if series in seen:
                self.say(sample.line, "the same series twice")
            seen.add(series)
            if sample.metric() != last:
                left.add(last)
                last = sample.metric()
                if last in left:
                    self.say(sample.line, "samples of one metric are interleaved")
            if [n for n, _ in sample.metric()] != [n for n, _ in family.samples[0].metric()]:
                self.say(sample.line, "other label names than the rest of its family")

    def check_counter(self, family, sample):
        if not sample.value >= 0:
            self.say(sample.line, "a counter below 0 or NaN")

    def check_info(self, family, sample):
        if sample.value != 1:
            self.say(sample.line, "an info that is not 1")

    def check_stateset(self, family, sample):
        if sample.value not in (0, 1) or sample.label(family.name) is None:
            self.say(sample.line, "a state that is not 0 or 1, or without its label")

    def check_summary(self, family, sample):
        quantile = sample.label("quantile")
        if sample.name == family.name and not (quantile and 0 <= float(quantile) <= 1):
            self.say(sample.line, "a quantile that is not between 0 and 1")
        elif sample.name != family.name and not sample.value >= 0:
            self.say(sample.line, "a sum or count below 0 or NaN")

    def check_buckets(self, family, samples):
        line = samples[0].line
        buckets = [s for s in samples if s.name.endswith("_bucket")]
        others = {s.name[len(family.name):].replace("_g", "_"): s for s in samples if s not in buckets}
        bounds = []
        for bucket in buckets:
            bound = bucket.label("le") or ""
            if not NUMBER.fullmatch(bound) or bound == "NaN":
                self.say(bucket.line, "a bucket without a bound")
                return
            if self.openmetrics and bound != canonical(float(bound)):
                self.say(bucket.line, f"bound {bound} should read {canonical(float(bound))}")
            if not bucket.number.isdigit():
                self.say(bucket.line, "a bucket that is not an integer")
            bounds.append(float(bound))
        if bounds != sorted(set(bounds)):
            self.say(line, "buckets are not sorted")
        if not bounds or bounds[-1] != math.inf:
            self.say(line, "no +Inf bucket")
            return
        counts = [b.value for b in buckets]
        if counts != sorted(counts):
            self.say(line, "buckets are not cumulative")
        if ("_sum" in others) != ("_count" in others) or (not self.openmetrics and "_sum" not in others):
            self.say(line, "sum and count belong together")
        if "_count" in others and others["_count"].value != counts[-1]:
            self.say(line, "count is not the +Inf bucket")
        if "_sum" in others and family.type == "histogram" and not others["_sum"].value >= 0:
            self.say(line, "a sum below 0 or NaN")
        if any("le" in dict(s.labels) for s in others.values()):
            self.say(line, "a bound on a sum or count")

    def check_names(self):
        for family in self.families.values():
            for name in self.names(family):
                other = self.families.get(name)
                if other and other is not family:
                    self.say(other.line, f"family {name} has the name of a sample of {family.name}")


def check_openmetrics(data):
    """What is wrong with an OpenMetrics 1.0.0 exposition, given as bytes."""
    return Checker(OPENMETRICS, True).check(data)


def check_text(data):
    """What is wrong with an exposition in the text format 0.0.4, given as bytes."""
    return Checker(TEXT, False).check(data)


if __name__ == "__main__":
    check = check_text if sys.argv[1:] == ["--text"] else check_openmetrics
    problems = check(sys.stdin.buffer.read())
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
