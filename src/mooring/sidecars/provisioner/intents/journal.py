"""The journal of intents: durable before CreateVolume, and shared by all requests in flight.

An intent that is begun while a write is under way waits for the next write, with all others that came meanwhile: one
write covers them all, so a burst pays a fraction of a write each. Ends wait for the next begin, or a few seconds. The
Leases: `lease_store.py`.

Without the right to write there, as the API server itself says at the start, the intents are kept in memory, as
external-provisioner does, and the open intents of others are left alone. Intents that are read are ours once we hold
the journal, and not before: its holder may still end them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Gauge

from mooring.api.coordination import LEASES
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.control.locks import KeyLocks
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, Forbidden
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.access_review import denied
from mooring.sidecars.provisioner.intents.lease_codec import LATER, JournalLease, JournalLocation
from mooring.sidecars.provisioner.intents.lease_store import REFRESH_S, LeaseStore
from mooring.sidecars.provisioner.model.intent import ClaimIntents

log = logger(__name__)

Waiter = asyncio.Future[None]

TIDY_S: Final = 5.0
"""How long an end may wait for a begin that carries it along."""

VERBS: Final = ("get", "create", "update")
"""The rights on Leases that a journal needs."""

Found: TypeAlias = Callable[[Mapping[str, "ClaimIntents"]], None]


class Intents:
    """Open intents that are written nowhere: they are lost with the process, as external-provisioner's are. A `Journal`
    makes them durable.

    start() once, then run() for as long as they are used. Entries are told apart by the claim's uid.
    """

    def __init__(self) -> None:
        self._open: dict[str, ClaimIntents] = {}

    def open(self) -> Mapping[str, ClaimIntents]:
        """The entries as they were written last, or are being written, live."""
        return self._open

    def on_found(self, handler: Found) -> None:
        """Calls the handler with entries that a former process, or another one, left."""

    async def start(self) -> None:
        """Reads the open intents. Raises ApiError."""

    async def run(self) -> None:
        """Keeps them until cancelled."""

    async def ready(self) -> None:
        """Returns once what others left is found. Raises ApiError."""

    async def write(self, entry: ClaimIntents) -> None:
        """Returns once the entry is durable, in place of the claim's former one. Raises ApiError; then the former one
        is kept.
        """
        self._open[entry.uid] = entry

    async def end(self, uid: str) -> None:
        """No intent of the claim is open any more. May become durable later; nothing happens if none was."""
        self._open.pop(uid, None)

    async def wait_for_end(self, uid: str) -> None:
        """Returns once it is durable that no intent of the claim is open. Raises ApiError.

        For callers that release a PersistentVolume: a volume that was kept on purpose must not be found again as a lost
        one.
        """

    async def tidy(self) -> None:
        """Makes all ends durable, as far as that works: for an orderly end of the process."""


class JournalMetrics:
    """Metrics of our own: external-provisioner has no journal."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._in_memory = Gauge(
            "mooring_provisioner_intents_in_memory",
            "1 while there is no right to write down what is about to be created, so that a kill may leak a volume.",
            registry=registry,
        )

    def in_memory(self, is_so: bool) -> None:
        self._in_memory.set(is_so)


