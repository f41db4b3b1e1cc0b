# SPDX-License-Identifier: PostgreSQL
"""The questions that several panels ask. Two exporters may watch one server: every answer is one of theirs."""

PROGRAM = 'job=~"$job",instance=~"$instance"'
SERVERS = f'{PROGRAM},server=~"$server"'
DUTIES = f'{SERVERS},duty=~"$duty"'
# One server and one duty may be named by anything: a raw string holds quotes, backslashes and all of a pattern's signs.
SERVER = f"{PROGRAM},server=`${{server:raw}}`"
DUTY = f"{SERVER},duty=`${{duty:raw}}`"


def raw(name, where, more=""):
    return f"pgleader_{name}{{{where}{more}}}"


def server(name, where=SERVERS):
    return f"max by (server) ({raw(name, where)})"


def duty(name, where=DUTIES):
    return f"max by (server, duty) ({raw(name, where)})"


def holder(where):
    """Who leads. A session of the kit is named pgleader:DUTY:INSTANCE; the instance is what people look for."""
    return f'label_replace({raw("owner_info", where)}, "holder", "$1", "holder", "pgleader:.+:(.+)")'


def now(where=SERVERS):
    """The clock of each server at its last poll: neither Prometheus's clock nor ours has a part in it."""
    return (f"max by (server) ({raw('last_success_timestamp_seconds', where)}"
            f" + {raw('clock_skew_seconds', where)})")


def until(name, where=DUTIES, clock=SERVERS):
    return f"({duty(name, where)} - on (server) group_left () {now(clock)})"


def since(name, where=DUTIES, clock=SERVERS):
    return f"(-1 * {until(name, where, clock)})"


def or_none(count, where=SERVERS):
    """0 where something was seen and nothing counted; no data where nothing was seen."""
    return f"{count} or 0 * count({raw('up', where)} == 1)"


OF_SERVER = "on (job, instance, server) group_left ()"


def clock(at=""):
    """As now(), for each exporter: to be joined with OF_SERVER."""
    return f"({raw('last_success_timestamp_seconds', SERVERS)}{at} + {raw('clock_skew_seconds', SERVERS)}{at})"


def worst(*names, formula="{0}", order="topk", n=6):
    """The n duties for which a formula over some of their numbers is greatest (bottomk: least) now, over time. Of the
    first number only theirs is taken, and with it of the result: that keeps thousands of duties quick."""
    at_end = formula.format(*(f"{raw(name, DUTIES)} @ end()" for name in names), clock=clock(" @ end()"))
    chosen = f"{order}({n}, max by (server, duty) ({at_end}))"
    first, *others = (raw(name, DUTIES) for name in names)
    over_time = formula.format(f"({first} and on (server, duty) {chosen})", *others, clock=clock())
    return f"max by (server, duty) ({over_time})"
