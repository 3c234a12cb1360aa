"""Capacity: a class, a node, a CSIStorageCapacity that is there already, and a claim or a volume that changes how much
room there is.

The publisher polls once in many years: so what a change does not make right is seen at rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api import binding as names
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.quantity import parse_quantity
from mooring.api.storage import CSI_STORAGE_CAPACITIES
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.capacity.reconcile import DRIVER_LABEL, MANAGER, MANAGER_LABEL
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.options import CapacityOptions, ProvisionerOptions
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    DRIVER,
    NS,
    WFFC,
    Json,
    a_capacity,
    a_claim,
    a_class,
    a_csi_node,
    a_pod,
    a_ready_node,
    a_volume,
)
from tests.support.scripted_driver import RPC, ScriptedDriver, Wait
from tests.support.volume_driver import CREATE, DELETE, GiB, VolumeDriver

OTHER: Final = "other.csi.test"
ROOM: Final = 100 * GiB
POD: Final = "provisioner-0"
_NEVER_S: Final = 1e9
_CALL_S: Final = 5.0
_ZONE: Final = {"zone": "a"}
_OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": f"uid-{POD}", "controller": True}
_OURS: Final = {
    "labels": {DRIVER_LABEL: DRIVER, MANAGER_LABEL: MANAGER},
    "ownerReferences": [_OWNER],
    "nodeTopology": {"matchLabels": _ZONE},
}
_CLASS: Final[dict[str, Json | None]] = {
    "late": {"volumeBindingMode": WFFC},
    "immediate": {"volumeBindingMode": "Immediate"},
    "absent": None,
    "other": {"volumeBindingMode": WFFC, "provisioner": OTHER},
}
_NODE: Final = ("there", "absent", "without-label", "without-driver")
_OBJECT: Final[dict[str, Json | None]] = {
    "none": None,
    "right": _OURS,
    "stale": {**_OURS, "capacity": "7Gi"},
    "with-maximum": {**_OURS, "maximumVolumeSize": "1Gi"},
    "unowned": {**_OURS, "ownerReferences": None},
    "of-a-former-pod": {**_OURS, "ownerReferences": [{**_OWNER, "uid": "uid-former"}]},
    "of-a-place-that-is-gone": {**_OURS, "nodeTopology": {"matchLabels": {"zone": "gone"}}},
    "of-a-class-that-is-gone": {**_OURS, "sc": "gone"},
    "of-no-node": {**_OURS, "nodeTopology": None},
    "of-all-nodes": {**_OURS, "nodeTopology": {}},
    "of-chosen-nodes": {**_OURS, "nodeTopology": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
    "of-another-driver": {**_OURS, "labels": {DRIVER_LABEL: OTHER, MANAGER_LABEL: MANAGER}},
    "of-another-manager": {**_OURS, "labels": {DRIVER_LABEL: DRIVER, MANAGER_LABEL: "somebody"}},
}
_SECOND: Final = ("none", "same", "same-stale")
_CHANGE: Final = ("none", "claim", "volume-goes")
_ASKED: Final = {names.PROVISIONER: DRIVER, names.PROVISIONER_BETA: DRIVER}


class CapacityRoom:
    """change: a claim whose volume is made, or a volume that is deleted, in the place of the node."""

    name = "capacity"
    rounds = ()
    space = Space(
        Axis("class", tuple(_CLASS)),
        Axis("node", _NODE),
        Axis("object", tuple(_OBJECT)),
        Axis("second", _SECOND),
        Axis("change", _CHANGE),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [a_pod(POD, node="n-other", phase="Running", uid=f"uid-{POD}")]
        if (fields := _CLASS[state["class"]]) is not None:
            made.append(a_class("sc", **fields))
        if state["node"] != "absent":
            labels = {} if state["node"] == "without-label" else _ZONE
            ids = {OTHER if state["node"] == "without-driver" else DRIVER: "id1"}
            made += [a_ready_node("n1", **labels), a_csi_node("n1", ids, keys=("zone",))]
        if (fields := _OBJECT[state["object"]]) is not None:
            made.append(a_capacity("first", **fields))
        if state["second"] != "none":
            made.append(
                a_capacity("second", **{**_OURS, **({"capacity": "8Gi"} if state["second"] == "same-stale" else {})})
            )
        if state["change"] == "claim":
            noted = {**_ASKED, names.SELECTED_NODE: "n1"}
            made.append(a_claim("claim", uid="uid-claim", annotations=noted, finalizers=[names.PVC_PROTECTION]))
        if state["change"] == "volume-goes":
            made.append(_released())
        return made

    def driver(self, state: State) -> ScriptedDriver:
        driver = VolumeDriver(controller=(RPC.GET_CAPACITY,), topology=_ZONE)
        driver.capacity_bytes = lambda request: _room(driver, request)
        for call in (CREATE, DELETE):
            driver.always(call, Wait(_CALL_S))  # so that the room was asked for before
        if state["change"] == "volume-goes":
            driver.volumes["vol-pv"] = GiB
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        driver = world.driver
        info = DriverInfo(DRIVER, "1", frozenset(driver.plugin), frozenset(), frozenset(driver.controller))
        port = InProcessDriver(driver, clock=world.clock)
        published = CapacityOptions(namespace=NS, pod_name=POD, poll_interval_s=_NEVER_S, owner_level=0)
        given = ProvisionerOptions(worker_threads=1, capacity=published)
        return [Provisioner(world.runtime, port, info, given, world.recorder(DRIVER)).run()]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        driver = world.driver
        assert isinstance(driver, VolumeDriver)
        objects = world.all(CSI_STORAGE_CAPACITIES)
        wanted = Counter({("sc", "a"): 1} if state["class"] == "late" and state["node"] == "there" else {})
        ours = [one for one in objects if one["metadata"].get("labels") == _OURS["labels"]]
        found = Counter((one["storageClassName"], _place(one)) for one in ours)
        if found != wanted:
            yield "published", f"there is {dict(found)}, and should be {dict(wanted)}"
        free = ROOM - sum(driver.volumes.values())
        for one in ours:
            if parse_quantity(one["capacity"]).value != free or "maximumVolumeSize" in one:
                yield "stale-capacity", f"{one['metadata']['name']} says {one['capacity']}, the driver has {free} bytes"
            if [owner["uid"] for owner in one["metadata"].get("ownerReferences") or () if owner.get("controller")] != [
                _OWNER["uid"]
            ]:
                yield "unowned", f"{one['metadata']['name']} is of {one['metadata'].get('ownerReferences')}"
        if state["object"].startswith("of-another") and world.find(CSI_STORAGE_CAPACITIES, "first") is None:
            yield "foreign-deleted", "an object that another one publishes is gone"
        if state["change"] == "volume-goes" and world.all(PERSISTENT_VOLUMES):
            yield "volume-left", "a released volume is still there"


def _room(driver: VolumeDriver, request: csi.GetCapacityRequest) -> int:
    """What is asked of any other place has none."""
    return ROOM - sum(driver.volumes.values()) if dict(request.accessible_topology.segments) == _ZONE else 0


def _place(capacity: Json) -> str:
    topology = capacity.get("nodeTopology")
    labels = (topology or {}).get("matchLabels") or {}
    return (
        str(labels.get("zone", topology))
        if len(labels) < 2 and not (topology or {}).get("matchExpressions")
        else str(topology)
    )


def _released() -> Json:
    """To be deleted, in the place of the node."""
    affinity = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    }
    ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NS, "name": "claim", "uid": "uid-former"}
    ours = {"annotations": {names.PROVISIONED_BY: DRIVER}, "policy": "Delete", "phase": "Released", "claimRef": ref}
    finalizers = [names.PV_PROTECTION, "external-provisioner.volume.kubernetes.io/finalizer"]
    return a_volume("pv", handle="vol-pv", finalizers=finalizers[1:], nodeAffinity=affinity, **ours)
