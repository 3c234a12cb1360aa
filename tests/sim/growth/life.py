"""What the lives of the resizer begin with."""

from __future__ import annotations

from typing import Any

from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.resizer.controller import Resizer
from mooring.sidecars.resizer.options import ResizerOptions
from tests.sim.growth.backend import Endpoint, info_of
from tests.sim.growth.line import GrowthLine
from tests.sim.growth.plan import Plan
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.standing import outside


def options_of(plan: Plan) -> ResizerOptions:
    return ResizerOptions(
        timeout_s=plan.timeout_s,
        workers=plan.workers,
        resync_s=plan.resync_s,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
        handle_volume_inuse_error=plan.in_use_errors,
        annotate=plan.annotates,
    )


def resizer(world: Any, mortal: Mortal) -> Made:
    plan, clock, randomness = world.plan, mortal.clock, Random(world.plan.seed * 1000 + mortal.number)
    line, driver = GrowthLine(world, mortal), InProcessDriver(Endpoint(world, mortal), clock=clock)
    events = EventRecorder(outside(line), mortal.who, clock=clock, randomness=randomness)
    runtime = Runtime(outside(line), clock, randomness, world.metrics)
    return Resizer(runtime, driver, info_of(plan), options_of(plan), events, on_node=plan.on_node), line
