# SPDX-License-Identifier: PostgreSQL
"""What happened: the notes of the workers and of the observer, read as they grow. All times are CLOCK_MONOTONIC, ns."""

from collections import namedtuple

Note = namedtuple("Note", "at_ns kind instance generation pid words")
Change = namedtuple("Change", "before_ns after_ns old new")


class Tail:
    """The whole lines that were appended to a file since the last look."""

    def __init__(self, path):
        self.path = path
        self.offset = 0

    def lines(self):
        if not self.path.exists():
            return []
        with open(self.path, "rb") as f:
            f.seek(self.offset)
            data = f.read()
        end = data.rfind(b"\n") + 1
        self.offset += end
        return data[:end].decode(errors="replace").splitlines()


class Term:
    """One process's work at one generation."""

    def __init__(self, note):
        self.instance, self.generation, self.pid = note.instance, note.generation, note.pid
        self.start_ns = self.last_ns = note.at_ns
        self.term_ns = self.stop_ns = None  # when SIGTERM came; when it ended by itself
        self.claims, self.units, self.refused, self.beside = [], [], [], []

    def take(self, note):
        self.last_ns = max(self.last_ns, note.at_ns)
        if note.kind == "term":
            self.term_ns = self.term_ns or note.at_ns
        elif note.kind == "stop":
            self.stop_ns = note.at_ns
        elif note.kind == "claim":
            self.claims.append((note.at_ns, note.words[0], int(note.words[1])))
        elif note.kind == "unit":
            self.units.append((int(note.words[1]), note.at_ns, int(note.words[0])))  # fenced, done, item
        elif note.kind == "refused":
            self.refused.append((note.at_ns, note.words[0]))
        elif note.kind == "beside":
            self.beside.append((note.at_ns, *map(int, note.words[0].split("-"))))

    @property
    def effect_ns(self):
        """When its first effect was committed; None while there is none."""
        return self.units[0][1] if self.units else None

    def __str__(self):
        return f"{self.instance} generation {self.generation} pid {self.pid}"


class Record:
    """terms: by (generation, pid), in the order of their starts; changes: of the lock's owner."""

    def __init__(self, folder):
        self.notes = Tail(folder / "notes")
        self.observed = Tail(folder / "observed")
        self.terms = {}
        self.changes = []

    def read(self):
        for line in self.notes.lines():
            at, kind, instance, generation, pid, *words = line.split()
            note = Note(int(at), kind, instance, int(generation), int(pid), words)
            key = note.generation, note.pid
            if key not in self.terms:
                self.terms[key] = Term(note)
            self.terms[key].take(note)
        for line in self.observed.lines():
            at, kind, *words = line.split()
            if kind == "owner":
                self.changes.append(Change(int(words[0]), int(at), words[1], words[2]))
        return self

    def newest(self):
        return max(self.terms.values(), key=lambda t: (t.generation, t.start_ns), default=None)

    def working(self, after_ns=0, above=0):
        """The newest term, if it has committed an effect after that time, above that generation."""
        term = self.read().newest()
        found = term and term.generation > above and term.units and term.units[-1][1] > after_ns
        return term if found else None

    def release(self, owner, after_ns=0):
        """(lower, upper): when that owner no longer had it, as the observer saw it."""
        gone = (c for c in self.changes if c.after_ns > after_ns and c.old == owner and c.new != owner)
        return next(((c.before_ns, c.after_ns) for c in gone), None)
