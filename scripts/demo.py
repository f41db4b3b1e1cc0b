# SPDX-License-Identifier: PostgreSQL
"""What the demo shows: the live screen on a terminal, addresses elsewhere, a takeover with --check, an alert with --alerts.
scripts/demo runs this."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import termios
import time
import tty
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.demo_alerts import check_alert  # noqa: E402
from scripts.demo_stage import DUTY, LEASE, STARTUP_SECONDS, UNREGISTERED_LOCK, Demo, Failed  # noqa: E402
from tests.support.wait import DeadlinePassed  # noqa: E402

TAKEOVER_SECONDS = 15
STOP_SECONDS = 10
PATIENCE_SECONDS = 0.5


def describe(demo, ending):
    graph = urllib.parse.urlencode({"g0.expr": f'pgleader_owner_pid{{duty="{DUTY}"}}', "g0.tab": "0", "g0.range_input": "5m"})
    psql = f"psql -h {demo.folder} -U postgres"
    pgleader = os.path.relpath(demo.pgleader)
    print(f"""
who leads     {demo.address('exporter')}/
metrics       {demo.address('exporter')}/metrics
Prometheus    {demo.address('prometheus')}/graph?{graph}
alerts        {demo.address('prometheus')}/alerts
Alertmanager  {demo.address('alertmanager')}/#/alerts
the ledger    {psql} -c 'select * from pgleader.ownership'
logs          {demo.folder}/*.log
pgleader      export PGLEADER_CONFIG={demo.operator_config}
move a duty   {pgleader} yield {DUTY} --reason=demo
end a leader  {psql} -c "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 742118"

{ending}""", flush=True)


class News:
    """Says who leads when it changes."""

    def __init__(self, demo):
        self.demo = demo
        self.last = None

    def look(self):
        self.demo.cast.check()
        try:
            now = self.demo.leader()
        except OSError:
            return
        if now and now != self.last:
            print(sentence(time.strftime("%H:%M:%S"), now, self.demo), flush=True)
            self.last = now


def watch(demo):
    """Until Ctrl-C."""
    describe(demo, "Ctrl-C stops all of it.")
    news = News(demo)
    while True:
        news.look()
        time.sleep(PATIENCE_SECONDS)


def show_screen(demo):
    """pgleader top, until it is left; the cast goes on behind it."""
    top = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *demo.top])
    try:
        while top.poll() is None:
            demo.cast.check()
            with contextlib.suppress(subprocess.TimeoutExpired):
                top.wait(PATIENCE_SECONDS)
    finally:
        leave_screen(top)


def leave_screen(top):
    """Ctrl-C reaches it by itself; a part of the cast that failed does not. Its terminal is to be as it was."""
    if top.poll() is None:
        top.terminate()
    try:
        top.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        top.kill()
        top.wait()


def take_keys(*_):
    with contextlib.suppress(termios.error):  # a terminal that hangs up says so by SIGHUP
        tty.setcbreak(sys.stdin)


@contextlib.contextmanager
def single_keys():
    """Standard input key by key, without Enter, also after Ctrl-Z and fg; Ctrl-C stays a signal."""
    before = termios.tcgetattr(sys.stdin)
    signal.signal(signal.SIGCONT, take_keys)
    try:
        take_keys()
        yield
    finally:
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def wants_screen(demo):
    """Waits for Enter: True; or for q, or the end of the input: False."""
    news = News(demo)
    with single_keys():
        while True:
            news.look()
            if select.select([sys.stdin], [], [], PATIENCE_SECONDS)[0]:
                key = os.read(sys.stdin.fileno(), 1)
                if key in (b"q", b"Q", b""):
                    return False
                if key in (b"\n", b"\r"):
                    return True


def on_terminal(demo):
    """The live screen; whoever leaves it reads what else there is to look at, and how it ends."""
    show_screen(demo)
    describe(demo, "Enter opens the screen again; q or Ctrl-C stops all of it.")
    while wants_screen(demo):
        show_screen(demo)


def progresses(demo):
    before = demo.number("pgleader_run_cursor")
    demo.wait(lambda: demo.number("pgleader_run_cursor") not in (None, before), f"the cursor of {DUTY} moves", STARTUP_SECONDS)


def scene_is_set(demo):
    """Everything that the stage holds is in Prometheus before a leader is ended."""
    demo.wait(demo.leader, f"Prometheus shows who leads {DUTY}", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_candidates") == 3, f"Prometheus shows 3 candidates of {DUTY}", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_leader_held", LEASE) == 1, f"Prometheus shows {LEASE} held", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_leader_held", f"advisory/{UNREGISTERED_LOCK}") == 1,
              f"Prometheus shows the unregistered lock {UNREGISTERED_LOCK}", STARTUP_SECONDS)
    progresses(demo)


def sentence(when, leader, demo):
    instance, pid, generation = leader
    return f"{when:7} {instance} leads {DUTY}: pid {pid}, generation {generation}, {demo.work()}"


def taken_over(demo, before, count):
    """The new leader, once Prometheus shows another pid, a higher generation and one more takeover."""
    now = demo.leader()
    moved = now and now[0] != before[0] and now[1] != before[1] and now[2] > before[2] and (demo.takeovers() or 0) > count
    return now if moved and demo.number("pgleader_last_takeover_seconds") is not None else None


def check(demo):
    scene_is_set(demo)
    before, count = demo.leader(), demo.takeovers() or 0
    print(sentence("before", before, demo), flush=True)
    started = time.monotonic()
    if demo.pg.sql("select pg_terminate_backend(%s)", [before[1]]) != [(True,)]:
        raise Failed(f"pid {before[1]}, which Prometheus shows as the leader, is not a session of the server")
    now = demo.wait(lambda: taken_over(demo, before, count), "Prometheus shows the new owner and the takeover", TAKEOVER_SECONDS)
    seen = time.monotonic() - started
    progresses(demo)
    lower, upper = demo.number("pgleader_last_takeover_lower_bound_seconds"), demo.number("pgleader_last_takeover_seconds")
    print(sentence("after", now, demo))
    print(f"the takeover took {lower:.3f} to {upper:.3f} s; Prometheus showed it {seen:.1f} s after the session was ended", flush=True)


def check_all(demo):
    check(demo)
    check_alert(demo)


def way(options):
    """What is to be done with a demo that runs."""
    if "--check" in options:
        return check_all if "--alerts" in options else check
    return on_terminal if sys.stdin.isatty() and sys.stdout.isatty() else watch


def main(exporter, *options):
    def leave(number, _):
        raise SystemExit(128 + number if options else 0)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    demo = Demo(exporter)
    try:
        demo.start()
        way(options)(demo)
    except (Failed, DeadlinePassed) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        demo.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
