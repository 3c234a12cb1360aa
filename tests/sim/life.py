"""What an attacher's life begins with."""

from __future__ import annotations

from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.controllers.attacher.controller import Attacher
from mooring.controllers.attacher.options import AttacherOptions
from mooring.csi.in_process import InProcessDriver
from tests.sim.endpoint import Endpoint, info_of
from tests.sim.keeper import Made
from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.plan import Plan
from tests.sim.world import SimWorld


def options_of(plan: Plan) -> AttacherOptions:
    return AttacherOptions(
        timeout_s=plan.timeout_s,
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
        resync_s=plan.resync_s,
        reconcile_sync_s=plan.reconcile_s,
        max_entries=plan.page_size,
    )


def attacher(world: SimWorld, mortal: Mortal) -> Made:
    plan = world.plan
    world.laws.tears.living = mortal.number
    driver = InProcessDriver(Endpoint(world, mortal), clock=world.clock)
    line = Line(world, mortal)
    line.on_shown = world.laws.tears.shown
    runtime = Runtime(line, world.clock, Random(plan.seed * 1000 + mortal.number), world.metrics)
    return Attacher(runtime, driver, info_of(plan), options_of(plan)), line
