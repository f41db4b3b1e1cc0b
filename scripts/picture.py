# SPDX-License-Identifier: PostgreSQL
"""Takes the README's pictures of the running demo on a real terminal. scripts/picture runs this.

docs/top.svg is the screen of `pgleader top`; the block between the README's marks is a shell in which somebody yields.
"""

import contextlib
import difflib
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.demo_stage import DUTY, LEASE, UNREGISTERED_LOCK, Demo, ROOT  # noqa: E402
from tests.support.cluster import hold_lock  # noqa: E402
from tests.support.marks import between, replaced  # noqa: E402
from tests.support.scene import waiting  # noqa: E402
from tests.support.svg import columns, parsed, picture, screen_of  # noqa: E402
from tests.support.terminal import Tmux  # noqa: E402
from tests.support.wait import wait_until  # noqa: E402

SVG, README = ROOT / "docs/top.svg", ROOT / "README.md"
BLOCK = ("yield", "scripts/picture")
WIDTH, HEIGHT = 100, 12
SHELL_WIDTH, SHELL_HEIGHT = 200, 60  # a line of the recording is as long as the program made it
SCENE_SECONDS = 60

# What a person on call looks for, beside the demo's duties: one that stalls, one that nobody leads, one with a queue.
MORE = """
SELECT pgleader.register_duty('jobs/ledger-roll', lock_key => 742119, stall_after => '2 seconds', candidates => 'roll-%%');
SELECT pgleader.register_duty('jobs/mail-out', lock_key => 742120, candidates => 'mail-%%');
SELECT pgleader.register_duty('exports/partner', lock_key => 742121, candidates => 'partner-%%');
"""
ROWS = (rf"{DUTY} +worker-\d .* [1-9]\d*% led\b", rf"{LEASE} +report-\d .* led\b",
        rf"advisory/{UNREGISTERED_LOCK} +legacy-import .* led\b", r"jobs/ledger-roll .* 41% STALLED", r"jobs/mail-out .* VACANT",
        r"exports/partner .* \ds +- led")


def lead(demo, name, key, duty):
    """A session that leads, and its generation."""
    session = hold_lock(demo.pg, key, name, user="invoice_worker")
    return session, session.execute("SELECT pgleader.begin_term(%s, %s)", (duty, name)).fetchone()[0]


@contextlib.contextmanager
def more_duties(demo):
    demo.pg.sql(MORE)
    with contextlib.ExitStack() as stack:
        stall, generation = lead(demo, "roll-1", 742119, "jobs/ledger-roll")
        stack.callback(stall.close)
        stall.execute("SELECT pgleader.claim_run('jobs/ledger-roll', 'november', %s, '1 hour')", (generation,))
        stall.execute("SELECT pgleader.advance_run('jobs/ledger-roll', 'november', %s, 'page 41', 41, 100)", (generation,))
        lead(demo, "mail-1", 742120, "jobs/mail-out")[0].close()
        stack.callback(lead(demo, "partner-1", 742121, "exports/partner")[0].close)
        stack.enter_context(waiting(demo.pg, 742121, "partner-2", user="invoice_worker"))
        yield


def take_screen(demo):
    """What `pgleader top` shows once all of that is to be seen, with the sequences of its colours."""
    with more_duties(demo), Tmux(demo.top, WIDTH, HEIGHT) as terminal:
        for row in ROWS:
            terminal.wait(row, SCENE_SECONDS)
        terminal.keys("G")
        terminal.wait(rf"(?m)^>.advisory/{UNREGISTERED_LOCK}")
        return terminal.screen("-e", "-N")


def words_of(screen):
    """The screen's text, line by line."""
    return ["".join(text for _, text in runs).rstrip() for runs in parsed(screen)]


def rows_of(lines):
    """Those below the titles."""
    titles = next(i for i, line in enumerate(lines) if "DUTY" in line)
    return [line for line in lines[titles + 1:-2] if line[2:].strip()]


def describe(lines):
    """What somebody is told who cannot see the picture."""
    titles = next(line.split() for line in lines if "DUTY" in line)
    rows = [" ".join(line[2:].split()) for line in rows_of(lines)]
    return f"{lines[1].split('  ')[0]}. Columns: {', '.join(titles)}. {'; '.join(rows)}."


# The same words in every recording: in the first half of a run, with both successors there.
QUIET = """
SELECT true FROM pgleader.ownership o JOIN pgleader.current_run r USING (duty)
WHERE o.duty = %s AND o.candidates = 3 AND r.status = 'running' AND r.position BETWEEN 5 AND 100
"""


def record_yield(demo):
    """A shell in which a person yields the duty: what they typed, and what they read."""
    setting = {"PS1": "$ ", "PATH": f"{demo.pgleader.parent}:{os.environ['PATH']}", "PGLEADER_CONFIG": str(demo.operator_config)}
    wait_until(lambda: demo.pg.sql(QUIET, (DUTY,)), f"{DUTY} is in the midst of a run", SCENE_SECONDS)
    with Tmux(["bash", "--norc", "--noprofile"], SHELL_WIDTH, SHELL_HEIGHT, **setting) as shell:
        shell.wait(r"^\$")
        shell.type(f"pgleader yield {DUTY} --reason='host is going down'")
        shell.keys("Enter")
        asked = shell.wait(r'Type "([^"]+)" to confirm', SCENE_SECONDS)
        shell.type(re.search(r'Type "([^"]+)" to confirm', asked)[1])
        shell.keys("Enter")
        shell.wait(r"\nworker: .*\n\$\s*$", SCENE_SECONDS)
        lines = shell.screen("-J").rstrip().split("\n")[:-1]  # without the last prompt
    return "".join(f"{line.rstrip()}\n" for line in lines)


def in_block(recording):
    return f"```console\n{recording}```\n"


def shape(text):
    """A recording without what differs from run to run: numbers, and who happened to lead."""
    return [re.sub(r"(?:\d+[.:]?)+", "N", re.sub(r"worker-\d", "worker", line)) for line in text.splitlines()]


def landmarks(lines):
    """Of a screen: its titles, the duties, and the keys."""
    titles = next(line for line in lines if "DUTY" in line)
    duties = sorted(line[2:].split()[0] for line in rows_of(lines))
    return [" ".join(titles.split()), *duties, " ".join(lines[-1].split())]


def differences(screen, recording):
    """What the README shows (-) and the programs do not, or the other way round (+)."""
    pairs = ((SVG.name, landmarks(screen_of(SVG.read_text(encoding="utf-8"))), landmarks(words_of(screen))),
             (README.name, shape(between(README.read_text(encoding="utf-8"), *BLOCK)), shape(in_block(recording))))
    return [line for name, old, new in pairs for line in difflib.unified_diff(old, new, name, "the program", lineterm="")]


def write(screen, recording):
    lines = words_of(screen)
    assert max(columns(line) for line in lines) <= WIDTH
    SVG.parent.mkdir(exist_ok=True)
    SVG.write_text(picture(screen, WIDTH, "pgleader top on the demo", describe(lines)), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(replaced(text, *BLOCK, in_block(recording)), encoding="utf-8")


def main(exporter, mode=None):
    demo = Demo(exporter)
    try:
        demo.start_duties()
        screen, recording = take_screen(demo), record_yield(demo)
    finally:
        demo.close()
    if mode != "--check":
        write(screen, recording)
        return 0
    wrong = differences(screen, recording)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