class Journal(Intents):
    """Intents on Leases. identity: of this process."""

    def __init__(
        self,
        cluster: Cluster,
        place: JournalLocation,
        identity: str,
        clock: Clock,
        metrics: JournalMetrics | None = None,
    ) -> None:
        super().__init__()
        self._cluster, self._location, self._clock, self._metrics = cluster, place, clock, metrics
        self._store = LeaseStore(cluster, place, identity, clock)
        self._handlers: list[Found] = []
        self._waiters: defaultdict[JournalLease, list[Waiter]] = defaultdict(list)
        self._wake = asyncio.Event()
        self._writing: KeyLocks[str] = KeyLocks()
        self._tidy_timer: asyncio.TimerHandle | None = None
        self._tidy_due = False
        self._was_held = False
        self._in_memory = False

    def on_found(self, handler: Found) -> None:
        self._handlers.append(handler)

    async def start(self) -> None:
        """Takes the journal over; the open intents of an earlier holder are open from now on. A failure is tried again
        by `run`.
        """
        log.info(1, "the journal of intents", namespace=self._location.namespace, Lease=self._location.page_name(0))
        await self._try_to_hold()

    async def ready(self) -> None:
        await self._hold()

    async def write(self, entry: ClaimIntents) -> None:
        uid, is_known = entry.uid, entry.uid in self._open
        await self._hold()
        if uid in self._open and not is_known:
            raise Conflict(f"the volume {entry.volume_name} was begun by an earlier provisioner: going on with that")
        async with self._writing.of(uid):
            await self._write(entry)

    async def _write(self, entry: ClaimIntents) -> None:
        """Write an entry, one at a time for each claim: what is put back after a failure is what was stored before."""
        uid, before, text = entry.uid, self._open.get(entry.uid), lease_codec.encoded(entry)
        if self._in_memory:
            await super().write(entry)
            return
        if before is not None and before.left() == entry.left() and self._store.is_stored(uid, text):
            await self._confirm_hold(uid)
            return
        page = self._store.put(uid, text)
        self._open[uid] = entry
        try:
            await self._written(page)
            for former in self._store.moved(uid):
                await self._written(former)
        except ApiError:
            if self._open.get(uid) is not entry:
                pass  # it has ended meanwhile
            elif before is None:
                await self.end(uid)
            else:
                self._open[uid] = before
                self._store.put_back(uid, lease_codec.encoded(before))
            raise

    async def _confirm_hold(self, uid: str) -> None:
        """Confirm before a repeated call that the journal is still ours: while this process stood still, another one
        may have taken over and ended the intent. Raises ApiError.
        """
        for page in self._store.saying(uid):
            await self._written(page)

    async def end(self, uid: str) -> None:
        if self._open.pop(uid, None) is not None and not self._in_memory:
            self._store.drop(uid)
            self._tidy_soon()

    async def wait_for_end(self, uid: str) -> None:
        await self._hold()
        if uid in self._store.later:
            raise Conflict(LATER)
        for page in self._store.saying(uid):
            if self._in_memory:
                raise Forbidden(
                    "an earlier provisioner left the volume's creation open, and there is no right to write "
                    "that it is over"
                )
            await self._written(page)

    async def tidy(self) -> None:
        if self._in_memory:
            return
        with contextlib.suppress(ApiError):
            for page in [page for page in self._store.pages if page.stale]:
                await self._written(page)

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._metrics is not None:
                self._metrics.in_memory(False)

    # -- writing

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._wake.wait()
            self._wake.clear()
            await self._try_to_hold()
            tidies, self._tidy_due = self._tidy_due, False
            for page in self._store.pages:
                is_due = self._store.held and ((tidies and page.stale) or self._store.is_due(page))
                if self._waiters[page] or is_due:
                    await self._save(page)

    def _rest_s(self) -> float | None:
        """The time without anything to do, unless a begin or an end comes."""
        if not self._store.held and not self._in_memory:
            return self._store.takeover_in_s
        return REFRESH_S if self._open and not self._in_memory else None

    async def _hold(self) -> None:
        """Raises ApiError."""
        if not self._store.held and not self._in_memory:
            await self._store.hold()
            self._was_held = True
            self._adopt_found()

    async def _try_to_hold(self) -> None:
        try:
            await self._hold()
        except Forbidden:
            if not self._was_held:
                await self._ask_for_rights()
        except ApiError:
            pass  # the store has logged it

    async def _ask_for_rights(self) -> None:
        """A refusal alone may pass, as one of a webhook or a quota does: going on in memory for that would lose a
        volume.
        """
        missing = await denied(self._cluster, LEASES, self._location.namespace, VERBS)
        if not missing:
            return
        self._in_memory = True
        if self._metrics is not None:
            self._metrics.in_memory(True)
        log.error(
            "there is no right to write down what is about to be created, so it is kept in memory: when this "
            "process is killed while a "
            "volume is made, and its claim is deleted before the next process starts, the volume leaks. Grant "
            "it and start again",
            missing=f"{', '.join(missing)} leases.coordination.k8s.io",
            namespace=self._location.namespace,
        )
        if self._store.found:
            log.error(
                "volumes begun by an earlier provisioner cannot be finished without that right",
                count=len(self._store.found),
            )

    def _adopt_found(self) -> None:
        """The intents that others left are open from now on."""
        found, self._store.found = self._store.found, {}
        if found:
            log.info(0, "found intents of an earlier provisioner", count=len(found))
            self._open.update(found)
            for handler in self._handlers:
                handler(found)

    async def _written(self, page: JournalLease) -> None:
        """Returns when the present entries of the page are stored. Raises ApiError."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiters[page].append(waiter)
        self._wake.set()
        await waiter

    async def _save(self, page: JournalLease) -> None:
        """One write for all waiters of this page."""
        waiters = self._waiters.pop(page, [])
        try:
            await self._store.write(page)
        except ApiError as error:
            log.error("could not write the journal of intents", error=error, page=page.number, waiting=len(waiters))
            self._tidy_soon()
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(copy.copy(error))
        else:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        if self._store.held:
            self._adopt_found()

    def _tidy_soon(self) -> None:
        if self._tidy_timer is None:
            self._tidy_timer = asyncio.get_running_loop().call_later(TIDY_S, self._tidy)

    def _tidy(self) -> None:
        self._tidy_timer, self._tidy_due = None, True
        self._wake.set()


class IntentsRunner:
    """Runs the intents beside the controllers: they are read first, then kept, and in the end all ends are stored."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self._started = asyncio.Event()

    async def started(self) -> None:
        await self._started.wait()

    async def run(self) -> None:
        await self.intents.start()
        self._started.set()
        await self.intents.run()

    async def drain(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.intents.tidy()
