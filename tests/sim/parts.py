"""The table of all parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tests.sim import run as attacher
from tests.sim.course import Part
from tests.sim.driver import run as driver
from tests.sim.growth import run as growth
from tests.sim.node import run as node
from tests.sim.plane import run as plane
from tests.sim.provisioning import run as provisioning
from tests.sim.snapshots import run as snapshots

PARTS: Final[Mapping[str, Part]] = {
    module.PART.name: module.PART for module in (attacher, provisioning, node, driver, plane, growth, snapshots)
}


def failures(part: str, seeds: Iterable[int], bug: str | None) -> list[tuple[str, str, int]]:
    """Of each life of the part that failed, its report, the invariant that was broken, and the seed."""
    outcomes = (PARTS[part].run_seed(seed, bug=bug) for seed in seeds)
    return [(outcome.report(), outcome.broken.invariant, outcome.seed) for outcome in outcomes if outcome.broken]
