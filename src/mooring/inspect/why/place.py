"""The link of a pod's place: its node, or what keeps it from one. The scheduler's own check of its claims is asked.

Which nodes suit it, only a look at all nodes could say: that the scheduler writes down itself, in its condition or an
Event.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import msgspec

from mooring.api.binding import NO_PROVISIONER, SELECTED_NODE, claims_of, is_delayed
from mooring.api.classes import class_of
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Key, annotation, key_of
from mooring.api.migration import driver_and_handle
from mooring.api.pods import Pod
from mooring.api.storage import CSIStorageCapacity
from mooring.base.clock import seconds_of
from mooring.cluster.binder.available_volumes import AvailableVolumes
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBindings
from mooring.cluster.binder.scheduling.claims import PodClaims, check_claims
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_CLAIM, Volumes
from mooring.inspect.reading import AFFINITY
from mooring.inspect.scene import Scene, Shelf
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.diagnosis import Diagnosis, failed_link

STEP: Final = "place"


def scheduling_link(scene: Scene, pod: Pod) -> Link:
    """Where the pod is to run, or what the scheduler says."""
    since_s = seconds_of(pod.metadata.creation_timestamp)
    if pod.spec.node_name:
        return _pinned(scene, pod) or Link(STEP, State.DONE, f"on node {pod.spec.node_name}")
    gates = [one.name for one in pod.spec.scheduling_gates or ()]
    if gates:
        return Link(
            STEP,
            State.WAITING,
            f"its scheduling gates hold it: {', '.join(gates)}",
            Mover.USER,
            "whoever set the gates",
            since_s,
        )
    view = _view(scene)
    claims = check_claims(view, pod) if _sees_claims(scene, pod) else PodClaims()
    said = next(
        (one for one in pod.status.conditions or () if one.type == "PodScheduled" and one.status == "False"), None
    )
    message, told_s = (said.message, seconds_of(said.last_transition_time)) if said is not None else ("", 0.0)
    if claims.problem:
        return failed_link(STEP, _told(claims.problem, pod), claims.problem, told_s or since_s, message, _LOOKS_AGAIN)
    if claims.in_use:
        return _in_use(scene, pod, claims, told_s or since_s, message)
    if AFFINITY.search(message) and (link := _strange_key(scene, pod, told_s, message)):
        return link
    if _NO_VOLUME.search(message) and (link := _class_of_elsewhere(scene, pod, told_s, message)):
        return link
    if message and not _OF_CLAIMS.search(message):
        return failed_link(STEP, _told(message, pod), "", told_s, message, _LOOKS_AGAIN)
    return _waits(view, pod, claims, since_s, is_stale=bool(message) and _sees_claims(scene, pod), message=message)


def _pinned(scene: Scene, pod: Pod) -> Link | None:
    """The link of a pod that was put on its node without the scheduler, although that chooses where a claim that waits
    for its pod gets its volume.
    """
    for claim in filter(None, map(scene.claims.get, claims_of(pod))):
        storage_class = scene.classes.get(Key("", class_of(claim)))
        if not is_delayed(storage_class) or claim.spec.volume_name or annotation(claim, SELECTED_NODE):
            continue
        key, node = key_of(claim), pod.spec.node_name
        text = (
            f'it was put on node {node} by its nodeName, past the scheduler, and its claim "{key.name}" gets its '
            "volume where the scheduler puts a pod"
        )
        choose = Command(
            f"kubectl -n {key.namespace} annotate pvc {key.name} {SELECTED_NODE}={node}",
            "does the scheduler's part for this claim: the volume is made where this node reaches it",
            safe=False,
        )
        who = "the owner of the pod: a nodeSelector (kubernetes.io/hostname) in place of nodeName"
        since_s = seconds_of(pod.metadata.creation_timestamp)
        return Link(STEP, State.FAILED, text, Mover.USER, who, since_s, commands=(choose,))
    return None


def _strange_key(scene: Scene, pod: Pod, since_s: float, message: str) -> Link | None:
    """A volume that asks for a topology key which its driver reports on no node: no node will ever fit."""
    for claim in filter(None, map(scene.claims.get, claims_of(pod))):
        pv = scene.volumes.get(Key("", claim.spec.volume_name))
        driver = driver_and_handle(pv)[0] if pv is not None else ""
        entries = [one for node in scene.csi_nodes.values() for one in node.spec.drivers or () if one.name == driver]
        if pv is None or not entries:
            continue
        keys = {key for one in entries for key in one.topology_keys or ()}
        wanted = pv.spec.node_affinity.required if pv.spec.node_affinity is not None else None
        terms = [
            {one.key for one in term.match_expressions or ()} for term in (wanted and wanted.node_selector_terms) or ()
        ]
        strange = sorted({key for term in terms for key in term - keys if "kubernetes.io/" not in key})
        if not strange or not all(term & {*strange} for term in terms):
            continue
        has = f"the keys {', '.join(sorted(keys))}" if keys else "no key"
        text = f"its volume asks for the topology key {strange[0]}, and the driver's nodes report {has}"
        who = f"the driver {driver}: CreateVolume and NodeGetInfo must use the same keys"
        volume = Command(f"kubectl describe pv {pv.metadata.name}", "reads only: where the volume is (Node Affinity)")
        return Link(STEP, State.FAILED, text, Mover.DRIVER, who, since_s, message, commands=(volume, _KEYS))
    return None


def _class_of_elsewhere(scene: Scene, pod: Pod, since_s: float, message: str) -> Link | None:
    """A class that makes volumes, but not where a node could take the pod. Who says so is the scheduler."""
    for claim in filter(None, map(scene.claims.get, claims_of(pod))):
        storage_class = scene.classes.get(Key("", class_of(claim)))
        terms = storage_class.allowed_topologies if storage_class is not None and not claim.spec.volume_name else None
        wanted = [one for term in terms or () for one in term.match_label_expressions or ()]
        if storage_class is None or storage_class.provisioner == NO_PROVISIONER or not wanted:
            continue
        name, places = (
            storage_class.metadata.name,
            "; ".join(f"{one.key} is {' or '.join(one.values or ())}" for one in wanted),
        )
        text = (
            f'its StorageClass "{name}" allows volumes only where {places}, and no node that could take the pod is '
            "there"
        )
        keys = ",".join(dict.fromkeys(one.key for one in wanted))
        look = Command(f"kubectl get nodes -L {keys}", "reads only: where the nodes are, by the keys of the class")
        show = Command(
            f"kubectl get storageclass {name} -o yaml",
            "reads only: allowedTopologies; what is wrong there takes another class",
        )
        who = "whoever keeps the class, or owns the nodes"
        return Link(
            STEP, State.FAILED, text, Mover.OPERATOR, who, since_s, message, retry=_LOOKS_AGAIN, commands=(look, show)
        )
    return None


def _sees_claims(scene: Scene, pod: Pod) -> bool:
    return not any(scene.is_hidden(PERSISTENT_VOLUME_CLAIMS, key) for key in claims_of(pod))


def _view(scene: Scene) -> View:
    """The scheduler's view, without its plans."""
    capacities: Shelf[CSIStorageCapacity] = Shelf()
    volumes = Volumes(scene.volumes, AvailableVolumes())
    seen = (scene.nodes, scene.csi_nodes, scene.drivers, capacities, scene.attachments)
    return View(scene.claims, volumes, scene.classes, scene.pods, *seen, AssumedBindings())


