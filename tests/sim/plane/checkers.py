"""What must be true of a plane at rest (I7 to I9): of one whose pods run, and of one whose pods are all gone."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import is_deleting
from mooring.api.volume_names import attachment_name, unique_name
from tests.sim.checkers import Complaint
from tests.sim.plan import DRIVER, FINALIZER
from tests.sim.plane import agent_checkers, workload_checkers
from tests.sim.plane.hands import Hands
from tests.sim.plane.placing import is_waiting
from tests.sim.plane.stands import is_active, is_alive, node_of
from tests.sim.plane.world import PlaneWorld
from tests.sim.provisioning import checkers as claim_checkers


def complaints(world: PlaneWorld, hands: Hands) -> list[Complaint]:
    """Everything wrong with a world that should be well."""
    found = [*_pods(world, hands), *_attachments(world), *_reports(world, hands), *_storage(world)]
    if world.agents is not None:
        found += agent_checkers.complaints(world.agents)
    found += workload_checkers.complaints(world) if world.plan.workloads.runs else ()
    return [*found, *(_claims(world) if world.plan.provisions else ())]


def leftovers(world: PlaneWorld, hands: Hands) -> list[Complaint]:
    """Everything left in a world whose pods are all deleted."""
    pods = [
        ("pod-left", f"pod {pod['metadata']['name']} was deleted and is still there")
        for pod in world.laws.pods.values()
    ]
    volumes = [
        ("leaked", f"{handle} is still in the driver")
        for handle in world.backend.volumes
        if not _is_anybodys(world, handle)
    ]
    nodes = agent_checkers.leftovers(world.agents) if world.agents is not None else ()
    return [*pods, *volumes, *nodes, *complaints(world, hands)]


def _is_anybodys(world: PlaneWorld, handle: str) -> bool:
    """True for a volume that a hand has taken from its claim: it waits for a claim that may have it."""
    volumes = [pv for pv in world.truth.all(PERSISTENT_VOLUMES) if pv.spec.csi and pv.spec.csi.volume_handle == handle]
    refs = [pv.spec.claim_ref for pv in volumes if not is_deleting(pv)]
    return world.plan.provisions and world.claims.laws.damaged_ever and any(ref is None or not ref.uid for ref in refs)


def fingerprint(world: PlaneWorld) -> tuple[object, ...]:
    """Changes with every write of a program, and with every call."""
    of_agents = agent_checkers.fingerprint(world.agents) if world.agents is not None else ()
    return world.laws.counts["writes"], world.laws.counts["calls"], *of_agents


def _claims(world: PlaneWorld) -> Iterator[Complaint]:
    """Of those that wait for their first pod nothing is asked."""
    for invariant, text in claim_checkers.complaints(world.claims):  # type: ignore[arg-type]
        if invariant != "claim-pending" or not is_waiting(world.plan, world.laws, text.partition(" ")[0]):
            yield invariant, text


def _pods(world: PlaneWorld, hands: Hands) -> Iterator[Complaint]:
    """I7: who can run does."""
    for pod in world.laws.pods.values():
        name, node = pod["metadata"]["name"], node_of(pod)
        if not node:
            if is_alive(pod):
                yield "I7", f"pod {name} has no node"
        elif not hands.is_on_living(pod):
            if is_active(pod):
                yield "pod-left", f"pod {name} is still on {node}, which is dead"
        elif not is_alive(pod):
            if "deletionTimestamp" in pod["metadata"]:
                yield "pod-left", f"pod {name} was deleted and is still there"
        elif pod["status"]["phase"] != "Running":
            yield "I7", f"pod {name} on {node} is {pod['status']['phase']}"
        else:
            for volume in pod["spec"]["volumes"]:
                handle = world.laws.handle_of(
                    (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
                )
                if pod["metadata"]["uid"] not in hands.kubelets[node].mounted.get(handle, ()):
                    yield "I7", f"pod {name} runs on {node} without {handle}"


def _attachments(world: PlaneWorld) -> Iterator[Complaint]:
    """I8: what nobody wants is gone. And what is wanted is attached.

    One that was made when its PersistentVolume named another volume stays while a pod needs this one there: a detach
    would take it away.
    """
    wanted = {attachment_name(DRIVER, *pair): pair for pair in world.laws.wanted()}
    for name in sorted(world.laws.attachments.keys() - wanted.keys()):
        found = world.laws.attachments[name]
        if (world.laws.handle_of_volume(found.volume), found.node) not in wanted.values():
            yield "I8", f"{found} is not wanted and still there"
    for name, pair in sorted(wanted.items()):
        found = world.laws.attachments.get(name)
        if found is None or not found.attached or found.deleting:
            yield "I7", f"{pair} is wanted, its attachment is {found}"


def _reports(world: PlaneWorld, hands: Hands) -> Iterator[Complaint]:
    """I5 and I9: each Node lists what is attached to it, and nothing else."""
    attached = {(one.node, name) for name, one in world.laws.attachments.items() if one.attached}
    wanted = {
        (node, unique_name(DRIVER, handle)): (node, attachment_name(DRIVER, handle, node))
        for handle, node in world.laws.wanted()
    }
    for node, kubelet in hands.kubelets.items():
        found = world.truth.get(NODES, node)
        listed = (
            {one.name for one in found.status.volumes_attached or () if one.name.startswith("kubernetes.io/csi/")}
            if found
            else set()
        )
        for unique in sorted(listed):
            if wanted.get((node, unique)) not in attached:
                yield "I9", f"{node} lists {unique}, which is not attached"
        for (other, unique), key in wanted.items():
            if other == node and found is not None and kubelet.alive and key in attached and unique not in listed:
                yield "I7", f"{node} does not list {unique}, which is attached"


def _storage(world: PlaneWorld) -> Iterator[Complaint]:
    """I9: nothing is leaked, in the driver or as a finalizer."""
    wanted, used = set(world.laws.wanted()), {one.volume for one in world.laws.attachments.values()}
    for handle, nodes in sorted(world.backend.published.items()):
        for node in sorted(nodes):
            if (handle, node) not in wanted:
                yield "I9", f"{handle} is published at {node}, nobody wants it there"
    for handle, node in sorted(wanted):
        if node not in world.backend.published[handle] and (handle, node) not in world.laws.untrue:
            yield "I7", f"{handle} is wanted on {node}, and published on {sorted(world.backend.published[handle])}"
    for name, pv in world.laws.volumes.items():
        finalizers = pv["metadata"].get("finalizers") or ()
        if "deletionTimestamp" in pv["metadata"] and name not in used and FINALIZER in finalizers:
            yield "I9", f"{name} was deleted and is still there, held by {finalizers}"
    for handle, operation in world.backend.locks.items():
        yield "still-working", f"{operation} is at work for {handle}"
