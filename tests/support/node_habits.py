"""Ways in which the node services of real drivers differ: one definition for the simulation's drivers and for those of
the tests.

All of them are allowed by the specification, or seen in the field. The plain driver has none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.wire.grpc.codes import Code

LEAVINGS: Final[Mapping[str, Callable[[Path], object]]] = {
    "file": Path.touch,
    "folder": Path.mkdir,
    "link": lambda target: target.symlink_to("/nowhere"),
}
"""What a driver may leave at a target, to how it is made where nothing is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stubborn:
    """One kind of call that fails each time. verb: of the simulation's words. code: in the answer. done: the work is
    done all the same.
    """

    verb: str
    code: Code
    done: bool


@dataclasses.dataclass(frozen=True, slots=True)
class NodeHabits:
    """mounts_apart: what it publishes is a mount of its own, and no bind mount of what is staged. leaves: one of
    LEAVINGS, "" for nothing.

    leaves_devices: the device's file of a raw block volume stays. forgets: when it restarts, it knows nothing of what
    it has mounted: NotFound, and the mount stays, until somebody mends it. knows_own: NotFound for a volume that it
    does not have where it is to take it from. hangs: the calls that it never answers, by the simulation's words.
    hangs_at_first: only for the first path that it is called with; each path has a lock of its own. stubborn: None for
    a driver that is not. tokens: it wants a token of each pod. stats: it tells how full its volumes are. counts: how
    many volumes fit on a node, and that is asked again and again; 0 for a driver that does not tell. is_upgraded: other
    versions of it, with other capabilities, are rolled out while it is in use. sets_groups: it gives volumes the group
    of a pod itself. group_policy: what its CSIDriver says of groups, "" for nothing.
    """

    mounts_apart: bool = False
    leaves: str = ""
    leaves_devices: bool = False
    forgets: bool = False
    knows_own: bool = False
    hangs: frozenset[str] = frozenset()
    hangs_at_first: bool = False
    stubborn: Stubborn | None = None
    tokens: bool = False
    stats: bool = False
    counts: int = 0
    is_upgraded: bool = False
    sets_groups: bool = False
    group_policy: str = ""


PLAIN: Final = NodeHabits()