def _waits(view: View, pod: Pod, claims: PodClaims, since_s: float, *, is_stale: bool, message: str) -> Link:
    """Nothing is known to be wrong: the scheduler is at work, or is to look."""
    chosen = {node: None for one in claims.delayed if (node := view.selected_node(one))}
    if chosen:
        waits = why.WaitsForVolumes(next(iter(chosen)), tuple(str(key_of(one)) for one in claims.delayed))
        return Link(STEP, State.WAITING, str(waits), Mover.CLUSTER, "whoever the claims wait for", since_s)
    name = pod.spec.scheduler_name or "default-scheduler"
    scheduler = f'the scheduler "{name}"'
    if message and not is_stale:
        return failed_link(STEP, _told(message, pod), "", since_s, message, _LOOKS_AGAIN)
    alive = (
        "kubectl -n kube-system get lease kube-scheduler"
        if name == "default-scheduler"
        else f"kubectl get pods,leases -A | grep {name}"
    )
    look = Command(alive, "reads only: whether the scheduler is there and alive")
    text = (
        f"its claims are ready by now, and {scheduler} has not looked again"
        if message
        else f"{scheduler} has not looked at it yet"
    )
    return Link(STEP, State.WAITING, text, Mover.CLUSTER, scheduler, since_s, message, commands=(look,))


