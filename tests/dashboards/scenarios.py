# SPDX-License-Identifier: PostgreSQL
"""What happened: one history a row, each the name of its job in Prometheus."""

from .history import LONG_AGO, Duty, Exporter, Scenario, Server

INVOICE = "jobs/invoice-reconcile"
NIGHTLY = Duty("reports/nightly", kind="lease", ledger=False, candidates=None, run_seconds=0, declared=False, team="finance")
QUEUE = Duty("jobs/mail", ledger=False, waiters=2, run_seconds=0, declared=False)
STRAY = Duty("advisory/4711", kind="discovery", ledger=False, team="")
HOSTILE = ('a "quoted" name', "back\\slash", "it's {here}", ".*", "$duty", "two\nlines", "größer/naïve", "[[duty]]")


def duties(**invoice):
    """The duty that things happen to, beside others that live quietly."""
    return (Duty(INVOICE, **invoice), QUEUE, NIGHTLY, STRAY)


def one(job, *, exporters=(Exporter(),), away=(), **invoice):
    return Scenario(job, (Server("db", duties(**invoice), away=away),), exporters)


SCENARIOS = {scenario.job: scenario for scenario in (
    one("steady"),
    one("crash takeover", terms=((LONG_AGO, 1800, "worker-1"), (1805, None, "worker-2")),
        candidates=lambda t: 2 if 1800 <= t < 1900 else 3),
    one("yield", terms=((LONG_AGO, 1800, "worker-1"), (1800.2, None, "worker-2")), yields=((1800, "moved"), (900, "refused"))),
    one("yield, then crash", terms=((LONG_AGO, 1800, "worker-1"), (1800.2, 2100, "worker-2"), (2104, None, "worker-3")),
        yields=((1800, "moved"),)),
    one("vacancy", terms=((LONG_AGO, 2700, "worker-1"),), candidates=lambda t: 3 if t < 2700 else 0),
    one("stall", stalled=(3000, 9999), xmin_age=2_000_000),
    one("contested", mismatch=(3000, 9999), pooled=True),
    one("exporter restart", exporters=(Exporter(lives=((LONG_AGO, 1500), (1560, None))),),
        terms=((LONG_AGO, 600, "worker-1"), (604, None, "worker-2"))),
    one("exporter gone", exporters=(Exporter(lives=((LONG_AGO, 2700),)),)),
    one("server away", away=(2700, 9999)),
    one("two exporters", exporters=(Exporter("a:10187"), Exporter("b:10187")),
        terms=((LONG_AGO, 1800, "worker-1"), (1804, None, "worker-2"))),
    Scenario("primary and standby", (Server("db-1", duties()), Server("db-2", duties(), standby=True))),
    Scenario("nothing installed", (Server("db", (STRAY,)),)),
    Scenario("no duties", (Server("db", ()),)),
    Scenario("hostile", (Server('db "1"\\', tuple(
        Duty(name, terms=((LONG_AGO, 1800, f"was {name}"), (1804, None, f"is {name}"))) for name in HOSTILE)),)),
)}


def crowd(job, n, every, wanted=lambda line: True):
    """Many duties on ten servers, of some kinds: led, taken over within the hour, led by nobody, stalled, and with waiters
    and few candidates. Each kind is worked out once; the others of it differ by name."""
    kinds = (Duty("DUTY"), Duty("DUTY", terms=((LONG_AGO, 1200, "worker-1"), (1204, None, "worker-2"))), Duty("DUTY"),
             Duty("DUTY", terms=((LONG_AGO, 1200, "worker-1"),)), Duty("DUTY", stalled=(3000, 9999)),
             Duty("DUTY", waiters=3, candidates=1, xmin_age=1000))
    patterns = ["".join(Scenario(job, (Server("SERVER", (kind,)),), every=every).lines()) for kind in kinds]
    own = [[line for line in text.splitlines(True) if 'duty="' in line and wanted(line)] for text in patterns]
    yield patterns[1].replace('"DUTY"', f'"{INVOICE}"').replace('"SERVER"', '"db-first"')
    yield from Scenario(job, tuple(Server(f"db-{s}", ()) for s in range(10)), every=every).lines()
    for i in range(n):
        kind = own[i % 97 % len(own)] if i % 10 == 0 else own[0]
        yield "".join(kind).replace('"DUTY"', f'"jobs/duty-{i:04}"').replace('"SERVER"', f'"db-{i % 10}"')
