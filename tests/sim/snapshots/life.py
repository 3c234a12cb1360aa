"""What the lives of snapshot controller and snapshotter begin with."""

from __future__ import annotations

from typing import Any

from mooring.base.randomness import Random
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.snapshots.endpoint import Endpoint, info_of
from tests.sim.snapshots.line import OF_CONTENTS, OF_GROUP_CONTENTS, OF_GROUPS, OF_SNAPSHOTS, SnapshotLine
from tests.sim.standing import outside


def controller(world: Any, mortal: Mortal) -> Made:
    plan = world.plan
    line = SnapshotLine(world, mortal, (*OF_SNAPSHOTS, *(OF_GROUPS if plan.groups else ())))
    options = SnapshotControllerOptions(
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
        resync_s=plan.resync_s,
        groups=plan.groups,
    )
    return SnapshotController(_runtime(world, line, mortal, 6000), options), line


def snapshotter(world: Any, mortal: Mortal) -> Made:
    plan = world.plan
    line = SnapshotLine(world, mortal, (*OF_CONTENTS, *(OF_GROUP_CONTENTS if plan.groups else ())))
    options = SnapshotterOptions(
        timeout_s=plan.timeout_s,
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
        resync_s=plan.resync_s,
        groups=plan.groups,
    )
    driver = InProcessDriver(Endpoint(world, mortal), clock=mortal.clock)
    return Snapshotter(_runtime(world, line, mortal, 7000), driver, info_of(plan), options), line


def _runtime(world: Any, line: SnapshotLine, mortal: Mortal, factor: int) -> Runtime:
    return Runtime(outside(line), mortal.clock, Random(world.plan.seed * factor + mortal.number), world.metrics)