def _in_use(scene: Scene, pod: Pod, claims: PodClaims, since_s: float, message: str) -> Link:
    claim, namespace = claims.in_use[0], pod.metadata.namespace
    user = next(
        one.metadata.name
        for one in scene.pods.by(BY_CLAIM, str(claim))
        if one.spec.node_name and key_of(one) != key_of(pod)
    )
    text = f'its claim "{claim.name}" is for one pod alone (ReadWriteOncePod), and the pod "{user}" uses it'
    end = Command(
        f"kubectl -n {namespace} delete pod {user}", "ends that pod; whatever made it may make it anew", safe=False
    )
    who = f'the owner of the pod "{namespace}/{user}"'
    return Link(STEP, State.FAILED, text, Mover.USER, who, since_s, message, retry=_LOOKS_AGAIN, commands=(end,))


def _told(text: str, pod: Pod) -> Diagnosis:
    """The reason that keeps the most nodes from the pod, with the other ones behind it."""
    fit = _NODES_FIT.search(text)
    counts: Counter[int] = Counter()
    for one in _REASON.finditer(fit["reasons"]) if fit is not None else ():
        counts[_rank(one["reason"])] += int(one["count"])
    if fit is None or not counts:
        return _diagnosis(_rank(text), pod)
    first, *others = sorted(counts, key=lambda rank: (-counts[rank], rank))
    told = _diagnosis(first, pod)
    if not others:
        return told
    behind = "; ".join(f"{_diagnosis(rank, pod).cause} ({counts[rank]})" for rank in others)
    cause = f"{told.cause} ({counts[first]} of {fit['all']} nodes); besides: {behind}"
    return msgspec.structs.replace(told, cause=cause)


def _rank(text: str) -> int:
    """The place in PLACES of what a text says; behind all of them for what nobody here knows."""
    return next((rank for rank, (pattern, _) in enumerate(PLACES) if pattern.search(text)), len(PLACES))


def _diagnosis(rank: int, pod: Pod) -> Diagnosis:
    if rank < len(PLACES):
        return PLACES[rank][1]
    describe = Command(
        f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}", "reads only: what it asks of a node"
    )
    return Diagnosis(
        Mover.OPERATOR, "whoever owns the nodes or the pod's demands", "no node takes it", commands=(describe,)
    )


_NODES_FIT: Final = re.compile(r"^\d+/(?P<all>\d+) nodes are available: (?P<reasons>.+?)\.(?: |$)")
_REASON: Final = re.compile(r"(?P<count>\d+) (?P<reason>.+?)(?=, \d+ |$)")
"""Each reason with the number of nodes that it holds for; a node may have several."""
_LOOKS_AGAIN: Final = "the scheduler looks again when something changes"
_OF_CLAIMS: Final = re.compile(
    'unbound immediate|persistentvolumeclaim "|in-use by another pod|was not created for pod'
)
"""What the check of the claims says: known from the claims themselves as they are now."""

_NO_VOLUME: Final = re.compile("find available persistent volumes to bind")
_VOLUMES: Final = Command("kubectl get pv -o wide", "reads only: the volumes; kubectl describe pv says where each is")
_NODES: Final = Command("kubectl get nodes --show-labels", "reads only: which nodes are ready, and where they are")
_KEYS: Final = Command(
    "kubectl get csinodes -o "
    "custom-columns=NAME:.metadata.name,DRIVERS:.spec.drivers[*].name,KEYS:.spec.drivers[*].topologyKeys",
    "reads only: the topology keys that each driver has reported",
)
_LIMITS: Final = Command(
    "kubectl get csinodes -o yaml", "reads only: how many volumes of each driver a node takes (allocatable.count)"
)
_CAPACITY: Final = Command(
    "kubectl get csistoragecapacities -A", "reads only: how much room the driver has reported, by place"
)
_CLAIMS: Final = Command("kubectl get pvc -A", "reads only: the claims, with their volumes")
_ROOM: Final = Command("kubectl describe nodes", "reads only: what each node has, and how much of it is asked for")
_PODS: Final = Command("kubectl get pods -A -o wide", "reads only: which pods are on which node")
_TAINTS: Final = Command(
    "kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key",
    "reads only: what keeps pods off each node",
)


