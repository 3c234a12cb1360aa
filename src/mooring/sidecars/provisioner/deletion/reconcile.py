"""Carries out the decision about a PersistentVolume, in order; before its volume is deleted, the attachments are
checked once more.

Their cache may lag behind by a moment, as in external-provisioner: then the driver has to refuse. But a watch that has
been silent for a while may hide attachments that have existed for long, so then the provisioner asks the API server
itself.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, SecretReference
from mooring.api.meta import key_of
from mooring.api.storage import VolumeAttachment
from mooring.base.log import logger
from mooring.control.decision import Decision, Failed, Read
from mooring.control.locks import KeyLocks
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale, Vanished
from mooring.control.secrets import SecretError
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.cache.informer import FreshCache
from mooring.kube.errors import ApiError, Conflict, ServerError, TooManyRequests, Unreachable
from mooring.kube.patch import strategic_patch
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.deletion import decide as d
from mooring.sidecars.provisioner.deletion.decide import Progress, View, class_changed, intent_closed
from mooring.sidecars.provisioner.environment import BUCKETS_S, Environment, delete_request, deletion_secret
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import BY_UID
from mooring.sidecars.provisioner.model.intent import IntentEnds
from mooring.sidecars.provisioner.model.topology import places_of

log = logger(__name__)

PATIENCE: Final = 5
"""Failures in a row before users get an event of one that mostly passes by itself."""

READ_MAX: Final = 10
"""The most other objects of a volume that are read one by one before it is deleted."""

_PASSING: Final = (Unreachable, ServerError, TooManyRequests)


def _patience(error: ApiError) -> int:
    return PATIENCE if isinstance(error, (*_PASSING, Conflict)) else 1


class Reconciler:
    """progress: filled here, read by the view. attachments: None for a driver that does not publish.

    ends: of the intents of volumes.
    """

    def __init__(
        self,
        env: Environment,
        view: View,
        progress: dict[str, Progress],
        attachments: FreshCache[VolumeAttachment] | None,
        ends: IntentEnds,
    ) -> None:
        self._cluster, self._clock, self._driver = env.runtime.cluster, env.runtime.clock, env.driver
        self._claims, self._secrets = env.caches.claims, env.secrets
        self._volumes = FreshCache(self._cluster, self._clock, env.caches.volumes)
        self._writer = ObjectWriter(env.runtime.cluster, PERSISTENT_VOLUMES, env.caches.volumes)
        self._view, self._progress, self._attachments = view, progress, attachments
        self._ends, self._bus, self._timeout_s = ends, env.bus, env.options.timeout_s
        self._metrics = env.runtime.metrics.once(DeletionMetrics)
        self._calls: KeyLocks[str] = KeyLocks()

    async def perform(self, pv: PersistentVolume, decision: Decision[d.Action]) -> None:
        """Carries out the actions. Raises Failed; Stale when the decision is another one by the time the volume is
        about to go.
        """
        began = self._clock.now()
        secret: SecretReference | None = None
        values: Mapping[str, str] = {}
        for action in decision.actions:
            match action:
                case d.Hold():
                    await self._patch(pv, {"finalizers": [names.VOLUME_FINALIZER]})
                case d.Release():
                    await self._wait_for_intent(pv)
                    await self._patch(pv, {"$deleteFromPrimitiveList/finalizers": [names.VOLUME_FINALIZER]})
                case d.LoadSecret(ref):
                    secret, values = ref, await self._load(pv, ref)
                case d.DeleteVolume():
                    async with self._calls.of(action.handle):  # two objects may name one volume
                        # Again, without a read: the Secret, or the other call, may have taken long.
                        if d.decide_deletion(self._view, pv.metadata.name).actions != decision.actions:
                            raise Stale(pv.metadata.name)
                        await self._delete_volume(action, secret, values)
                    self._progress[pv.metadata.name] = Progress(pv.metadata.uid)
                    self._metrics.succeeded(pv.spec.storage_class_name, self._clock.now() - began)
                    self._bus.tell(topics.ROOM_FREED, *places_of(pv))
                case d.LeaveVolume(keeper):
                    log.info(2, "left a volume to another", PersistentVolume=pv.metadata.name, another=keeper)
                case d.DeleteObject():
                    await self._wait_for_intent(pv)  # without our finalizer nothing else holds the object
                    await self._delete_object(pv)
                    self._progress[pv.metadata.name] = Progress(pv.metadata.uid, object_deleted=True)

    def reads(self, pv: PersistentVolume, decision: Decision[d.Action]) -> Sequence[Read]:
        """What the end of a volume, or of one of its objects, depends on, read from the API server. Each raises Failed,
        Stale.
        """
        match next((one for one in decision.actions if isinstance(one, d.DeleteVolume | d.LeaveVolume)), None):
            case d.DeleteVolume(handle):
                others = self._view.others_naming(handle, pv.metadata.name)
            case d.LeaveVolume(keeper):
                others = [keeper]
            case None:
                return ()
        # Another object of the volume may keep it by now; one that a silent watch hides is found by a list. So are many
        # others: each of them would read all that are left.
        is_many = len(others) > READ_MAX
        objects = (pv, *filter(None, map(self._view.volume, [] if is_many else others)))
        return (
            functools.partial(self._wait_for_intent, pv),
            functools.partial(self._look_at, self._attachments, "volumeattachments"),
            functools.partial(self._look_at, self._volumes, "persistentvolumes", lists=is_many),
            *(functools.partial(self._writer.look, one) for one in objects),
        )

    async def _wait_for_intent(self, pv: PersistentVolume) -> None:
        """No intent must bring the volume back once it is released, nor a claim that is still in our cache and nowhere
        else.

        There was none for a volume that no provisioner made.
        """
        if pv.spec.claim_ref is None or names.PROVISIONED_BY not in (pv.metadata.annotations or {}):
            return
        for claim in self._claims.store.by(BY_UID, pv.spec.claim_ref.uid):
            with contextlib.suppress(ApiError):
                name, namespace = claim.metadata.name, claim.metadata.namespace
                await self._claims.read(key_of(claim), self._cluster.get(PERSISTENT_VOLUME_CLAIMS, name, namespace))
        try:
            await self._ends.wait_for_end(pv.spec.claim_ref.uid)
            if self._view.progress_of(pv) is not None:
                await self._ends.forget_stored(pv.spec.claim_ref.uid)
        except ApiError as error:
            text = f"could not write down that the volume's creation is over: {error}"
            raise Failed(text, patience=_patience(error), heals=(intent_closed(pv.metadata.name),)) from error

    async def _look_at(self, cache: FreshCache[Any] | None, plural: str, *, lists: bool = False) -> None:
        """Costs a list where the watch has been silent, or one is asked for, and nothing else."""
        try:
            if cache is not None:
                await (cache.list() if lists else cache.look())
        except ApiError as error:
            raise Failed(f"failed to list {plural}: {error}", patience=_patience(error)) from error

    async def _load(self, pv: PersistentVolume, ref: SecretReference) -> Mapping[str, str]:
        """Raises Failed."""
        try:
            return await deletion_secret(self._secrets, ref, pv.metadata.name)
        except (ApiError, SecretError) as error:
            raise Failed(f"error getting secret {ref.name} in namespace {ref.namespace}: {error}") from error

    async def _delete_volume(
        self, action: d.DeleteVolume, secret: SecretReference | None, values: Mapping[str, str]
    ) -> None:
        try:
            await self._driver.delete_volume(
                delete_request(action.handle, values), Call(self._timeout_s, action.migrated)
            )
        except DriverError as error:
            if action.lacks_class:
                without = f"; it was called without the class {action.lacks_class}, which may name a secret"
                raise Failed(f"{error}{without}", heals=(class_changed(action.lacks_class),)) from error
            if secret is None:
                raise Failed(str(error)) from error
            self._secrets.invalidate(secret)  # perhaps it was the secret: read it anew next time
            without = (
                "" if values else f"; it was called without the secret {secret.name} of namespace {secret.namespace}"
            )
            raise Failed(f"{error}{without}") from error

    async def _delete_object(self, pv: PersistentVolume) -> None:
        with _unless_gone(patience=1):
            await self._writer.delete(pv, failing="could not delete the PersistentVolume")

    async def _patch(self, pv: PersistentVolume, metadata: dict[str, Any]) -> None:
        """A strategic patch joins lists, so that nobody else's finalizer is lost. The uid keeps it from another object
        of that name.
        """
        with _unless_gone(PATIENCE):
            patch = strategic_patch({"metadata": metadata}, of=pv)
            await self._writer.patch(pv, patch, failing="could not save the finalizers of the PersistentVolume")


@contextlib.contextmanager
def _unless_gone(patience: int) -> Iterator[None]:
    """A write to a PersistentVolume: one that is gone has nothing left to be written. Raises Failed, with this
    patience; Stale.
    """
    try:
        yield
    except Vanished:
        return
    except Failed as failed:
        raise Failed(str(failed), patience=patience) from failed


class DeletionMetrics:
    """Labels: the StorageClass."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["class"]
        name = "controller_persistentvolume_delete"
        self.deleted = Counter(name, "Volumes deleted.", labels, registry=registry)
        self.failed = Counter(f"{name}_failed", "Deletions that failed, each try.", labels, registry=registry)
        self.duration = Histogram(
            f"{name}_duration_seconds",
            "Time to delete a volume, successes only.",
            labels,
            buckets=BUCKETS_S,
            registry=registry,
        )

    def succeeded(self, class_name: str, seconds: float) -> None:
        self.deleted.labels(class_name).inc()
        self.duration.labels(class_name).observe(seconds)
