"""What the lives of provisioner and binder begin with."""

from __future__ import annotations

from typing import Any

from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.binder import options as binding
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.options import ProvisionerOptions
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.provisioning.endpoint import Endpoint, info_of
from tests.sim.provisioning.line import QuietLine, WritingLine
from tests.sim.provisioning.plan import PLACE
from tests.sim.standing import outside
from tests.sim.world import EPOCH_S

PARTS = frozenset({binding.BINDER, binding.CLAIM_PROTECTION, binding.VOLUME_PROTECTION})


def provisioner(world: Any, mortal: Mortal) -> Made:
    plan, clock, randomness = world.plan, mortal.clock, Random(world.plan.seed * 1000 + mortal.number)
    line = WritingLine(world, mortal)
    world.laws.shown = lambda process, plural: line.shown_before_now(plural) if process == mortal.number else 0
    driver = InProcessDriver(Endpoint(world, mortal), clock=clock)
    options = ProvisionerOptions(
        timeout_s=plan.timeout_s,
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
    )
    cluster = outside(line)
    intents = Journal(cluster, PLACE, mortal.who, clock)
    own_clock = LoopClock(
        EPOCH_S + 1e-6 * mortal.number
    )  # events are named by their time, and no two programs write at the same one
    events = EventRecorder(cluster, mortal.who, clock=own_clock, randomness=randomness)
    made = Provisioner(
        Runtime(cluster, clock, randomness, world.metrics), driver, info_of(plan), options, events, intents=intents
    )
    return made, line


def binder(world: Any, mortal: Mortal, parts: frozenset[str] = PARTS) -> Made:
    line = (WritingLine if world.plan.binder_faults else QuietLine)(world, mortal)
    runtime = Runtime(outside(line), mortal.clock, Random(world.plan.seed * 2000 + mortal.number), world.metrics)
    return make_binder(runtime, BinderOptions(parts=parts, workers=2)), line
