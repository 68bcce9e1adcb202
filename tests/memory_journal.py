"""A journal in memory with the verbs that `Live` asks of one: it can be copied, and can fail on command."""

import dataclasses

from noregret.journal.errors import JournalUnavailable
from noregret.journal.event import Entry, Event
from noregret.journal.snapshots import Snapshot

FIELDS = [f.name for f in dataclasses.fields(Entry)]


class MemoryJournal:
    """fails: whether the next write fails "before" it is done, or "after"."""

    def __init__(self):
        self.rows, self.blobs, self.fails, self.free = [], {}, None, True

    @property
    def head(self):
        return len(self.rows)

    def lock(self, wait=0.0):
        return self.free

    def write(self, entries):
        fails, self.fails = self.fails, None
        if fails == "before":
            raise JournalUnavailable("no room")
        told = [{f: getattr(e, f) for f in FIELDS} for e in entries]
        made = [Event(**one, number=len(self.rows) + i) for i, one in enumerate(told)]
        self.rows += made
        if fails == "after":
            raise JournalUnavailable("gone")
        return made

    def events(self, start=0, stop=None, kinds=None):
        return iter([e for e in self.rows[start:stop] if kinds is None or e.kind in kinds])

    def of(self, who):
        return [e for e in self.rows if e.who == who]

    def keep_snapshot(self, number, blob, version):
        self.blobs[number] = blob

    def snapshots(self):
        return [Snapshot(n, "", "", len(self.blobs[n]), b"") for n in sorted(self.blobs, reverse=True)]

    def snapshot(self, number):
        return self.blobs[number]

    def erase(self, who, learned=None):
        gone = dict.fromkeys(("who", "key", "asked", "payload", "answer")) | {"erased": True}
        self.rows = [dataclasses.replace(e, **gone) if e.who == who else e for e in self.rows]
        return self.write([dataclasses.replace(self.rows[0], kind="erased", payload={})])[0]
