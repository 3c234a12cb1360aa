"""What has been noted of a life of snapshots: what its laws and checkers judge by, and excuse."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from mooring.api.snapshot_names import DELETE_POLICY
from mooring.base.clock import Instant
from tests.sim.snapshots.backend import SnapshotBackend
from tests.sim.snapshots.objects import (
    CONTENTS,
    GROUP_CONTENTS,
    GROUPS,
    SNAPSHOTS,
    Json,
    handles_of,
    members_of,
    ref_of,
    uid_of,
)
from tests.sim.snapshots.plan import Plan
from tests.sim.snapshots.tables import Tables
from tests.sim.snapshots.telling import Telling
from tests.sim.tears import GRACE_S


class Ledger:
    """tables: the objects as they are stored. telling: who has been told what. lines: by the name of the process, what
    it has been shown.

    kept: handles of snapshots whose content went while its policy kept them, or by force. torn: names of contents that
    went by force. loose: handles that these had named, or unbound ones: another content may have left its snapshot to
    them.
    torn_snapshots: uids of snapshots that went by force. restored: uids that contents had before an administrator gave
    them away, or were given from a backup. ended_by_import: names that were made anew, rightly: an import of the
    snapshot had deleted it. unsaved: names of contents whose status the API server has refused. again: names of
    contents that were made once more. left: names of contents that were written late, when their process was dead.
    retained: names of contents, and since when their policy keeps their snapshot. ended: by handle, the version at
    which the last content went that kept it: an unbound one, an import that the driver has not told of, or by its
    policy. now: the virtual time.
    """

    def __init__(
        self, plan: Plan, backend: SnapshotBackend, now: Callable[[], Instant], fail: Callable[[str, str], None]
    ) -> None:
        self._plan, self._backend, self._now, self._fail = plan, backend, now, fail
        self.tables, self.telling = Tables(), Telling(now, plan.habits.obstacle_s)
        self.unheard = self.telling.unheard
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
        self.ended: dict[str, int] = {}
        self._releases: dict[
            str, int
        ] = {}  # by the name of a content, which version of contents its releaser had been shown
        self._gone: set[str] = set()
        self.retained: dict[str, Instant] = {}
        self.was_retained: set[str] = set()
        self._in_flight: set[tuple[str, str]] = set()
        self._recent: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        self.counts: Counter[str] = Counter()
        self._was_set_back = False
        self._heard: dict[
            str, Instant
        ] = {}  # by the name of a process, when it was first shown contents since the server was set back

    # -- a server that is set back

    def was_set_back(self, whole: Callable[[str], list[Json]]) -> None:
        """What has been done since the backup, nobody knows: of objects that have changed since, the laws ask what they
        ask of those that went by force, or came from a backup; and what nobody names any more may go or stay. whole:
        the objects of a kind as they are now.
        """
        before = {plural: dict(found) for plural, found in self.tables.objects.items()}
        names = {one["metadata"]["uid"]: name for found in before.values() for name, one in found.items()}
        for plural in before:
            self.tables.replace(plural, whole(plural))
        after = self.tables.objects
        for plural, found in before.items():
            for name in {*found, *after[plural]}:
                old, new = found.get(name), after[plural].get(name)
                if old != new:
                    self._has_changed(plural, *(one for one in (old, new) if one is not None))
        named = {handle for one in after[CONTENTS].values() for handle in handles_of(one)}
        named |= {handle for one in after[GROUP_CONTENTS].values() for handle in members_of(one)}
        self.loose |= set(self._backend.snapshots) - named - self.kept
        self.kept -= named
        kept = {name for plural in (CONTENTS, GROUP_CONTENTS) for name, one in after[plural].items() if _retains(one)}
        self.retained = dict.fromkeys(sorted(kept), self._now())
        self.was_retained |= kept
        self.telling.forget(names)
        self._was_set_back, self._heard = True, {}

    def _has_changed(self, plural: str, *states: Json) -> None:
        for one in states:
            if plural in (SNAPSHOTS, GROUPS):
                self.restored.add(one["metadata"]["uid"])
            elif plural in (CONTENTS, GROUP_CONTENTS):
                self.restored.add(ref_of(one).get("uid") or "")
        self.restored.discard("")

    def shown(self, who: str, plural: str, version: int) -> None:
        """A list or a watch has shown the process the kind up to this version."""
        if plural == CONTENTS and self._was_set_back:
            self._heard.setdefault(who, self._now())

    def may_precede_set_back(self, who: str) -> bool:
        """True while what the process does may have been decided before it heard that the server was set back."""
        return self._was_set_back and self._now() < self._heard.get(who, self._now()) + GRACE_S

    @property
    def is_catching_up(self) -> bool:
        """True while a process has still to list a kind since the server was set back: its lists may wait for their
        back-off.
        """
        lines = [line for line in self.lines.values() if line.mortal.alive]
        return self._was_set_back and any(line.shown(plural) < 0 for line in lines for plural in line.watched)

    def _blame(self, who: str, law: str, text: str) -> None:
        """A process has broken the law by a call, unless it may have decided on that before it heard that the server
        was set back.
        """
        if not self.may_precede_set_back(who):
            self._fail(law, text)

    # -- what is excused

    def release_begins(self, who: str, name: str) -> None:
        """A process is about to let the content go."""
        self._releases[name] = self.lines[who].shown_before_now(CONTENTS)

    def _is_left_to_another(self, name: str, handle: str) -> bool:
        """True where the release was decided when another content that kept the handle was still shown: that one can go
        before the write arrives, and no write to one object can ask for another.
        """
        return name in self._releases and self._releases[name] < self.ended.get(handle, 0)

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


def _retains(content: Json) -> bool:
    return bool(content["spec"]["deletionPolicy"] != DELETE_POLICY)
