"""What a seed chooses before a life of the reference driver begins."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.plan import perhaps

KINDS: Final = ("image", "image", "block", "folder")


_ODD_SEED: Final = 1 << 40


@dataclasses.dataclass(frozen=True, slots=True)
class Odd:
    """groups: somebody takes a group of two volumes, and deletes it while one is restored from it. inline: pods bring
    volumes. looks: snapshots are listed all the time. gid: volumes are given to a group. exact: of a wish for a volume
    of one size and no other. broken: that a write of the state fails, for no lack of room.
    """

    groups: bool = False
    inline: bool = False
    looks: bool = False
    gid: bool = False
    exact: float = 0.0
    broken: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """images: file systems in place of folders. nodes: how many of one machine. users: how many at once. crash:
    probability at each change. full: of a wish, that the disk is full while it ends. unread: that a device can't be
    read when it is staged first. damaged: that somebody damages what is on a device. meddled: that somebody mounts in a
    volume's folder. readonly, unknown: of a wish for a volume that is only read, and with an unknown parameter.
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
    odd: Odd = Odd()
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
        odd=_odd_of(seed),
    )


def _odd_of(seed: int) -> Odd:
    """From a source of its own."""
    randomness = Random(seed + _ODD_SEED)
    return Odd(
        groups=randomness.happens(0.3),
        inline=randomness.happens(0.3),
        looks=randomness.happens(0.3),
        gid=randomness.happens(0.3),
        exact=perhaps(randomness, 0.3, 0.3, 1.0),
        broken=perhaps(randomness, 0.3, 0.01, 0.1),
    )
