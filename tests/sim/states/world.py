"""One small world: a store that begins with the objects of a state, the line of a controller to it, and all that it
does and says.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import io
import json
import re
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS
from mooring.api.meta import Key, Kind
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import StoredChange
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.result import Because
from mooring.control.runtime import Runtime
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError
from tests.sim.line import what_of
from tests.support.builders import KINDS, Json, namespace_of
from tests.support.scripted_driver import ScriptedDriver
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.virtual_loop import run_virtual

T = TypeVar("T")
EPOCH_S: Final = 1_780_000_000.0
BORN: Final = "2026-01-01T00:00:00Z"
_WITH_ERRORS: Final = tuple(kind for kind in KINDS.values() if kind.name.startswith(("Volume", "Persistent")))
_READS: Final = (Verb.GET, Verb.LIST, Verb.SERVES)


@dataclasses.dataclass(slots=True)
class Deed:
    """A request or a call. what: with its object. error: None for one that worked. changed: the store is another
    since.
    """

    at_s: float
    what: str
    error: str | None = None
    changed: bool = False
    writes: bool = True


class TickingClock(LoopClock):
    """No two looks at it show the same moment: Events are named by theirs, and those of several sources must not share
    a name.
    """

    def __init__(self) -> None:
        super().__init__(EPOCH_S)
        self._looks_count = 0

    def wall_s(self) -> float:
        self._looks_count += 1
        return super().wall_s() + self._looks_count * 1e-6


class StateWorld:
    """bodies: what stands in the store, as the builders make it. driver: kind, unless the room lets it say no.
    page_max: of lists.

    deeds: what the controllers have done so far. broken: laws that were broken on the way. reasons: the last one by
    controller and key.
    """

    def __init__(self, bodies: Iterable[Json], driver: ScriptedDriver, *, page_max: int = 500) -> None:
        self.clock, self.randomness, self.metrics = TickingClock(), Random(7), Metrics()
        self.store = a_store(bodies)
        self.users = LocalCluster(self.store, clock=self.clock, randomness=self.randomness)
        self.cluster = _Line(self, self.users, page_max)
        self.driver = driver
        self.deeds: list[Deed] = []
        self.log = _Lines()
        self.broken: list[tuple[str, str]] = []
        self.parts: list[asyncio.Task[Any]] = []
        self.laws: list[Callable[[Resource, StoredChange], None]] = []
        self.writing = False
        self.reasons: dict[tuple[str, str], Because] = {}
        self.store.on_change(self._changed)

    @property
    def runtime(self) -> Runtime:
        return Runtime(self.cluster, self.clock, self.randomness, self.metrics, self._explained)

    def _explained(self, controller: str, key: Hashable, because: Because) -> None:
        self.reasons[controller, str(key)] = because

    def recorder(self, component: str) -> EventRecorder:
        return EventRecorder(self.cluster, component, clock=self.clock, randomness=self.randomness)

    def fail(self, law: str, what: str) -> None:
        self.broken.append((law, what))

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        if self.writing:
            for law in self.laws:
                law(resource, change)

    # -- what there is

    def all(self, kind: Kind[Any]) -> list[Json]:
        resource = self.store.resource(kind.group, kind.version, kind.plural)
        return [] if resource is None else [stored.whole() for stored in self.store.table(resource).items()]

    def find(self, kind: Kind[Any], name: str) -> Json | None:
        return next((one for one in self.all(kind) if one["metadata"]["name"] == name), None)

    def objects(self) -> dict[str, str]:
        """Each object by kind and name, as it is apart from its version, and from what is told of it; without Leases,
        which are renewed.
        """
        found: dict[str, str] = {}
        for kind in (kind for kind in KINDS.values() if kind not in (EVENTS, LEASES)):
            for one in self.all(kind):
                meta = {
                    key: value
                    for key, value in one["metadata"].items()
                    if key not in ("resourceVersion", "managedFields") and value
                }
                found[f"{kind.plural} {meta['name']}"] = json.dumps([meta, one.get("spec")], sort_keys=True)
        return found

    def told(self, name: str) -> list[str]:
        """Everything that was told about the object of this name: events, its own status, lines of the log."""
        events = [event["message"] for event in self.all(EVENTS) if event["involvedObject"]["name"] == name]
        named = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
        return [*events, *filter(named.search, self.log.lines), *self._said(name)]

    def errors(self) -> Iterator[str]:
        """The errors that stand in a status, and the Warnings that are still there."""
        yield from (event["message"] for event in self.all(EVENTS) if event["type"] == "Warning")
        for kind in _WITH_ERRORS:
            for found in self.all(kind):
                yield from _messages(
                    {
                        key: value
                        for key, value in (found.get("status") or {}).items()
                        if "rror" in key or key == "conditions"
                    }
                )

    def _said(self, name: str) -> Iterator[str]:
        for kind in KINDS.values():
            if (found := self.find(kind, name)) is not None and kind is not EVENTS:
                yield from _messages(found.get("status"))


class _Lines(io.StringIO):
    """The log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line.partition("] ")[2].strip() or line.strip())  # without time and process id
        return len(line)


