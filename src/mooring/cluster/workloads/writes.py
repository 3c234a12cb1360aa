"""The requests that workloads make: one each. Own writes enter the caches at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.core import ObjectReference
from mooring.api.meta import Key, Kind, Object, finalizers_of, is_deleting, key_of
from mooring.api.pods import PODS, Pod
from mooring.cluster.workloads.ownership import Claimed, reference, with_owner, without_owner
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.control.decision import Failed
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Retry, Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError, Conflict
from mooring.kube.patch import merge_diff, merge_patch, remove_finalizer

T = TypeVar("T", bound=Object)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Writes:
    """The writes of one controller. kind, objects: what it looks after."""

    def __init__(
        self, runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder, kind: Kind[Any], objects: Informer[Any]
    ) -> None:
        self.cluster, self.caches = runtime.cluster, caches
        self._recorder, self._kind, self._objects = recorder, kind, objects
        self._writers: dict[str, ObjectWriter[Any]] = {}  # by the kind's plural

    def tell(self, obj: Object, reason: str, message: str, level: str = NORMAL) -> None:
        """Send an Event about an object of the kind."""
        meta = obj.metadata
        ref = ObjectReference(
            self._kind.api_version, self._kind.name, meta.namespace, meta.name, meta.uid, meta.resource_version
        )
        self._recorder.event(ref, level, reason, message)

    # -- pods

    async def create_pod(self, owner: Object, body: Mapping[str, Any]) -> Pod:
        """Create the pod. Raises Retry when it is refused; the caller sends the Event."""
        try:
            made = await self.cluster.create(PODS, body, owner.metadata.namespace)
        except ApiError as error:
            raise Retry(f"can't create a pod: {error}") from error
        self.caches.pods.wrote(made)
        return made

    async def delete_pod(self, pod: Pod) -> None:
        """Delete the pod, unless it is gone. It counts as going from now on, unless that fails. Raises Retry, Stale."""
        uid = pod.metadata.uid
        self.caches.going.add(uid)
        try:
            await self.delete(PODS, self.caches.pods, pod)
        except (Retry, Stale):
            self.caches.going.discard(uid)
            raise

    # -- any object

    async def own(
        self, kind: Kind[T], informer: Informer[T], owner: Object, claimed: Claimed[T], finalizer: str = ""
    ) -> None:
        """Adopt and release. finalizer: the one that adopted objects get. Raises Retry, Stale."""
        if claimed.adopt:
            await self.check_alive(owner)
        for obj in claimed.adopt:
            metadata: dict[str, Any] = {"ownerReferences": with_owner(obj, reference(self._kind, owner))}
            if finalizer and finalizer not in finalizers_of(obj):
                metadata["finalizers"] = [*finalizers_of(obj), finalizer]
            await self.amend(kind, informer, obj, {"metadata": metadata})
        for obj in claimed.release:
            await self.amend(
                kind, informer, obj, {"metadata": {"ownerReferences": without_owner(obj, owner.metadata.uid)}}
            )

    async def check_alive(self, owner: Object) -> None:
        """Raises Stale where the owner is gone, or going, and the cache does not know: it may just have let go its
        objects, as orphans.
        """
        with _refusals():
            fresh = await self._writer(self._kind, self._objects).look(owner)
        if is_deleting(fresh):
            raise Stale(f"{self._kind.name} {key_of(owner)} is going")

    async def take_finalizer(self, pod: Pod, finalizer: str, *, strictly: bool = False) -> None:
        """Remove the finalizer where the pod has it. strictly: this version of the pod only. Raises Stale where it has
        changed or gone, and Retry.
        """
        if finalizer in finalizers_of(pod):
            with _refusals():
                await self._writer(PODS, self.caches.pods).patch(
                    pod, remove_finalizer(pod, finalizer), strictly=strictly
                )

    async def amend(
        self, kind: Kind[T], informer: Informer[T], obj: T, change: Mapping[str, Any], *, subresource: str = ""
    ) -> None:
        """Patch this version of the object by a merge patch. Raises Retry, Stale."""
        with _refusals():
            await self._writer(kind, informer).patch(obj, merge_patch(change, of=obj), subresource, strictly=True)

    def _writer(self, kind: Kind[T], informer: Informer[T]) -> ObjectWriter[T]:
        return self._writers.setdefault(kind.plural, ObjectWriter(self.cluster, kind, informer))

    async def create(self, kind: Kind[T], informer: Informer[T], body: Mapping[str, Any], namespace: str) -> T:
        """Raises ApiError, AlreadyExists among them."""
        key = Key(namespace, body["metadata"]["name"])
        return await informer.write(key, self.cluster.create(kind, body, namespace))

    async def delete(self, kind: Kind[T], informer: Informer[T], obj: T, propagation: str = "") -> None:
        """Delete the object, unless it is gone. Raises Stale where it could not be deleted now, and Retry."""
        with _refusals():
            await self._writer(kind, informer).delete(obj, propagation=propagation)

    async def write_status(self, obj: Object, old: msgspec.Struct, new: msgspec.Struct) -> bool:
        """Patches this version of the object's status. Returns False where nothing is new. Raises Retry, Stale."""
        change = merge_diff(msgspec.to_builtins(old), msgspec.to_builtins(new))
        if not change:
            return False
        await self.amend(self._kind, self._objects, obj, {"status": change}, subresource="status")
        return True


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """The kit's failures as reconciles of workloads raise them: a Retry has the API server's error as its cause.

    A conflict about an object as it was is Stale here: a failure stands in a workload's status, where a moment's
    conflict does not belong.
    """
    try:
        yield
    except Failed as failure:
        if isinstance(failure.__cause__, Conflict):
            raise Stale(str(failure)) from failure
        raise Retry(str(failure)) from failure.__cause__
