"""What has been noted of a life of snapshots: what its laws and checkers judge by, and excuse."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from mooring.base.clock import Instant
from tests.sim.snapshots.backend import SnapshotBackend
from tests.sim.snapshots.objects import uid_of
from tests.sim.snapshots.plan import Plan
from tests.sim.snapshots.tables import Tables
from tests.sim.snapshots.telling import Telling


class Ledger:
    """tables: the objects as they are stored. telling: who has been told what. lines: by the name of the process, what it has been shown.

    kept: handles of snapshots whose content went while its policy kept them, or by force. torn: names of contents that went by force.
    loose: handles that these had named, or unbound ones: another content may have left its snapshot to them.
    torn_snapshots: uids of snapshots that went by force. restored: uids that contents had before an administrator gave them away, or were
    given from a backup. ended_by_import: names that were made anew, rightly: an import of the snapshot had deleted it. unsaved: names of
    contents whose status the API server has refused. again: names of contents that were made once more. left: names of contents that were
    written late, when their process was dead. retained: names of contents, and since when their policy keeps their snapshot. now: the
    virtual time.
    """

    def __init__(self, plan: Plan, backend: SnapshotBackend, now: Callable[[], Instant], fail: Callable[[str, str], None]) -> None:
        self._plan, self._backend, self._now, self._fail = plan, backend, now, fail
        self.tables, self.telling = Tables(), Telling(now, plan.habits.obstacle_s)
        self.lines: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.torn: set[str] = set()
        self.loose: set[str] = set()
        self.torn_snapshots: set[str] = set()
        self.restored: set[str] = set()
        self.ended_by_import: set[str] = set()
        self.unsaved: set[str] = set()
        self.again: set[str] = set()
        self.left: set[str] = set()
        self._gone: set[str] = set()
        self.retained: dict[str, Instant] = {}
        self.was_retained: set[str] = set()
        self._in_flight: set[tuple[str, str]] = set()
        self._recent: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        self.counts: Counter[str] = Counter()

    def written_late(self, who: str, name: str) -> None:
        if not self.lines[who].mortal.alive:
            self.left.add(name)

    @property
    def torn_uids(self) -> set[str]:
        """The uids at the ends of the names of contents that went by force."""
        return {name.partition("-")[2] for name in self.torn}

    @property
    def is_single(self) -> bool:
        """True where no two processes of a program are at work at once: two can undo each other's work."""
        return self._plan.controllers == self._plan.snapshotters == 1

    def was_torn(self, name: str) -> bool:
        """True where a content that stood for this name went by force, or came from a backup."""
        uid = uid_of(name)
        return uid in self.restored or uid in self.torn_uids
