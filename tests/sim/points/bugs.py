"""Bugs that the points must find: those of every part's own simulation, and some of the classic kinds in rooms that a
seed chose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from tests.sim import bugs as attacher_bugs
from tests.sim.growth import bugs as growth_bugs
from tests.sim.node import bugs as node_bugs
from tests.sim.plane import bugs as plane_bugs
from tests.sim.planting import Bug, planted_of
from tests.sim.points import attaching, claims, classic_bugs, copying, growing, leading, nodes, planes, snapping
from tests.sim.points.run import all_trials, play, recorded, tried
from tests.sim.points.script import Script
from tests.sim.points.table import SCRIPTS
from tests.sim.points.trial import Trial, Way
from tests.sim.provisioning import bugs as claim_bugs
from tests.sim.snapshots import bugs as snapshot_bugs

_SCRIPTS: Final[Mapping[str, tuple[Script, ...]]] = {
    "attacher": attaching.SCRIPTS + leading.SCRIPTS,
    "provisioner": claims.SCRIPTS + copying.SCRIPTS,
    "resizer": growing.SCRIPTS,
    "snapshots": snapping.SCRIPTS,
    "node": nodes.SCRIPTS,
    "plane": planes.SCRIPTS,
}
"""By part, the scripts in which its bugs can show."""
_OF_PARTS: Final[Mapping[str, Mapping[str, Bug]]] = {
    "attacher": attacher_bugs.BUGS,
    "provisioner": claim_bugs.BUGS,
    "resizer": growth_bugs.BUGS,
    "snapshots": snapshot_bugs.BUGS,
    "node": node_bugs.BUGS,
    "plane": plane_bugs.BUGS,
}
ALL: Final[Mapping[str, Bug]] = {
    **{f"{part}/{name}": bug for part, bugs in _OF_PARTS.items() for name, bug in bugs.items()},
    **classic_bugs.BUGS,
}
"""By part and name."""


STALE_MAX: Final = 120
"""Old views of a script that are tried for a bug; those of a longer one show what those of a shorter one do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """point: that showed it first. invariant: which it broke there. tried_count: of points, until then."""

    point: str
    invariant: str
    tried_count: int

    def __str__(self) -> str:
        return f"{self.point:<36} {self.invariant} (after {self.tried_count} points)"


def found_by(bug: str, names: tuple[str, ...]) -> Found | None:
    """The first point of these scripts that shows it; only those of its part are tried. Old views come last: there are
    many of them.
    """
    count = 0
    with planted_of(ALL, bug):
        records = {}
        for script in _SCRIPTS[bug.partition("/")[0]]:
            if script.name in names:
                records[script.name] = record = play(script)
                if record.broken is not None:
                    return Found(script.name, record.broken.invariant, count)
        for is_stale in (False, True):
            for name, record in records.items():
                trials = [trial for trial in all_trials(SCRIPTS[name], record) if (trial.way is Way.STALE) is is_stale]
                for trial in trials if not is_stale or len(trials) <= STALE_MAX else ():
                    count += 1
                    if (broken := tried(SCRIPTS[name], record, trial).broken) is not None:
                        return Found(str(trial), broken.invariant, count)
    return None


def failures(trials: Sequence[Trial], bug: str | None) -> list[tuple[Trial, str]]:
    """The trials of one script that fail, each with its report."""
    script = SCRIPTS[trials[0].script]
    with planted_of(ALL, bug):
        record = recorded(script)
        outcomes = [(trial, tried(script, record, trial)) for trial in trials]
    return [(trial, outcome.report(bug or "")) for trial, outcome in outcomes if outcome.broken]


KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "attacher/ends-are-untold": ("lead-attach",),
    "attacher/publish-before-finalizer": ("attach",),
    "attacher/timeout-is-success": ("detach",),
    "attacher/no-back-off": ("attach",),
    "attacher/single-nodes-shared": ("hasten",),
    "attacher/slots-ignored": ("share",),
    "attacher/removals-untested": ("reattach",),
    "attacher/removals-of-any-object": ("reattach",),
    "attacher/unconfirmed-publishes-hold-nothing": ("tear",),
    "attacher/names-are-identities": ("remake",),
    "provisioner/intents-in-memory": ("provision",),
    "provisioner/found-dropped": ("provision",),
    "provisioner/names-random": ("provision",),
    "provisioner/intents-end-early": ("restore",),
    "provisioner/let-go-too-early": ("clone",),
    "resizer/timeouts-final": ("modify-again",),
    "resizer/claims-done-first": ("modify",),
    "node/reports-unawaited": ("mount",),
    "node/attachments-read-once": ("hand-over-torn",),
    "node/folders-first": ("mount-owned",),
    "node/timeouts-final": ("unmount",),
    "node/found-trusted": ("mount",),
    "node/nothing-found": ("unmount",),
    "node/staging-skipped": ("mount",),
    "node/failed-pods-forgotten": ("mount",),
    "node/drivers-unheard": ("unmount",),
    "node/running-hides-deletion": ("unmount",),
    "plane/own-writes-forgotten": ("stop-pod",),
    "plane/recovery-forgets": ("stop-pod",),
    "plane/force-on-living": ("node-death-unsaid",),
    "plane/silent-nodes-looked": ("node-remade-silent",),
}
"""Bugs that are found, each with a script that finds it."""
