"""What must be true of the nodes' agents in a plane at rest, beside what is asked of every node: reports, drivers,
mounts and disks.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import CSI_NODES
from mooring.api.volume_names import unique_name
from tests.sim.checkers import Complaint
from tests.sim.node.checkers import left_on
from tests.sim.node.laws import node_in_use
from tests.sim.plan import DRIVER
from tests.sim.plane.agent import AgentSide


def complaints(side: AgentSide) -> Iterator[Complaint]:
    """What is wrong with agents whose pods should all run."""
    wanted = side.laws_of_plane.wanted()
    for name, node in side.nodes.items():
        if node.alive:
            yield from _registration(side, name)
            reported = node_in_use(side.truth, name)
            right = {unique_name(DRIVER, handle) for handle, at in wanted if at == name}
            if reported != right:
                yield "I9", f"{name} reports {sorted(reported)} in use, pods want {sorted(right)}"
            yield from _pods(side, name)


def leftovers(side: AgentSide) -> Iterator[Complaint]:
    """What is left where no pod is: on the disk of a machine that is off records may stay, until it returns."""
    for node in side.nodes.values():
        yield from (one for one in left_on(node.machine) if node.alive or one[0] != "folder-left")


def fingerprint(side: AgentSide) -> tuple[object, ...]:
    """Changes with every call for a volume."""
    return tuple(sorted(side.laws.counts.items()))


def _registration(side: AgentSide, name: str) -> Iterator[Complaint]:
    found = side.truth.get(CSI_NODES, name)
    if found is None or DRIVER not in {driver.name for driver in found.spec.drivers or ()}:
        yield "driver-missing", f"the driver runs on {name}, its CSINode does not name it"
    elif DRIVER not in side.nodes[name].machine.told:
        yield "driver-missing", f"the driver runs on {name}, its plugin was not told that it is registered"


def _pods(side: AgentSide, name: str) -> Iterator[Complaint]:
    for pod in side.laws_of_plane.pods.values():
        if (
            pod["spec"].get("nodeName") == name
            and pod["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ):
            for what in side.laws.missing(pod):
                yield "running-without", f"pod {pod['metadata']['name']} is said to run, and {what}"
