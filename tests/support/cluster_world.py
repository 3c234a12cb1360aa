"""Clusters, and who acts on them in tests.

`ClusterUser` is everybody but the part under test, on any cluster. `ClusterWorld` has an embedded store: `users` act on
it unrecorded, `cluster` is for the part under test, and is written down. `story` holds requests and driver calls in one
order, as short texts: `["DeleteVolume", "delete persistentvolumes", ...]`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from mooring.api.core import EVENTS, NAMESPACES
from mooring.api.meta import Kind
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Cluster, Patch, PatchType, Selection, WatchEvent
from mooring.kube.errors import AlreadyExists, Gone, NotFound
from tests.support.builders import KINDS, NS, Json, namespace_of
from tests.support.recording import RecordingCluster
from tests.support.snapshot_crds import SNAPSHOT_CRDS

EPOCH_S = 1_780_000_000.0
WAIT_S = 2000.0


class ClusterUser:
    """Writes, reads and waits. A namespace that is not given is `default`. look_s: how often is looked whether
    something has come.
    """

    def __init__(self, users: Cluster, *, wait_s: float = WAIT_S, look_s: float = 0.01) -> None:
        self.users, self.wait_s, self.look_s = users, wait_s, look_s

    # -- objects

    async def create(self, body: Mapping[str, Any]) -> Json:
        return await self.users.create(KINDS[body["kind"]].whole(), body, namespace_of(body))

    async def patch(
        self, kind: Kind[Any], name: str, body: Mapping[str, Any], namespace: str | None = None, subresource: str = ""
    ) -> Json:
        return await self.users.patch(
            kind.whole(), name, Patch(PatchType.MERGE, body), _in(kind, namespace), subresource=subresource
        )

    async def delete(self, kind: Kind[Any], name: str, namespace: str | None = None, propagation: str = "") -> None:
        await self.users.delete(kind, name, _in(kind, namespace), propagation=propagation)

    async def remove(self, kind: Kind[Any], name: str, namespace: str | None = None, propagation: str = "") -> None:
        """Deletes it, and waits until it is gone."""
        await self.delete(kind, name, namespace, propagation)
        await self.gone(kind, name, namespace)

    async def get(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Json:
        return await self.users.get(kind.whole(), name, _in(kind, namespace))

    async def find(self, kind: Kind[Any], name: str, namespace: str | None = None) -> Json | None:
        with contextlib.suppress(NotFound):
            return await self.get(kind, name, namespace)
        return None

    async def list(self, kind: Kind[Any], namespace: str | None = None) -> list[Json]:
        """Of all namespaces, unless one is given."""
        return list((await self.users.list(kind.whole(), Selection(namespace=namespace))).items)

    # -- waiting

    async def until(self, check: Callable[[], Awaitable[Any]], wait_s: float | None = None, what: str = "it") -> Any:
        """The first truthy answer. What has not come for long is looked for less often: each 1000th of the time so
        far.
        """
        loop, wait_s = asyncio.get_running_loop(), self.wait_s if wait_s is None else wait_s
        began = loop.time()
        while not (found := await check()):
            waited = loop.time() - began
            assert waited < wait_s, f"not within {wait_s:g} s: {what}; {self.seen()}"
            await asyncio.sleep(max(self.look_s, waited / 1000))
        return found

    def seen(self) -> str:
        """Said when something has not come in time."""
        return ""

    async def shown(
        self,
        kind: Kind[Any],
        name: str,
        check: Callable[[Json], Any],
        what: str = "as wanted",
        wait_s: float | None = None,
    ) -> Json:
        """The object, once it is as wanted."""

        async def holds() -> Json | None:
            found = await self.find(kind, name)
            return found if found is not None and check(found) else None

        found: Json = await self.until(holds, wait_s, f"{kind.name} {name} {what}")
        return found

    async def gone(self, kind: Kind[Any], name: str, namespace: str | None = None, wait_s: float | None = None) -> None:
        async def is_gone() -> bool:
            return await self.find(kind, name, namespace) is None

        await self.until(is_gone, wait_s, f"{kind.name} {name} is gone")

    async def events_about(self, name: str) -> list[Json]:
        """Those that name this object. On a shared server others may have left some that name none."""
        return [event for event in await self.list(EVENTS) if event["involvedObject"].get("name") == name]


class ClusterWorld(ClusterUser):
    def __init__(self, faults: ServerFaults | None = None, *, seed: int = 7) -> None:
        self.clock, self.randomness, self.metrics = LoopClock(EPOCH_S), Random(seed), Metrics()
        self.store = new_store(self.randomness, EPOCH_S)
        self.story: list[str] = []
        super().__init__(LocalCluster(self.store, clock=self.clock, randomness=self.randomness))
        self.cluster = RecordingCluster(
            LocalCluster(self.store, clock=self.clock, randomness=self.randomness, faults=faults), self.story
        )
        self.recorder = EventRecorder(self.users, "csi.test_test", clock=self.clock, randomness=self.randomness)

    @property
    def runtime(self) -> Runtime:
        """For the part under test."""
        return Runtime(self.cluster, self.clock, self.randomness, self.metrics)

    # -- objects

    async def create(self, *bodies: Mapping[str, Any]) -> Json:
        """Also their status, and their namespace where that is missing. The last of them."""
        made: Json = {}
        for body in bodies:
            await self.make_namespace(namespace_of(body))
            made = await super().create(body)
            if {**made.get("status", {}), **(body.get("status") or {})} != made.get("status", {}):
                where = made["metadata"].get("namespace")
                made = await self.patch(
                    KINDS[body["kind"]], made["metadata"]["name"], {"status": body["status"]}, where, "status"
                )
        return made

    async def make_namespace(self, name: str) -> None:
        if name not in ("", NS):
            with contextlib.suppress(AlreadyExists):
                await self.users.create(NAMESPACES.whole(), {"metadata": {"name": name}})

    async def make_snapshot_kinds(self, definitions: Iterable[Json] = SNAPSHOT_CRDS) -> None:
        kind: Kind[Any] = Kind(
            "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
        )
        for definition in definitions:
            await self.users.create(kind, definition)

    async def events(self, name: str) -> list[tuple[str, str, str, int]]:
        """Type, reason, message and count of what was told about the object of this name."""
        await self.recorder.drain(10.0)
        found = await self.events_about(name)
        return [(event["type"], event["reason"], event["message"], event.get("count", 1)) for event in found]

    # -- running and waiting

    @contextlib.asynccontextmanager
    async def running(self, *parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """All of them at once; cancelled at the end, as by kill -9. What one of them raises is raised here."""
        tasks = [
            asyncio.create_task(part, name=f"part/{number}")
            for number, part in enumerate((*parts, self.recorder.run()))
        ]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def running_on(self, caches: Caches, work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
        """The caches, and the work once they are full."""

        async def synced() -> None:
            for informer in caches.informers:
                await informer.synced()

        async def begun() -> None:
            await synced()
            await work()

        async with self.running(*(informer.run() for informer in caches.informers), begun()):
            await synced()
            yield

    def seen(self) -> str:
        return f"story: {self.story}"

    async def settle(self, seconds: float = 0.5) -> None:
        """Lets so much time pass: enough for every event to arrive and every worker to have ended, too short for a
        back-off.
        """
        await asyncio.sleep(seconds)


class LateWatch(ServerFaults):
    """The watches of these kinds come late."""

    def __init__(self, *plurals: str, seconds: float = 1.0) -> None:
        self._plurals, self._seconds = plurals, seconds

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if kind.plural in self._plurals:
            await asyncio.sleep(self._seconds)


class HeldWatch(ServerFaults):
    """The watches of these kinds show nothing between `hold` and `let_go`, and then everything at once."""

    def __init__(self, *plurals: str) -> None:
        self._plurals, self._open = plurals, asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if kind.plural in self._plurals:
            await self._open.wait()


class SlowGets(ServerFaults):
    """Holds up each GET of a kind until `gate` is set. asked: there was one."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "get" and kind is self._kind:
            self.asked.set()
            await self.gate.wait()


class TornWatch(ServerFaults):
    """From `hold` on the watches of these kinds tell nothing, until `tear`: then they are listed again, and what came
    and went meanwhile is told by nobody. lists: the kinds that were listed.
    """

    def __init__(self, *plurals: str) -> None:
        self._plurals = plurals
        self._torn: asyncio.Event | None = None
        self.lists: list[str] = []

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list":
            self.lists.append(kind.plural)

    def hold(self) -> None:
        self._torn = asyncio.Event()

    def tear(self) -> None:
        assert self._torn is not None
        self._torn.set()
        self._torn = None

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if self._torn is not None and kind.plural in self._plurals:
            await self._torn.wait()
            raise Gone("too old resource version", reason="Expired")


def metric(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample's value, None when there is none."""
    return metrics.registry.get_sample_value(name, labels)


def without(story: list[str], *shorts: str) -> list[str]:
    return [step for step in story if step not in shorts]


def _in(kind: Kind[Any], namespace: str | None) -> str:
    if namespace is None:
        return NS if kind.namespaced else ""
    return namespace
