# SPDX-License-Identifier: PostgreSQL
"""What must never happen, looked for in what did: by the workers' notes, the database, the target and the kernel."""

EFFECTS = "select count(*), count(distinct item), coalesce(max(item), 0) from effect"
# By the server's own clock: an effect of a generation after a later one had begun.
STALE_EFFECTS = """
select e.item, e.generation, e.instance, e.at, n.began from effect e cross join lateral (
    select min(t.acquired_at) as began from pgleader.term t where t.generation > e.generation) n
where e.at >= n.began and e.item > %s order by e.item limit 5"""
BACKWARDS = """
select item, generation, before from (
    select item, generation, lag(generation) over (order by item) as before from effect where item >= %s) e
where generation < before limit 5"""
DOUBLES = "select item, array_agg(generation || ' ' || instance) from effect group by item having count(*) > 1 limit 5"


def ms(ns):
    return f"{ns / 1e6:.1f} ms"


def overlaps(terms, paused, settles):
    """(violations, milliseconds of each overlap that a pause of the kit itself explains)."""
    wrong, explained = [], []
    ordered = sorted(terms, key=lambda t: t.start_ns)
    for i, old in enumerate(ordered):
        for new in ordered[i + 1:]:
            seen = old.last_ns - new.start_ns
            witness = any(g == old.generation and p == old.pid for _, g, p in new.beside)
            if seen <= 0 and not witness:
                continue
            if old in paused:
                explained.append(max(seen, 0) / 1e6)
            elif settles:
                wrong.append(f"two duties at once: {old} worked on for {ms(seen)} after {new} had begun"
                             f"{', and its process lived then' if witness else ''}")
    return wrong, explained


def generations(terms):
    """Each process's generation is its own, and higher than all that began before it."""
    wrong = []
    highest = None
    for term in sorted(terms, key=lambda t: t.start_ns):
        if highest and term.generation <= highest.generation:
            wrong.append(f"a repeated generation: {term} began after {highest}")
        if highest is None or term.generation > highest.generation:
            highest = term
    return wrong


def reconciled(terms):
    """Who writes an effect has claimed the run before, and goes on at the cursor that it was told."""
    wrong = []
    for term in terms:
        claims = [(at, int(cursor)) for at, _, cursor in term.claims]
        if term.units and (not claims or claims[0][0] > term.units[0][0]):
            wrong.append(f"{term} wrote before it claimed the run")
        elif term.units and term.units[0][2] != claims[0][1] + 1:
            wrong.append(f"{term} was told cursor {claims[0][1]} and began at item {term.units[0][2]}")
    return wrong


def effects(stage, checked):
    """(violations, items so far): none skipped, none twice, none by a stale generation."""
    count, distinct, highest = stage.sql(EFFECTS)[0]
    wrong = []
    if not count == distinct == highest:
        doubles = stage.sql(DOUBLES)
        wrong.append(f"{count} effects of {distinct} items, the last is {highest}: {highest - distinct} skipped; "
                     f"twice: {doubles}")
    wrong += [f"an accepted stale write: item {item} of generation {generation} ({instance}) at {at}, "
              f"after a later one had begun at {began}"
              for item, generation, instance, at, began in stage.sql(STALE_EFFECTS, (checked,))]
    wrong += [f"an accepted stale write: item {item} is of generation {generation}, after one of {before}"
              for item, generation, before in stage.sql(BACKWARDS, (checked,))]
    return wrong, highest


def calls(seen):
    """The target's own book: accepted generations never fall."""
    wrong, highest = [], 0
    for call in seen:
        if call.accepted and call.generation < highest:
            wrong.append(f"the target accepted generation {call.generation} of {call.instance} after {highest}")
        if call.accepted:
            highest = max(highest, call.generation)
    return wrong


def orphans(stage):
    """Processes of the exercise that belong to no living candidate, or work at an old generation."""
    family = set()
    for candidate in stage.candidates:
        try:
            family |= {candidate.process.pid, *candidate.children()}
        except OSError:
            continue  # it ended just now, and is started again
    newest = stage.record.read().newest()
    current = f"PGLEADER_GENERATION={newest.generation if newest else 0}".encode()
    return [pid for pid, words in stage.environments()
            if pid not in family or (any(w.startswith(b"PGLEADER_GENERATION=") for w in words) and current not in words)]
