"""What a seed chooses before a life of the reference driver begins."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.plan import perhaps

KINDS: Final = ("image", "image", "block", "folder")


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """images: file systems in place of folders. nodes: how many of one machine. users: how many at once. crash: probability at each change.
    full: of a wish, that the disk is full while it ends. unread: that a device can't be read when it is staged first. damaged: that
    somebody damages what is on a device. meddled: that somebody mounts in a volume's folder. readonly, unknown: of a wish for a volume
    that is only read, and with an unknown parameter.
    """

    seed: int
    images: bool
    nodes: int
    users: int
    crash: float
    crashes_max: int
    full: float
    unread: float
    damaged: float
    meddled: float
    readonly: float
    unknown: float
    acts: tuple[str, ...] = ()


def plan_of(seed: int) -> Plan:
    randomness = Random(seed)
    return Plan(
        seed=seed,
        images=randomness.happens(0.7),
        nodes=1 + randomness.below(2),
        users=1 + randomness.below(3),
        crash=perhaps(randomness, 0.6, 0.005, 0.05),
        crashes_max=1 + randomness.below(8),
        full=perhaps(randomness, 0.4, 0.3, 1.0),
        unread=perhaps(randomness, 0.3, 0.3, 1.0),
        damaged=perhaps(randomness, 0.3, 0.3, 1.0),
        meddled=perhaps(randomness, 0.4, 0.3, 1.0),
        readonly=perhaps(randomness, 0.5, 0.3, 1.0),
        unknown=perhaps(randomness, 0.4, 0.3, 1.0),
    )
