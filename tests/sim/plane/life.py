"""What the lives of the plane's programs begin with."""

from __future__ import annotations

from typing import Any, Final

from mooring.base.randomness import Random
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.binder import options as binding
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.workloads.controller import Workloads
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.attacher.controller import Attacher
from tests.sim.endpoint import info_of
from tests.sim.keeper import Made
from tests.sim.life import options_of
from tests.sim.line import WATCHED
from tests.sim.mortal import Mortal
from tests.sim.plane.backend import PlaneEndpoint
from tests.sim.plane.line import PlaneLine
from tests.sim.provisioning import life as claims
from tests.sim.standing import outside

WORKERS: Final = 4
"""Of volumes: in a world this small as good as the 64 of production, and a start is quicker."""
OWNED: Final = (
    "pods",
    "statefulsets",
    "deployments",
    "replicasets",
    "jobs",
    "controllerrevisions",
    "persistentvolumeclaims",
)
"""By the controllers of workloads."""
FOLLOWED: Final = ("pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "csidrivers", "volumeattachments")


def _runtime(world: Any, line: PlaneLine, mortal: Mortal, factor: int) -> Runtime:
    return Runtime(outside(line), world.program_clock, Random(world.plan.seed * factor + mortal.number), world.metrics)


def attachdetach(world: Any, mortal: Mortal) -> Made:
    line = PlaneLine(world, mortal, FOLLOWED)
    options = AttachDetachOptions(
        workers=WORKERS, force_after_s=world.plan.force_after_s, disable_force_detach=not world.plan.forces
    )
    return AttachDetach(_runtime(world, line, mortal, 4000), options), line


def attacher(world: Any, mortal: Mortal) -> Made:
    line = PlaneLine(world, mortal, WATCHED)
    driver = InProcessDriver(PlaneEndpoint(world, mortal), clock=world.program_clock)
    return Attacher(_runtime(world, line, mortal, 1000), driver, info_of(world.plan), options_of(world.plan)), line


def health(world: Any, mortal: Mortal) -> Made:
    line = PlaneLine(world, mortal, ("pods", "nodes"))
    return NodeHealth(_runtime(world, line, mortal, 5000)), line


def provisioner(world: Any, mortal: Mortal) -> Made:
    return claims.provisioner(world.claims, mortal)


def binder(world: Any, mortal: Mortal) -> Made:
    """With the scheduler, where that places the pods."""
    placed = frozenset({binding.SCHEDULER}) if world.plan.placing.runs else frozenset[str]()
    return claims.binder(world.claims, mortal, claims.PARTS | placed)


def workloads(world: Any, mortal: Mortal) -> Made:
    line = PlaneLine(world, mortal, OWNED)
    return Workloads(_runtime(world, line, mortal, 6000)), line
