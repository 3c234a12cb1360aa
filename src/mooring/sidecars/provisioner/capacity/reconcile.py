"""Carries out decisions about capacity: one call to the driver, one request to the API server; and the objects as they
are written.

The driver's answer is decided on in the same turn, and the reason after it is the one to be shown: so there is no
`Deciding` here. Nor is there an `ObjectWriter`, which reads an object that may have moved: external-provisioner's
rights on these objects have no `get`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.meta import Kind, OwnerReference, key_of
from mooring.api.storage import CSI_STORAGE_CAPACITIES, CSIStorageCapacity
from mooring.control.decision import Decision
from mooring.control.result import Result, Retry
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.client.rate_limit import Throttle
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.sidecars.provisioner.capacity import decide as d
from mooring.sidecars.provisioner.capacity.decide import capacity_of, is_owned
from mooring.sidecars.provisioner.capacity.view import Capacity, Item, View
from mooring.sidecars.provisioner.environment import Environment

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGER_LABEL: Final = "csi.storage.k8s.io/managed-by"
MANAGER: Final = "external-provisioner"
_LABEL_LENGTH_MAX: Final = 63
_CUT_MARK: Final = "-53f40b57-"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


def manager_of(node_name: str) -> str:
    """The manager of the objects: the one instance for all nodes ("" for no node), or the one of a node.

    A text that is too long for a label's value is cut as external-provisioner does it, so that objects are found again
    after a swap.
    """
    if not node_name:
        return MANAGER
    whole = f"{MANAGER}-{node_name}"
    if len(whole) <= _LABEL_LENGTH_MAX:
        return whole
    left = _LABEL_LENGTH_MAX - len(_CUT_MARK) - len(node_name)
    if left > 0:
        return f"{MANAGER[:left]}{_CUT_MARK}{node_name}"
    return f"{MANAGER}-{_fnv1a(whole):x}"


def _fnv1a(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME % (1 << 32)
    return value


def new_object(
    kind: Kind[CSIStorageCapacity],
    namespace: str,
    item: Item,
    capacity: Capacity,
    driver_name: str,
    manager: str,
    owner: OwnerReference | None,
) -> dict[str, Any]:
    """An object with a generated name."""
    metadata: dict[str, Any] = {
        "generateName": "csisc-",
        "namespace": namespace,
        "labels": {DRIVER_LABEL: driver_name, MANAGER_LABEL: manager},
    }
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    topology = {"matchLabels": dict(item.segment)} if item.segment else {}
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return {**head, "storageClassName": item.class_name, "nodeTopology": topology, **_amounts(capacity)}


def changed_object(
    kind: Kind[CSIStorageCapacity], obj: CSIStorageCapacity, capacity: Capacity, owner: OwnerReference | None
) -> dict[str, Any]:
    """The whole object with these amounts, for a PUT, as in external-provisioner's audit trails.

    The struct holds every field of this kind, and of its metadata all that the server does not manage itself: nothing
    is lost. Differs from external-provisioner: other owners control it no longer once ours does, since the API server
    takes one controller only.
    """
    body: dict[str, Any] = msgspec.to_builtins(obj)
    body |= {"apiVersion": kind.api_version, "kind": kind.name}
    body.pop("maximumVolumeSize", None)
    if owner is not None and not is_owned(obj, owner):
        others = (
            msgspec.structs.replace(one, controller=None)
            for one in obj.metadata.owner_references or ()
            if one.uid != owner.uid
        )
        body["metadata"]["ownerReferences"] = msgspec.to_builtins([*others, owner])
    return {**body, **_amounts(capacity)}


def _amounts(capacity: Capacity) -> dict[str, str]:
    return {
        "capacity": capacity.capacity,
        **({} if capacity.maximum is None else {"maximumVolumeSize": capacity.maximum}),
    }


def of_version(version: str) -> Kind[CSIStorageCapacity]:
    kind = CSI_STORAGE_CAPACITIES
    return Kind(kind.group, version, kind.name, kind.plural, kind.namespaced, kind.struct)


# -- carrying out


class CapacityReconciler:
    """view: its `written` is filled here. throttle: the limit of requests about capacity. manager: of the objects, in
    their label.
    """

    def __init__(
        self,
        env: Environment,
        kind: Kind[CSIStorageCapacity],
        objects: Informer[CSIStorageCapacity],
        view: View,
        throttle: Throttle,
        manager: str,
    ) -> None:
        assert env.options.capacity is not None
        self._cluster, self._driver, self._timeout_s = env.runtime.cluster, env.driver, env.options.timeout_s
        self._kind, self._objects, self._view, self._written = kind, objects, view, view.written
        self._throttle, self._manager, self._namespace = throttle, manager, env.options.capacity.namespace

    async def reconcile(self, item: Item) -> Result:
        """Raises Retry."""
        try:
            decision = d.decide_item(self._view, item)
            answer = await self._perform(item, decision)
            if answer is not None:
                decision = d.decide_write(self._view, item, capacity_of(answer))
                await self._perform(item, decision)
        except (DriverError, ApiError) as error:
            raise Retry(f"could not publish capacity: {error}") from error
        if self._view.wanted(item) is None:
            self._written.pop(item, None)
        return Result(decision.because)

    async def _perform(self, item: Item, decision: Decision[d.Action]) -> csi.GetCapacityResponse | None:
        """Gives the driver's answer, None where it was not asked. Raises DriverError, ApiError."""
        for action in decision.actions:
            match action:
                case d.Ask(request):
                    return await self._driver.get_capacity(request, Call(self._timeout_s))
                case d.Remove(obj):
                    await self._throttle.wait()
                    await self._remove(obj)
                case d.Create(capacity):
                    await self._throttle.wait()
                    await self._create(item, capacity)
                case d.Update(obj, capacity):
                    await self._throttle.wait()
                    await self._update(item, obj, capacity)
        return None

    async def _remove(self, obj: CSIStorageCapacity) -> None:
        meta = obj.metadata
        try:
            await self._cluster.delete(self._kind, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):  # it is gone, and perhaps another one has its name
            return

    async def _create(self, item: Item, capacity: Capacity) -> None:
        """Noted before the request: the watch may show the object before the answer is here."""
        self._written[item] = capacity
        body = new_object(
            self._kind, self._namespace, item, capacity, self._view.driver_name, self._manager, self._view.owner
        )
        self._objects.wrote(await self._cluster.create(self._kind, body, self._namespace))

    async def _update(self, item: Item, obj: CSIStorageCapacity, capacity: Capacity) -> None:
        self._written[item] = capacity
        body = changed_object(self._kind, obj, capacity, self._view.owner)
        await self._objects.write(key_of(obj), self._cluster.replace(self._kind, body, obj.metadata.namespace))