def _operator(pattern: str, who: str, cause: str, *commands: Command) -> tuple[re.Pattern[str], Diagnosis]:
    return re.compile(pattern), Diagnosis(Mover.OPERATOR, who, cause, commands=commands)


def _room(pattern: str, lacking: str) -> tuple[re.Pattern[str], Diagnosis]:
    return _operator(pattern, "whoever can add nodes, or the owner of the pod's requests", f"no node {lacking}", _ROOM)


def _user(pattern: str, who: str, cause: str, *commands: Command) -> tuple[re.Pattern[str], Diagnosis]:
    return re.compile(pattern), Diagnosis(Mover.USER, who, cause, commands=commands)


def _cluster(pattern: str, who: str, cause: str) -> tuple[re.Pattern[str], Diagnosis]:
    return re.compile(pattern), Diagnosis(Mover.CLUSTER, who, cause)


PLACES: Final = (
    _cluster(
        "unbound immediate PersistentVolumeClaims",
        "whoever the claims wait for",
        "it is placed once its claims are bound",
    ),
    _cluster(
        "waiting for ephemeral volume controller",
        "the controller of ephemeral volumes",
        "it is placed once its own claim has been made",
    ),
    _user(r'persistentvolumeclaim "[^"]+" not found', "the owner of the pod", "a claim that it names does not exist"),
    _user(
        r'persistentvolumeclaim "[^"]+" is being deleted',
        "the owner of the claim",
        "a claim that it names is being deleted",
        _CLAIMS,
    ),
    _user(
        "was not created for pod",
        "the owner of the claim",
        "a claim that somebody else made has the name of the claim that the pod brings with it",
        _CLAIMS,
    ),
    _operator(
        "bound to non-existent p",
        "whoever can bring the volume back",
        "the PersistentVolume of its claim does not exist",
        _CLAIMS,
    ),
    _operator(
        AFFINITY.pattern,
        "whoever owns the nodes of the volume's zone",
        "its volume is in another place than the nodes that could take it",
        _NODES,
        _VOLUMES,
    ),
    _operator(
        "exceed max volume count",
        "whoever can add nodes, or move pods away",
        "the nodes have as many volumes as their drivers allow",
        _LIMITS,
    ),
    _operator(
        "did not have enough free storage",
        "whoever owns the storage",
        "the storage that the nodes can reach has no room left",
        _CAPACITY,
    ),
    _operator(
        _NO_VOLUME.pattern,
        "whoever makes PersistentVolumes",
        "no free volume fits its claims, and their class makes none",
        _VOLUMES,
    ),
    _user("ReadWriteOncePod", "the owner of the other pod", "another pod uses a claim that is for one pod alone"),
    _user(
        "had no available disk",
        "the owner of the other pod",
        "another pod on the node uses the same disk, which only one may write",
    ),
    _cluster(
        r"^running (Pre)?Bind plugin",
        "the scheduler",
        "a node was chosen, and the pod or its volumes could not be bound to it",
    ),
    _room("Insufficient cpu", "has enough processors free"),
    _room("Insufficient memory", "has enough memory free"),
    _room("Insufficient ephemeral-storage", "has enough of its own disk free"),
    _room("Insufficient ", "has enough free of a resource that it asks for"),
    _room("Too many pods", "takes one more pod"),
    _user(
        "didn't have free ports",
        "the owner of the pod, or of the pods with that port",
        "no node has its host port free",
        _PODS,
    ),
    _user(
        "pod affinity rules|anti-affinity rules|topology spread constraints",
        "the owner of the pod",
        "no node fits what it asks about other pods (affinity, anti-affinity or spread)",
        _PODS,
    ),
    _operator(
        r"untolerated taint",
        "whoever owns the nodes, or the pod's tolerations",
        "the nodes have taints that it does not tolerate",
        _TAINTS,
    ),
    _operator("were unschedulable", "whoever cordoned the nodes", "the nodes are cordoned", _NODES),
    _operator("were not ready", "whoever runs the nodes", "the nodes are not ready", _NODES),
    _operator(
        "didn't match Pod's node affinity/selector",
        "whoever owns the pod's demands, or the nodes",
        "no node has the labels that it asks for",
        _NODES,
    ),
    _operator("no nodes available", "whoever runs the cluster", "there is no node", _NODES),
)
"""What kube-scheduler writes, and mooring binder, by pattern; what is about volumes first. A test of the house asks for
each text of the binder.
"""
