"""Source protection: the changes that wake a data source, and its users.

Users are counted. A finalizer on a snapshot that this process added, or the one before for a volume that the journal
names, stays for volumes that are being made, also those of deleted claims, and for claims whose turn comes; it is
removed at once after the last one. Claims that wait for something else, such as a node, do not hold it. A finalizer
that another process left is removed after a whole sweep interval in which no claim waited for a volume from the
snapshot: another instance may have added it for a claim that is not in this cache yet. The finalizer of a clone's
source stays for all claims that wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.decision import Decision
from mooring.control.locks import KeyLocks
from mooring.control.manager import Loop, Worker
from mooring.control.result import Result, Retry
from mooring.kube.cache.informer import Change
from mooring.kube.errors import ApiError, Forbidden, NotServed
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import BY_UID, CLAIM_KIND, SNAPSHOT_KIND, Source, has_to_do_with_copies
from mooring.sidecars.provisioner.source_protection.decide import Action, LookUp, NoteUnused, TakeOff, decide_origin
from mooring.sidecars.provisioner.source_protection.reconcile import Finalizers
from mooring.sidecars.provisioner.source_protection.view import Origin, View, origin_of, origins_of

log = logger(__name__)

ASK_AGAIN_S: Final = 10.0


class SourceProtection:
    """Finalizers on snapshots and claims that are being copied. It has to be made before the caches run.

    is_due: whether a volume is to be made for the claim now. journal_read: returns once the volumes that a former
    process was making are known, or raises ApiError.
    controller: removes finalizers. beside: parts that have to run beside it, by name; one fills the cache of snapshots.
    """

    def __init__(
        self,
        env: Environment,
        is_due: Callable[[PersistentVolumeClaim], bool],
        journal_read: Callable[[], Awaitable[None]],
    ) -> None:
        runtime, caches, options = env.runtime, env.caches, env.options
        self._cluster, self._clock, self._journal_read = runtime.cluster, runtime.clock, journal_read
        interval_s = options.snapshot_orphan_sweep_interval_s
        self._snapshots = caches.snapshots
        self._users: dict[Origin, set[str]] = {}
        self._source_of: dict[str, Origin] = {}
        self._done: set[str] = set()
        self._ours: set[Origin] = set()
        self._unused_since: dict[Origin, Instant] = {}
        self._view = View(
            driver=env.capabilities,
            claims=caches.claims.store,
            volumes=caches.volumes.store,
            snapshots=caches.snapshots.store,
            is_due=is_due,
            adopted=self._users,
            done=self._done,
            ours=self._ours,
            unused_since=self._unused_since,
            grace_s=interval_s,
        )
        self._finalizers = Finalizers(runtime.cluster, caches.claims, caches.snapshots)
        self._locks: KeyLocks[Origin] = KeyLocks()
        self.controller: Controller[Origin] = Controller(
            runtime,
            "sources",
            self._reconcile,
            workers=options.cloning_protection_threads,
            backoff=options.backoff,
            label="source",
            log=log,
        )
        self.controller.watch(caches.claims, self._claim_changed, only=has_to_do_with_copies)
        self.controller.watch(caches.snapshots, self._snapshot_changed)
        env.bus.subscribe(topics.SOURCE_FREE, lambda uid: self.abandon(uid))
        env.bus.subscribe(topics.SOURCE_DONE, self._source_done)
        sweeps = env.capabilities.snapshots and interval_s > 0
        self.beside: dict[str, Worker] = {"provisioner/volumesnapshots": Loop(self._watch_snapshots)} if sweeps else {}

    # -- users of a source

    async def hold(self, source: Source, uid: str) -> None:
        """Keeps the source from being deleted. uid: of the claim that needs it. Raises ApiError."""
        self.adopt(source, uid)
        origin = origin_of(source)
        async with self._locks.of(origin):
            claim = None if origin.is_snapshot else self._view.claims.get(origin.key)
            if claim is not None and names.CLONE_FINALIZER in finalizers_of(claim):
                return
            try:
                await self._finalizers.put_on(origin)
            except Forbidden as error:
                if not origin.is_snapshot:
                    raise
                log.error(
                    "not allowed to protect the snapshot, going on without", error=error, VolumeSnapshot=str(origin.key)
                )

    def adopt(self, source: Source, uid: str) -> None:
        """Keep the source's finalizer from now on. It is ours: this process adds it, or the one before did so for the
        same volume.
        """
        origin = origin_of(source)
        if origin.is_snapshot:
            self._ours.add(origin)
        self._users.setdefault(origin, set()).add(uid)
        self._source_of[uid] = origin
        self._done.discard(uid)

    def _source_done(self, source: Source, uid: str) -> None:
        """The claim's volume is made, or never will be."""
        origin = origin_of(source)
        if origin.is_snapshot and any(origins_of(claim) for claim in self._view.claims.by(BY_UID, uid)):
            self._done.add(uid)
        self.abandon(uid)
        self.controller.add(origin)

    def abandon(self, uid: str) -> None:
        """No volume is being made for the claim: it needs no source any more, or waits as all others do."""
        origin = self._source_of.pop(uid, None)
        if origin is not None:
            self._users[origin].discard(uid)
            if not self._users[origin]:
                del self._users[origin]
            self.controller.add(origin)

    async def look_at_all(self) -> None:
        """A term begins. The cache of snapshots tells by itself what is there."""
        self.controller.add_later(newest_keys(self._view.claims, _held_source))

    # -- waking sources

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Origin]:
        old, new = change.old, change.new
        if new is not None and (held := _held_source(new)) is not None:
            yield held
        waits_for = () if new is None else origins_of(new)
        for origin in waits_for:
            self._unused_since.pop(origin, None)
        if old is not None:
            yield from waits_for  # what it waits for may be something else by now
        if old is not None and not waits_for:
            self._done.discard(old.metadata.uid)
            yield from origins_of(old)

    def _snapshot_changed(self, change: Change[VolumeSnapshot]) -> Iterator[Origin]:
        origin = Origin(SNAPSHOT_KIND, change.key.namespace, change.key.name)
        if change.new is None:
            self._unused_since.pop(origin, None)
            self.controller.forget(origin)
        elif names.SNAPSHOT_FINALIZER in finalizers_of(change.new):
            yield origin

    async def _watch_snapshots(self) -> None:
        """Finds stray finalizers. Without the right to list snapshots there is no sweep; the cache waits for a kind
        that is not served.
        """
        while True:
            try:
                await self._cluster.list(VOLUME_SNAPSHOTS, limit=1)
                break
            except NotServed:
                break
            except Forbidden as error:
                log.error(
                    "not allowed to list snapshots, finalizers left by other processes are not removed", error=error
                )
                return
            except ApiError as error:
                log.info(2, "could not list snapshots, trying again", why=str(error))
                await self._clock.sleep(ASK_AGAIN_S)
        await self._snapshots.run()

    # -- one source

    async def _reconcile(self, origin: Origin) -> Result:
        """Reconcile under the lock of `hold`, which adds the finalizer that is removed here: `Deciding` would decide
        before it has the lock.

        Raises Retry.
        """
        drivers: dict[str, str] = {}
        knows_former_users = False
        async with self._locks.of(origin):
            while True:
                decision = decide_origin(
                    self._view, origin, self._clock.now(), drivers
                )  # no await between this and the write
                self.controller.explain(origin, decision.because)
                try:
                    if TakeOff() in decision.actions and not knows_former_users:
                        await self._journal_read()
                        knows_former_users = True
                        continue
                    await self._perform(origin, decision, drivers)
                except ApiError as error:
                    raise Retry(f"could not take the finalizer off: {error}", because=decision.because) from error
                if not decision.again:
                    return Result(decision.because, decision.done, after_s=decision.after_s)

    async def _perform(self, origin: Origin, decision: Decision[Action], drivers: dict[str, str]) -> None:
        """Raises ApiError."""
        self._unused_since.pop(origin, None)
        for action in decision.actions:
            match action:
                case NoteUnused(since):
                    self._unused_since[origin] = since
                case LookUp(content_name):
                    drivers[content_name] = await self._finalizers.driver_of(content_name)
                case TakeOff():
                    await self._finalizers.take_off(origin)
                    self._ours.discard(origin)
                    self._unused_since.pop(origin, None)


def _held_source(claim: PersistentVolumeClaim) -> Origin | None:
    """The claim as a source that is being deleted, and is held for its clones."""
    if not is_deleting(claim) or names.CLONE_FINALIZER not in finalizers_of(claim):
        return None
    return Origin(CLAIM_KIND, claim.metadata.namespace, claim.metadata.name)
