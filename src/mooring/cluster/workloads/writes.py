"""The requests that workloads make: one each. Own writes enter the caches at once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.core import ObjectReference
from mooring.api.meta import Key, Kind, Object, finalizers_of, is_deleting, key_of
from mooring.api.pods import PODS, Pod
from mooring.cluster.workloads.ownership import Claimed, reference, with_owner, without_owner
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.control.events import EventRecorder
from mooring.control.result import Retry, Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError, Conflict, Invalid, NotFound
from mooring.kube.patch import merge_diff, merge_patch, remove_finalizer

T = TypeVar("T", bound=Object)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Writes:
    """Of one controller. kind, objects: what it looks after."""

    def __init__(self, runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder, kind: Kind[Any], objects: Informer[Any]) -> None:
        self.cluster, self.caches = runtime.cluster, caches
        self._recorder, self._kind, self._objects = recorder, kind, objects

    def tell(self, obj: Object, reason: str, message: str, level: str = NORMAL) -> None:
        """An Event about an object of the kind."""
        meta = obj.metadata
        ref = ObjectReference(self._kind.api_version, self._kind.name, meta.namespace, meta.name, meta.uid, meta.resource_version)
        self._recorder.event(ref, level, reason, message)

    # -- pods

    async def create_pod(self, owner: Object, body: Mapping[str, Any]) -> Pod:
        """Raises Retry after an Event when it is refused."""
        try:
            made = await self.cluster.create(PODS, body, owner.metadata.namespace)
        except ApiError as error:
            raise Retry(f"can't create a pod: {error}") from error
        self.caches.pods.wrote(made)
        return made

    async def delete_pod(self, pod: Pod) -> None:
        """Counts as going from now on. Raises Stale where it could not be deleted now, or another pod has its name; ApiError."""
        meta = pod.metadata
        self.caches.going.add(meta.uid)
        try:
            await self.cluster.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:  # it is gone; the watch says so
            pass
        except ApiError as error:
            self.caches.going.discard(meta.uid)
            if isinstance(error, Conflict):
                await self._look_again(PODS, self.caches.pods, key_of(pod))
                raise Stale(f"pod {key_of(pod)} is not deleted: {error}") from error
            raise

    # -- any object

    async def own(self, kind: Kind[T], informer: Informer[T], owner: Object, claimed: Claimed[T], finalizer: str = "") -> None:
        """Adopts and releases. finalizer: that adopted objects get. Raises Stale when an object changes meanwhile."""
        if claimed.adopt:
            await self._check_alive(owner)
        for obj in claimed.adopt:
            metadata: dict[str, Any] = {"ownerReferences": with_owner(obj, reference(self._kind, owner))}
            if finalizer and finalizer not in finalizers_of(obj):
                metadata["finalizers"] = [*finalizers_of(obj), finalizer]
            await self.amend(kind, informer, obj, {"metadata": metadata})
        for obj in claimed.release:
            await self.amend(kind, informer, obj, {"metadata": {"ownerReferences": without_owner(obj, owner.metadata.uid)}})

    async def _check_alive(self, owner: Object) -> None:
        """Raises Stale where the owner is gone, or going, and the cache does not know: it may just have let go its objects, as orphans."""
        key = key_of(owner)
        try:
            fresh = await self._objects.write(key, self.cluster.get(self._kind, key.name, key.namespace))
        except NotFound as error:
            raise Stale(f"{self._kind.name} {key} is gone") from error
        if fresh.metadata.uid != owner.metadata.uid or is_deleting(fresh):
            raise Stale(f"{self._kind.name} {key} is going")

    async def take_finalizer(self, pod: Pod, finalizer: str) -> None:
        """Nothing where the pod has none. Raises Stale where it has changed or gone, and ApiError."""
        meta = pod.metadata
        if finalizer not in finalizers_of(pod):
            return
        key = key_of(pod)
        try:
            await self.caches.pods.write(key, self.cluster.patch(PODS, meta.name, remove_finalizer(pod, finalizer), meta.namespace))
        except (Invalid, NotFound) as error:
            await self._look_again(PODS, self.caches.pods, key)
            raise Stale(f"pod {key} has changed or gone meanwhile") from error

    async def amend(self, kind: Kind[T], informer: Informer[T], obj: T, change: Mapping[str, Any], *, subresource: str = "") -> None:
        """A merge patch of this version of the object. Raises Stale."""
        meta, key = obj.metadata, key_of(obj)
        body = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": meta.resource_version}}
        patch = self.cluster.patch(kind, key.name, merge_patch(body, of=obj), key.namespace, subresource=subresource)
        try:
            await informer.write(key, patch)
        except (Conflict, NotFound) as error:
            await self._look_again(kind, informer, key)
            raise Stale(f"{kind.name} {key} has changed or gone meanwhile") from error

    async def _look_again(self, kind: Kind[T], informer: Informer[T], key: Key) -> None:
        """The object's present state enters the cache, however late its watch is: otherwise the next step would be refused as this one was,
        and its objects for an owner that is gone would be collected as soon as they are made. Raises ApiError.
        """
        with contextlib.suppress(NotFound):
            await informer.write(key, self.cluster.get(kind, key.name, key.namespace))

    async def create(self, kind: Kind[T], informer: Informer[T], body: Mapping[str, Any], namespace: str) -> T:
        """Raises ApiError, AlreadyExists among them."""
        key = Key(namespace, body["metadata"]["name"])
        return await informer.write(key, self.cluster.create(kind, body, namespace))

    async def delete(self, kind: Kind[T], informer: Informer[T], obj: T, propagation: str = "") -> None:
        """Raises Stale where it could not be deleted now, or another object has its name."""
        meta = obj.metadata
        try:
            await self.cluster.delete(kind, meta.name, meta.namespace, uid=meta.uid, propagation=propagation)
        except NotFound:
            pass
        except Conflict as error:
            await self._look_again(kind, informer, key_of(obj))
            raise Stale(f"{kind.name} {key_of(obj)} is not deleted: {error}") from error

    async def write_status(self, obj: Object, old: msgspec.Struct, new: msgspec.Struct) -> bool:
        """Of this version of the object. Returns False where nothing is new. Raises Stale."""
        change = merge_diff(msgspec.to_builtins(old), msgspec.to_builtins(new))
        if not change:
            return False
        await self.amend(self._kind, self._objects, obj, {"status": change}, subresource="status")
        return True