class _Line(Cluster):
    """The API server of a controller, which writes down what is asked of it."""

    def __init__(self, world: StateWorld, cluster: LocalCluster, page_max: int) -> None:
        self._world, self._cluster, self._page_max = world, cluster, page_max

    async def ask(self, request: Request) -> Any:
        world, writes = self._world, request.verb not in _READS
        named = request.name or (request.body["metadata"].get("name", "") if isinstance(request.body, dict) else "")
        deed = Deed(world.clock.now(), f"{what_of(request)} {named if not request.name else ''}".strip(), writes=writes)
        world.deeds.append(deed)
        await world.clock.sleep(0)
        if request.verb is Verb.LIST and request.limit > self._page_max:
            request = msgspec.structs.replace(request, limit=self._page_max)
        version, world.writing = world.store.version, True
        try:
            return await self._cluster.ask(request)
        except ApiError as error:
            deed.error = str(error)
            raise
        finally:
            world.writing = False
            deed.changed = writes and world.store.version != version

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)


def _messages(status: Any) -> Iterator[str]:
    """The texts for people in a status."""
    if isinstance(status, dict):
        for key, value in status.items():
            if key == "message" and value:
                yield str(value)
            else:
                yield from _messages(value)
    elif isinstance(status, list):
        for one in status:
            yield from _messages(one)


# -- stores that begin somewhere


@functools.cache
def template() -> ObjectStore:
    """Every kind, those of snapshots too. Its rules are constant, so all worlds share them; its objects stay its
    own.
    """

    async def made() -> ObjectStore:
        clock, randomness = LoopClock(EPOCH_S), Random(1)
        store = new_store(randomness, EPOCH_S)
        cluster = LocalCluster(store, clock=clock, randomness=randomness)
        kind: Kind[Any] = Kind(
            "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
        )
        for definition in (*SNAPSHOT_CRDS, *GROUP_CRDS):
            await cluster.create(kind, definition)
        await asyncio.sleep(60.0)
        return store

    return run_virtual(made())


def a_store(bodies: Iterable[Json]) -> ObjectStore:
    """A store with these objects, as if it had been restored from a backup: they have no history."""
    rules = template()
    store = ObjectStore(rules.resources, Random(3))
    resources = {resource.kind: resource for resource in rules.resources}
    namespaces = [stored.whole() for stored in rules.table(resources["Namespace"]).items()]
    objects = [*namespaces, *map(_settled, bodies)]
    store.begin(len(objects) + 1)
    for version, body in enumerate(objects, 2):
        meta = body["metadata"]
        meta["resourceVersion"] = str(version)
        key = Key(meta.get("namespace", ""), meta["name"])
        store.load_object(resources[body["kind"]], key, version, EPOCH_S, msgspec.json.encode(body), remembered=False)
    store.finish_loading(len(objects) + 1)
    return store


def _settled(body: Json) -> Json:
    """The object as a server shows it: with its defaults, and then whatever a life may have left of it."""
    return copy.deepcopy(_settled_once(json.dumps(body)))


@functools.cache
def _settled_once(text: str) -> Json:
    body = json.loads(text)
    rules = template()
    resource = rules.resource(KINDS[body["kind"]].group, KINDS[body["kind"]].version, KINDS[body["kind"]].plural)
    assert resource is not None
    meta = body["metadata"]
    fresh = {**body, "metadata": {key: value for key, value in meta.items() if key not in ("deletionTimestamp", "uid")}}
    decoded, _ = decode_object(resource, fresh, FieldValidation.STRICT, [])
    made = rules.create(resource, decoded, namespace_of(body), EPOCH_S, dry_run=True).stored.whole()
    uid = meta.get("uid", f"uid-{meta['name']}")
    made = json.loads(json.dumps(made).replace(made["metadata"]["uid"], uid))  # (a Job says it in its selector, too)
    made["metadata"]["creationTimestamp"] = meta.get("creationTimestamp", BORN)
    made["metadata"].pop("managedFields", None)
    for field in ("finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"):
        made["metadata"].pop(field, None)
        if meta.get(field) is not None:
            made["metadata"][field] = meta[field]
    ref = body.get("spec", {}).get("dataSourceRef") or {}
    if "namespace" in ref:
        made["spec"]["dataSourceRef"] = dict(
            ref
        )  # a server with the gate CrossNamespaceVolumeDataSource has kept it, ours takes it out
    if body.get("status") is not None:
        made["status"] = body["status"]
    return {"apiVersion": body["apiVersion"], **made, "kind": body["kind"]}
