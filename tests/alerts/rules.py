# SPDX-License-Identifier: PostgreSQL
"""The shipped rules and their promtool tests, as data."""

import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import yaml

from tests.support.source import ROOT

ALERTS = ROOT / "alerts"
RULES = ALERTS / "pgleader.rules.yml"
TESTS = sorted((ALERTS / "tests").glob("*.yml"))


def groups():
    return yaml.safe_load(RULES.read_text())["groups"]


def rules():
    return [rule for group in groups() for rule in group["rules"]]


def alerts():
    return [rule for rule in rules() if "alert" in rule]


def promtool(*argv):
    return subprocess.run(["promtool", *map(str, argv)], cwd=ROOT, capture_output=True, text=True)


def program(name):
    """A program of alerts/ as a module, to call what it is made of."""
    loader = SourceFileLoader(f"alerts_{name}", str(ALERTS / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
