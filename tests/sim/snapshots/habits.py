"""What a seed chooses of the world's worse habits: of the driver, of users, and of what stands in the way for good.

Drawn from a stream of its own, so that the older choices of a plan stay what they were. Each habit is absent from most
lives.

| habit       | meaning |
| --- | --- |
| quirks      | a call of one kind always fails, or once for each name, with one code, or never ends |
| forgets     | a driver that starts again has forgotten by which names it made what it has |
| late        | a call is answered with an error that says nothing, and carried out later |
| tenants     | who asks without the Secret is another tenant, who sees nothing of it |
| list_secret | classes with a Secret name it for questions, too |
| lingers     | what was deleted is still answered with for a while |
| echoes      | ids of snapshots come back from questions in other letters, or not at all |
| kin         | the same of the ids of groups in their snapshots |
| nameless    | the snapshots of a group come without the volumes that they are of |
| borrows     | a driver that lies answers with a snapshot that another content has |
| meddling    | others move their finalizers on an object while a write of a program to it is on its way there |
| crossing    | its owner deletes a snapshot, or an unbound import, while a write to it is on its way |
| denied      | the API server refuses writes of one kind, with one error, until it is mended |
| obstacle_s  | how long lasting obstacles outlive all other faults: nobody who waits may be silent |
| acts        | what users and administrators do beside the acts of the plan, and how often |
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.plan import perhaps, weighted
from tests.sim.quirks import SLOW_S, Quirk, quirks_of

CREATE, DELETE, CREATE_GROUP, DELETE_GROUP = "create", "delete", "create group", "delete group"
ECHOES: Final = ("letters", "none")
DENIED: Final = (
    "patch volumesnapshots",
    "patch volumesnapshots/status",
    "patch volumesnapshotcontents",
    "patch volumesnapshotcontents/status",
    "create volumesnapshotcontents",
    "delete volumesnapshotcontents",
    "update persistentvolumeclaims",
    "patch volumegroupsnapshots",
    "patch volumegroupsnapshots/status",
    "patch volumegroupsnapshotcontents",
    "patch volumegroupsnapshotcontents/status",
    "create volumegroupsnapshotcontents",
    "delete volumegroupsnapshotcontents",
    "create volumesnapshots",
)
"""Writes of programs that the API server may refuse for good."""

ODD_ACTS: Final = {
    "import_in_making": 4,
    "take_over_class": 2,
    "snapshot_of_other_class": 2,
    "import_of_other_class": 2,
    "tear_snapshot": 1,
    "tear_claim": 1,
    "back_up": 3,
    "restore_backup": 4,
    "write_by_hand": 3,
    "rebind": 3,
    "swap_secret": 1,
    "import_group": 3,
    "import_member": 3,
    "drop_group_content": 1,
    "group_kinds_go": 1,
    "group_kinds_come": 3,
}
_OF_GROUPS: Final = ("import_group", "import_member", "drop_group_content", "group_kinds_go", "group_kinds_come")


@dataclasses.dataclass(frozen=True, slots=True)
class Denial:
    """write: as laws name it, without the object. error: what the API server says to it."""

    write: str
    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class Habits:
    """late, meddling, crossing, act_share: probabilities. Words as in the table above."""

    quirks: tuple[Quirk, ...]
    forgets: bool
    late: float
    tenants: bool
    list_secret: bool
    lingers_s: float
    echoes: str
    kin: str
    nameless: bool
    borrows: bool
    meddling: float
    crossing: float
    denied: Denial | None
    obstacle_s: float
    long_names: bool
    act_share: float
    acts: tuple[str, ...]


def habits_of(seed: int, *, groups: bool, retry_max_s: float) -> Habits:
    """The habits of a seed's world."""
    randomness = Random(seed * 1_000_003 + 17)
    verbs = (CREATE, DELETE, *((CREATE_GROUP, DELETE_GROUP) if groups else ()))
    quirks = quirks_of(randomness, 0.3, verbs)
    odd = {act: weight for act, weight in ODD_ACTS.items() if groups or act not in _OF_GROUPS}
    return Habits(
        quirks=quirks,
        forgets=randomness.happens(0.1),
        late=perhaps(randomness, 0.2, 0.05, 0.4),
        tenants=randomness.happens(0.2),
        list_secret=randomness.happens(0.3),
        lingers_s=perhaps(randomness, 0.15, 0.5, 15.0),
        echoes=ECHOES[randomness.below(2)] if randomness.happens(0.15) else "",
        kin=ECHOES[randomness.below(2)] if randomness.happens(0.15) else "",
        nameless=randomness.happens(0.15),
        borrows=randomness.happens(0.5),
        meddling=perhaps(randomness, 0.25, 0.1, 0.6),
        crossing=perhaps(Random(seed * 1_000_003 + 41), 0.2, 0.05, 0.4),
        denied=(denied := _denial(randomness, groups=groups)),
        obstacle_s=_obstacle_s(
            randomness, lasts=denied is not None or any(not quirk.once for quirk in quirks), retry_max_s=retry_max_s
        ),
        long_names=randomness.happens(0.1),
        act_share=perhaps(randomness, 0.6, 0.1, 0.5),
        acts=weighted(randomness, odd, ()) or ("write_by_hand",) * odd["write_by_hand"],
    )


def _denial(randomness: Random, *, groups: bool) -> Denial | None:
    if not randomness.happens(0.2):
        return None
    known = [write for write in DENIED if groups or "group" not in write]
    return Denial(
        known[randomness.below(len(known))], ("Invalid", "TooLarge", "Forbidden", "webhook")[randomness.below(4)]
    )


def _obstacle_s(randomness: Random, *, lasts: bool, retry_max_s: float) -> float:
    """Longer than an hour, now and then: Events last so long."""
    if not randomness.happens(0.7 if lasts else 0.1):
        return 0.0
    return 4000.0 if randomness.happens(0.1) and retry_max_s > SLOW_S else 60.0
