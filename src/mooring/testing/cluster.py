"""The cluster of a test, for coroutines: everything that a test may do in it, and wait for."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from mooring.api.core import EVENTS
from mooring.api.meta import Key, Kind
from mooring.apiserver.bodies.yamlbody import parse_yaml
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.conform.book.rule import Breach
from mooring.control.runtime import Runtime
from mooring.dev import seed_objects
from mooring.inspect.objects import ALIASES, NAMESPACED
from mooring.kube.cluster import Selection
from mooring.testing.driver_calls import DriverCall, check_name
from mooring.testing.faults import Faults
from mooring.testing.objects import ApiObject, AsyncClaim, AsyncNode, AsyncPod, AsyncSnapshot, Json
from mooring.testing.plane import PlaneUnderTest
from mooring.testing.waiting import WAIT_S, Waiting

A = TypeVar("A", bound=ApiObject)

NAMESPACE: Final = "default"


class AsyncCluster:
    """A namespace that is not given is `default`."""

    def __init__(self, plane: PlaneUnderTest) -> None:
        self.plane = plane
        self.faults = Faults(plane.calls, plane.api, self.run)
        self.allowed_breaches: set[str] = set()
        self.waiting = Waiting(plane.users, plane.ports.clock, plane.ports.stay)

    # -- objects

    async def claim(
        self, name: str, size: str = "1Gi", *, storage_class: str = "", namespace: str = NAMESPACE, **spec: Any
    ) -> AsyncClaim:
        """Makes a PersistentVolumeClaim, of the driver's own class if no other is named. spec: more fields, as
        Kubernetes calls them.
        """
        body = seed_objects.claim(name, storage_class or self.storage_class, size, **spec)
        return await self._made(AsyncClaim, body, namespace)

    async def pod(self, name: str, *claims: str, node: str = "", namespace: str = NAMESPACE, **spec: Any) -> AsyncPod:
        """Makes a pod whose one container uses these claims. node: where it runs; "" lets the scheduler choose."""
        mounts = [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        given = {"nodeName": node} if node else {}
        containers = [{"name": "main", "image": "none", "volumeMounts": mounts}]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        return await self._made(
            AsyncPod, {**body, "spec": {"containers": containers, "volumes": volumes, **given, **spec}}, namespace
        )

    async def snapshot(self, name: str, claim: str, namespace: str = NAMESPACE) -> AsyncSnapshot:
        """Makes a VolumeSnapshot of a claim's volume. Raises NotFound for a driver that makes none."""
        return await self._made(AsyncSnapshot, seed_objects.snapshot(name, claim), namespace)

    def claim_named(self, name: str, namespace: str = NAMESPACE) -> AsyncClaim:
        """One that somebody else makes, or has made."""
        return AsyncClaim(self.plane, self.waiting, Key(namespace, name))

    def pod_named(self, name: str, namespace: str = NAMESPACE) -> AsyncPod:
        """One that somebody else makes, or has made."""
        return AsyncPod(self.plane, self.waiting, Key(namespace, name))

    def node(self, name: str) -> AsyncNode:
        """Raises ConfigError for a node that is not there."""
        if name not in self.plane.nodes:
            there = (
                f"only {', '.join(self.plane.nodes)}" if self.plane.nodes else "since the driver has no node service"
            )
            raise ConfigError(f"there is no node {name!r} here, {there}")
        return AsyncNode(self.plane, self.waiting, Key("", name))

    @property
    def nodes(self) -> tuple[AsyncNode, ...]:
        return tuple(self.node(name) for name in self.plane.nodes)

    @property
    def storage_class(self) -> str:
        """The name of the driver's class. Its volumes are made at once; those of the same name with `-wait` for their
        first pod.
        """
        return seed_objects.class_name(reference=self.plane.driver.is_reference)

    async def create(self, body: Mapping[str, Any] | str, namespace: str = NAMESPACE) -> Json:
        """Makes any object, from a mapping or as YAML."""
        given = parse_yaml(body.encode()) if isinstance(body, str) else body
        kind = self._kind(
            lambda one: (one.api_version, one.name) == (given.get("apiVersion"), given.get("kind")),
            str(given.get("kind")),
        )
        where = str((given.get("metadata") or {}).get("namespace") or namespace) if kind.namespaced else ""
        made: Json = await self.plane.users.create(kind, given, where)
        return made

    async def objects(self, plural: str, namespace: str | None = None) -> list[Json]:
        """All objects of a kind, as in `volumeattachments`. namespace: None for all."""
        kind = self._kind(lambda one: one.plural == plural, plural)
        return list((await self.plane.users.list(kind, Selection(namespace=namespace))).items)

    async def delete(self, plural: str, name: str, namespace: str = NAMESPACE) -> None:
        """Asks for the deletion of any object. Raises ConfigError for a kind that is not served, NotFound."""
        kind = self._kind(lambda one: one.plural == plural, plural)
        await self.plane.users.delete(kind, name, namespace if kind.namespaced else "")

    def _kind(self, is_meant: Callable[[Kind[Any]], bool], word: str) -> Kind[Json]:
        """Raises ConfigError."""
        served = [
            Kind(one.group, one.version, one.kind, one.plural, one.namespaced, dict)
            for one in self.plane.store.resources
        ]
        for kind in served:
            if is_meant(kind):
                return kind
        near = difflib.get_close_matches(word, [name for kind in served for name in (kind.plural, kind.name)], n=1)
        raise ConfigError(f"the API server serves no {word!r}" + (f": did you mean {near[0]}?" if near else ""))

    async def _made(self, one: type[A], body: Json, namespace: str) -> A:
        await self.plane.users.create(one.kind.whole(), body, namespace)
        return one(self.plane, self.waiting, Key(namespace, body["metadata"]["name"]))

    # -- time

    async def passes(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """So much of the cluster's time passes."""
        await self.plane.ports.clock.sleep(hours * 3600 + minutes * 60 + seconds)

    async def until(self, check: Callable[[], Awaitable[Any]], what: str, wait_s: float = WAIT_S) -> Any:
        """The first truthy answer of the check. what: is waited for, in the words of the failure. Raises NotYet."""
        return await self.waiting.until(check, what, wait_s=wait_s)

    # -- programs

    @property
    def controllers(self) -> tuple[str, ...]:
        """The names of the controllers that run here."""
        return self.plane.controllers.names

    async def kill(self, controller: str) -> None:
        """Ends a controller in the middle of its work, as kill -9 does. Raises ConfigError for one that is not here."""
        await self.plane.controllers.kill(controller)

    async def start(self, controller: str) -> None:
        """Starts a killed one; it knows nothing but what the API server and the driver tell. Raises ConfigError."""
        await self.plane.controllers.start(controller)

    async def pause(self, controller: str) -> None:
        """Lets a controller stand still, as after SIGSTOP: it asks nobody, and learns neither answers nor changes.
        Raises ConfigError.
        """
        self.plane.controllers.pause(controller)

    async def resume(self, controller: str) -> None:
        """A paused one goes on. Raises ConfigError for one that is not here."""
        self.plane.controllers.resume(controller)

    async def restart(self, controller: str) -> None:
        """Raises ConfigError for one that is not here."""
        await self.kill(controller)
        await self.start(controller)

    async def restart_driver(self) -> None:
        """All processes of the driver end, in the middle of their calls, and start anew. A class gets new objects."""
        await self.plane.driver.restart()

    def run(self, work: Coroutine[Any, Any, None], name: str = "a program") -> None:
        """Runs a program of the test's own beside the plane's, on the plane's time, until the end."""
        self.plane.group.create_task(work, name=f"testing/{name}")

    def runtime(self, who: str = "own") -> Runtime:
        """The ports of a controller of one's own, written with `mooring.control`. who: its name, for `faults`."""
        ports = self.plane.ports
        return Runtime(self.plane.cluster(who), ports.clock, ports.randomness, Metrics())

    # -- what was done

    def calls(self, rpc: str | None = None, *, on: str | None = None) -> Sequence[DriverCall]:
        """The calls to the driver so far, in the order of their ends. on: a node's, "" for the controller's. Raises
        ConfigError.
        """
        if rpc is not None:
            check_name(rpc)
        return [call for call in self.plane.calls.made if rpc in (None, call.rpc) and on in (None, call.where)]

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of each Event about the objects of this name."""
        found = (await self.plane.users.list(EVENTS.whole(), Selection())).items
        return [(one["reason"], one["message"]) for one in found if one["involvedObject"]["name"] == name]

    async def why(self, kind: str, name: str, namespace: str = NAMESPACE) -> str:
        """Why an object is stuck, as `mooring why` says it. kind: as kubectl has it. Raises ConfigError."""
        known = ALIASES.get(kind.lower())
        if known is None:
            raise ConfigError(
                f"{kind!r} is no kind that `why` knows; it knows {', '.join(dict.fromkeys(ALIASES.values()))}"
            )
        return await self.waiting.why(known, Key(namespace if known in NAMESPACED else "", name))

    def allow_breaches(self, *numbers: str) -> None:
        """Rules of CSI that the driver may break without failing the test, by their numbers in the book."""
        self.allowed_breaches.update(numbers)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The rules of CSI that the driver has broken and may not. A warning is none."""
        found = (one for one in self.plane.calls.breaches if not one.rule.is_warning)
        return tuple(one for one in found if one.rule.number not in self.allowed_breaches)
