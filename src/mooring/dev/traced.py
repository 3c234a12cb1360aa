"""A cluster and a driver that are watched: the story gets each write, each watch, and each call of a driver that can't
report its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import EVENTS, NODES
from mooring.api.meta import Kind
from mooring.base.clock import Clock
from mooring.conform.book.lists import LACKS
from mooring.conform.book.rule import Breach
from mooring.conform.watched import Breaches, WatchedDriver, superfluous
from mooring.csi.call_counts import CallObserver
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.redact import redacted, scrubbed
from mooring.dev.story import Story
from mooring.dev.summary import patch_summary
from mooring.driver.guard import CallRecord
from mooring.kube.cluster import EVERYTHING, Cluster, PatchType, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError, Conflict, Invalid
from mooring.wire.grpc.codes import Code

T = TypeVar("T")


class Watches:
    """One controller's watches. A controller lists a kind before it watches it: its caches are filled when the last
    watch begins.
    """

    def __init__(self) -> None:
        self.plurals: list[str] = []
        self._another = asyncio.Event()

    def began(self, kind: Kind[Any]) -> None:
        self.plurals.append(kind.plural)
        self._another.set()

    async def until(self, is_synced: Callable[[], bool]) -> None:
        """Returns when the controller says so; it is asked whenever another watch has begun."""
        while not is_synced():
            self._another.clear()
            await self._another.wait()


class TracedCluster(Cluster):
    """`Cluster`, with its user's name on it. Reads and nodes' heartbeats are passed on in silence. watches: hears of
    the watches, too.

    Another Lease is a program's own bookkeeping, as the provisioner's journal: its write counts, and is shown where it
    fails.
    """

    def __init__(self, cluster: Cluster, who: str, story: Story, clock: Clock, watches: Watches | None = None) -> None:
        self._cluster = cluster
        self._who = who
        self._story = story
        self._clock = clock
        self._watches = watches

    async def ask(self, request: Request) -> Any:
        if not request.writes or _is_heartbeat(request):
            return await self._cluster.ask(request)
        is_shown = request.kind.plural != LEASES.plural
        with self._traced(
            _brief(request), _outdated(request), same=_same(request), name=_called(request), is_shown=is_shown
        ):
            return await self._cluster.ask(request)

    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 0.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        if self._watches is not None:
            self._watches.began(kind)
        stream = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    @contextlib.contextmanager
    def _traced(
        self, what: str, outdated: tuple[type[ApiError], ...], *, same: str, name: str, is_shown: bool
    ) -> Iterator[None]:
        """outdated: the error that says that the object has changed: no failure, it is read again. same, name: see
        `Story.happened`.
        """
        began = self._clock.now()
        try:
            yield
        except outdated:
            self._story.happened(
                self._who, what, via="API", result="outdated, somebody was faster", seconds=self._clock.now() - began
            )
            raise
        except ApiError as error:
            self._story.wrote(
                self._who, what, self._clock.now() - began, f"{error.reason or type(error).__name__}: {error}"
            )
            raise
        if is_shown:
            self._story.wrote(self._who, what, self._clock.now() - began, same=same, name=name)
        else:
            self._story.writes[self._who] += 1


def _is_heartbeat(request: Request) -> bool:
    """True for the Lease of a node, renewed every ten seconds, and for a node that says once more that it is ready."""
    if request.kind.plural == LEASES.plural:
        return request.namespace == NODE_LEASE_NAMESPACE
    if (
        request.kind.plural != NODES.plural
        or request.verb is not Verb.PATCH
        or not isinstance(request.body.body, Mapping)
    ):
        return False
    conditions = (request.body.body.get("status") or {}).get("conditions") or ()
    return any((one.get("type"), one.get("status")) == ("Ready", "True") for one in conditions)


def _brief(request: Request) -> str:
    """A write in a few words."""
    match request.verb:
        case Verb.CREATE:
            return _created(request)
        case Verb.REPLACE:
            return f"replace {request.place}{_phase(request.body, request.subresource)}"
        case Verb.PATCH:
            return f"patch {request.place}: {patch_summary(request.body.body)}"
        case Verb.POST:
            return f"create {request.place}"
    return f"{request.verb} {request.place}"


def _outdated(request: Request) -> tuple[type[ApiError], ...]:
    """How the server says that the object has changed since it was read."""
    tests = request.verb is Verb.PATCH and request.body.type is PatchType.JSON
    return (Conflict, Invalid) if tests else (Conflict,)


def _same(request: Request) -> str:
    """The identity of an Event that is patched when it recurs."""
    is_event = request.kind.plural == EVENTS.plural and request.verb in (Verb.CREATE, Verb.PATCH)
    return f"{request.kind.plural}/{request.name}" if is_event else ""


def _called(request: Request) -> str:
    """A new event in a few words."""
    if request.kind.plural != EVENTS.plural or request.verb is not Verb.CREATE:
        return ""
    return f"event {request.body.get('reason', '')} on {(request.body.get('involvedObject') or {}).get('name', '')}"


def _created(request: Request) -> str:
    """`create persistentvolumes/NAME`, or the beginning of a name that the server ends; an event by what it says."""
    if request.subresource:
        return f"create {request.place}"
    if request.kind.plural != EVENTS.plural:
        name = request.name or f"{(request.body.get('metadata') or {}).get('generateName', '')}*"
        return f"create {request.kind.plural}/{name}"
    body, about = request.body, request.body.get("involvedObject") or {}
    return (
        f"event on {about.get('kind', '')} {about.get('name', '')}: {body.get('reason', '')}: {body.get('message', '')}"
    )


def _phase(body: Mapping[str, Any], subresource: str) -> str:
    """The change in a status that is replaced whole."""
    phase = (body.get("status") or {}).get("phase") if subresource == "status" else ""
    return f": phase={phase}" if phase else ""


_PAGES_MAX: Final = 20
"""Of a list that somebody looks through in passing."""
ROUTINE: Final = "NodeGetVolumeStats"
"""Asked once a minute for each volume of each pod: told when it fails."""


class TracedDriver(WatchedDriver):
    """who: the called part, in the story. breaches: of the book's rules by this driver. where: the node, "" for the
    controller.
    """

    def __init__(
        self,
        address: str,
        who: str,
        story: Story,
        *,
        breaches: Breaches,
        where: str,
        clock: Clock,
        metrics: CallObserver | None = None,
    ) -> None:
        super().__init__(address, watch=breaches.watch(where), clock=clock, metrics=metrics)
        self._who, self._story, self._breaches = who, story, breaches
        self._is_unready = False

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        response = await self._told(rpc, request, call)
        if self._breaches.takes(rpc):
            await self._repeat(rpc, request, response, call)
        return response

    async def _repeat(self, rpc: Rpc[Q, A], request: Q, response: A, call: Call) -> None:
        """Makes the call again. Whatever it shows is told; the caller has its answer already."""
        self._story.happened("dev", f"{rpc.name} is made again, as after a lost answer")
        with contextlib.suppress(DriverError):
            again = await self._told(rpc, request, call)
            if (undo := superfluous(rpc, request, response, again)) is not None:
                await self._told(*undo, call)
            if isinstance(request, csi.DeleteVolumeRequest) and self._breaches.lists_volumes():
                await self._look_gone(request, call)

    async def _look_gone(self, request: csi.DeleteVolumeRequest, call: Call) -> None:
        """A deleted volume is listed no more."""
        token = ""
        for _ in range(_PAGES_MAX):
            page = await self._list(csi.ListVolumesRequest(starting_token=token), call)
            if any(entry.volume.volume_id == request.volume_id for entry in page.entries):
                about = f"volume {request.volume_id!r}"
                text = "DeleteVolume has answered OK, and the volume is still listed"
                self._breaches.found(Breach(LACKS, Driver.list_volumes.name, about, text, "", request), request)
            if not (token := page.next_token):
                return

    async def _list(self, request: csi.ListVolumesRequest, call: Call) -> csi.ListVolumesResponse:
        """Raises DriverError."""
        return await super().invoke(Driver.list_volumes, request, call)

    async def _told(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        began = self._clock.now()
        try:
            response = await super().invoke(rpc, request, call)
        except DriverError as error:
            self._tell(rpc.name, request, "", error, began)
            raise
        except asyncio.CancelledError:
            self._tell(rpc.name, request, "", DriverError(Code.CANCELED, "the caller gave up"), began)
            raise
        if isinstance(response, csi.ProbeResponse) and response.HasField("ready") and not response.ready.value:
            self._tell_unready(began)
        else:
            self._is_unready = False
            self._tell(rpc.name, request, scrubbed(redacted(response), request), None, began)
        return response

    def _tell_unready(self, began: float) -> None:
        """Once, though it is asked each second."""
        if not self._is_unready:
            self._story.happened(
                self._who,
                "Probe",
                via="CSI",
                result="not ready, asked again each second",
                seconds=self._clock.now() - began,
            )
        self._is_unready = True

    def _tell(self, name: str, request: Q, response: str, error: DriverError | None, began: float) -> None:
        tell(self._story, CallRecord(name, redacted(request), response, error, self._clock.now() - began), self._who)


def tell(story: Story, record: CallRecord, who: str) -> None:
    """Tells of a call, unless it is one that comes all the time and went well."""
    if record.rpc != ROUTINE or record.error is not None:
        story.called(record, who)
