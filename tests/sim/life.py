"""What an attacher's life begins with."""

from __future__ import annotations

from typing import Final

from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from tests.sim.endpoint import Endpoint, info_of
from tests.sim.keeper import Made
from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.plan import Plan
from tests.sim.standing import outside
from tests.sim.tears import PLURAL
from tests.sim.world import SimWorld

PROGRAM: Final = "attacher"


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
    plan, tears = world.plan, world.laws.tears
    number = mortal.number
    driver = InProcessDriver(Endpoint(world, mortal), clock=world.clock)
    line = Line(world, mortal)
    line.on_shown = lambda plural, version: tears.shown(plural, version) if tears.living == number else None
    mortal.at_begin(lambda: tears.begins(number, line.shown(PLURAL)))
    runtime = Runtime(outside(line), mortal.clock, Random(plan.seed * 1000 + number), world.metrics)
    return Attacher(runtime, driver, info_of(plan), options_of(plan)), line
