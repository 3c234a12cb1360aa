"""What must be true of a world of nodes at rest: of one whose pods run, and of one whose pods are all gone."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import CSI_NODES
from mooring.api.volume_names import unique_name
from tests.sim.checkers import Complaint
from tests.sim.node.controller import AttachDetach
from tests.sim.node.laws import node_in_use
from tests.sim.node.machine import Machine
from tests.sim.node.pod_words import is_alive
from tests.sim.node.world import NodeWorld


def complaints(world: NodeWorld, controller: AttachDetach) -> list[Complaint]:
    """Everything wrong with a world that should be well."""
    return [*_pods(world), *_drivers(world), *_reports(world, controller)]


def leftovers(world: NodeWorld, controller: AttachDetach) -> list[Complaint]:
    """Everything left in a world whose pods are all deleted."""
    found = [*complaints(world, controller), *(("attachment-left", what) for what in controller.left())]
    for machine in world.backend.machines.values():
        found += left_on(machine)
    return found


def fingerprint(world: NodeWorld) -> tuple[object, ...]:
    """Changes with every write, and with every call for a volume."""
    return world.store.version, tuple(sorted(world.laws.counts.items()))


def _pods(world: NodeWorld) -> Iterator[Complaint]:
    for pod in world.laws.pods.values():
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if not is_alive(pod):
            if "deletionTimestamp" in pod["metadata"]:
                yield "pod-left", f"pod {name} was deleted and is still there"
        elif name.startswith("lost"):
            pass  # one of its claims is nowhere
        elif phase != "Running":
            yield "pod-stuck", f"pod {name} is {phase}"
        else:
            for what in world.laws.missing(pod):
                yield "running-without", f"pod {name} is said to run, and {what}"
            for what in world.laws.groups.missing(world.backend.machines[pod["spec"]["nodeName"]], pod):
                yield "group-left-out", f"pod {name} is said to run, and {what}"


def _drivers(world: NodeWorld) -> Iterator[Complaint]:
    for node in world.plan.nodes:
        found = world.truth.get(CSI_NODES, node)
        names = {driver.name for driver in found.spec.drivers or ()} if found is not None else set()
        for driver in world.plan.drivers:
            if driver.name not in names:
                yield "driver-missing", f"{driver.name} runs on {node}, its CSINode does not name it"
            elif driver.name not in world.backend.machines[node].told:
                yield "driver-missing", f"{driver.name} runs on {node}, its plugin was not told that it is registered"


def _reports(world: NodeWorld, controller: AttachDetach) -> Iterator[Complaint]:
    """What pods want on a node is reported in use there, and nothing else."""
    volumes = {volume.name: volume for volume in world.plan.volumes}
    for node in world.plan.nodes:
        wanted = {
            unique_name(volumes[name].driver, volumes[name].handle) for name, at in controller.wanted() if at == node
        }
        reported = node_in_use(world.truth, node)
        if missing := sorted(wanted - reported):
            yield "not-in-use", f"{node} does not report {missing}"
        if left := sorted(reported - wanted):
            yield "in-use-left", f"{node} reports {left}"


def left_on(machine: Machine) -> Iterator[Complaint]:
    yield from (("mount-left", f"{machine.short(point)} on {machine.name}") for point in machine.mounts)
    yield from (("staged-left", f"{handle} on {machine.name}") for handle in machine.staged)
    yield from (("published-left", f"{machine.short(path)} on {machine.name}") for path in machine.published)
    yield from (("loop-left", f"{machine.short(path)} on {machine.name}") for path in machine.loops)
    if machine.hung_count:
        yield "still-working", f"{machine.hung_count} works on the disk of {machine.name} hang"
    yield from (("folder-left", f"{path} on {machine.name}") for path in machine.files())
