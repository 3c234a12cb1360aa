"""Where end-to-end tests run: one body, on three roads to an API server and a driver.

    @on_every_target
    async def test_something(target: Target) -> None:
        async with target.attaching("--timeout=5s"):
            ...

| target | API server | attacher | driver | time |
|---|---|---|---|---|
| in-process | the embedded server's store | the sidecar's life in this process | in this process | virtual |
| embedded | the embedded server, HTTP, TLS, a token | `csi-attacher`, a process | on a unix socket | real |
| real | kube-apiserver | `csi-attacher`, a process | on a unix socket | real |
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUMES, SECRETS
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.base.clock import Clock
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError, NotFound
from tests.support.builders import a_csi_node, a_held_pv, a_secret, a_va, namespace_of
from tests.support.scripted_driver import UNPUBLISH, ScriptedDriver
from tests.support.virtual_loop import run_virtual

T = TypeVar("T")
Json = dict[str, Any]

_TYPED: Final[tuple[Kind[Any], ...]] = (
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
    CSI_NODES,
    CSI_DRIVERS,
    SECRETS,
    NODES,
    NAMESPACES,
    EVENTS,
    LEASES,
)
KINDS: Final[Mapping[str, Kind[Json]]] = {
    **{kind.name: kind.whole() for kind in _TYPED},
    "Pod": Kind("", "v1", "Pod", "pods", True, dict),
    "PersistentVolumeClaim": Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict),
}


class Target(abc.ABC):
    """users: acts as everybody but the attacher. suffix: what makes this test's names its own. wait_s: for what must
    come.
    """

    def __init__(self, users: Cluster, driver: ScriptedDriver, clock: Clock, suffix: str, wait_s: float) -> None:
        self.users = users
        self.driver = driver
        self.clock = clock
        self.suffix = suffix
        self.wait_s = wait_s
        self.running: Running | None = None
        self._created: list[tuple[str, str, str]] = []

    # -- the attacher and the driver

    @abc.abstractmethod
    def attaching(self, *flags: str) -> AbstractAsyncContextManager[Running]:
        """An attacher that runs for the block, and is then killed if it did not end by itself."""

    @abc.abstractmethod
    async def stop_driver(self) -> None:
        """Breaks its connections; nobody answers at its socket any more."""

    @abc.abstractmethod
    async def start_driver(self) -> None:
        """It answers again, with the memory it had."""

    @property
    def finalizer(self) -> str:
        return "external-attacher/" + re.sub("[^a-zA-Z0-9-]", "-", self.driver.name)

    # -- objects

    def name(self, base: str) -> str:
        return f"{base}-{self.suffix}"

    def handle(self, pv: str) -> str:
        return f"handle-of-{pv}"

    def node_id(self, node: str) -> str:
        return f"id-of-{node}"

    async def create(self, body: Mapping[str, Any]) -> str:
        """Gives the object's name."""
        name, namespace = body["metadata"]["name"], namespace_of(body)
        self._created.append((body["kind"], name, namespace))
        await self.users.create(KINDS[body["kind"]], body, namespace)
        return str(name)

    async def volume(self, base: str = "pv", **how: Any) -> str:
        """A PersistentVolume of the driver; how: as for `a_pv`."""
        name = self.name(base)
        how = {"finalizers": None, "driver": self.driver.name, **how}
        return await self.create(a_held_pv(name, how.pop("handle", self.handle(name)), **how))

    async def node(self, base: str = "node") -> str:
        """A node with the driver's plugin, as its CSINode shows."""
        name = self.name(base)
        return await self.create(a_csi_node(name, {self.driver.name: self.node_id(name)}))

    async def secret(self, data: Mapping[str, str], base: str = "secret") -> str:
        """data: base64 text per key."""
        return await self.create(a_secret(self.name(base), data))

    async def want(self, pv: str | None, node: str, **how: Any) -> str:
        """A VolumeAttachment; how: as for `a_va`."""
        name = f"{pv or self.name('inline')}.{node}"[:253].rstrip(".-")
        return await self.create(a_va(name, pv, node, **{"attacher": self.driver.name, **how}))

    async def delete(self, kind: str, name: str, namespace: str = "", grace_s: int | None = None) -> None:
        await self.users.delete(KINDS[kind], name, namespace, grace_period_s=grace_s)

    async def patch(
        self, kind: str, name: str, body: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> None:
        await self.users.patch(KINDS[kind], name, Patch(PatchType.MERGE, body), namespace, subresource=subresource)

    async def find(self, kind: str, name: str, namespace: str = "") -> Json | None:
        try:
            return await self.users.get(KINDS[kind], name, namespace)
        except NotFound:
            return None

    async def get(self, kind: str, name: str, namespace: str = "") -> Json:
        found = await self.find(kind, name, namespace)
        assert found is not None, f"{kind} {name} is gone"
        return found

    # -- waiting

    async def until(self, what: str, check: Callable[[], Awaitable[T | None]]) -> T:
        """The first truthy answer. Raises AssertionError naming `what` when there is none in time."""
        deadline = self.clock.now() + self.wait_s
        while not (found := await check()):
            if self.running is not None:
                self.running.assert_alive()
            assert self.clock.now() < deadline, f"not within {self.wait_s:g} s: {what}\n{self.story()}"
            await self.clock.sleep(0.02)
        return found

    async def until_status(self, va: str, check: Callable[[Json], Any], what: str) -> Json:
        """The attachment, once its status is as wanted."""

        async def holds() -> Json | None:
            found = await self.get("VolumeAttachment", va)
            return found if check(found.get("status", {})) else None

        return await self.until(f"{va} {what}", holds)

    async def attached(self, va: str) -> Json:
        return await self.until_status(va, lambda status: status.get("attached"), "is attached")

    async def error(self, va: str, field: str = "attachError") -> Json:
        found = await self.until_status(va, lambda status: status.get(field), f"has an {field}")
        error: Json = found["status"][field]
        return error

    async def gone(self, kind: str, name: str) -> None:
        async def is_gone() -> bool:
            return await self.find(kind, name) is None

        await self.until(f"{kind} {name} is gone", is_gone)

    async def asked(self, method: str, count: int = 1) -> None:
        """The driver has been called so often."""

        async def called() -> bool:
            return len(self.driver.made(method)) >= count

        await self.until(f"{count} calls of {method}", called)

    async def detached(self, va: str) -> None:
        """Deletes the attachment and waits for its end."""
        await self.delete("VolumeAttachment", va)
        await self.gone("VolumeAttachment", va)

    # -- judging

    def where(self, pv: str) -> set[str]:
        """Node ids that the volume is published on, as the driver has it."""
        return self.driver.published.get(self.handle(pv), set())

    def left_over(self) -> dict[str, set[str]]:
        """All that is published."""
        return {handle: nodes for handle, nodes in self.driver.published.items() if nodes}

    def story(self) -> str:
        return f"calls: {[(call.method, call.code) for call in self.driver.calls]}"

    def unpublished(self) -> int:
        return len(self.driver.made(UNPUBLISH))

    async def clean_up(self) -> None:
        """Removes what the test made, finalizers or not."""
        for kind, name, namespace in reversed(self._created):
            with contextlib.suppress(ApiError):
                drop = Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
                await self.users.patch(KINDS[kind], name, drop, namespace)
                await self.users.delete(KINDS[kind], name, namespace, grace_period_s=0)


class Running(abc.ABC):
    """An attacher that runs."""

    @abc.abstractmethod
    async def kill(self) -> None:
        """kill -9."""

    @abc.abstractmethod
    async def end(self) -> None:
        """SIGTERM, and waits for an end in good order."""

    @abc.abstractmethod
    def assert_alive(self) -> None: ...


Body = Callable[..., Coroutine[Any, Any, None]]
_Maker = Callable[[Path, pytest.FixtureRequest], AbstractAsyncContextManager[Target]]


def _places() -> dict[str, _Maker]:
    from tests.e2e import in_process, processes  # they build on this module

    return {
        IN_PROCESS: lambda folder, request: in_process.target(),
        "embedded": lambda folder, request: processes.on_embedded(folder),
        "real": lambda folder, request: processes.on_real(folder, request.getfixturevalue("control_plane")),
    }


IN_PROCESS: Final = "in-process"
_SEEDS: Final = (None, 7)
"""Of the loop in process: as things come, and in another order."""

_PLACES: Final = [
    IN_PROCESS,
    pytest.param("embedded", marks=pytest.mark.slow),
    pytest.param("real", marks=[pytest.mark.slow, pytest.mark.real]),
]


def on_every_target(body: Body) -> Callable[..., None]:
    """Makes a test for each target of a coroutine function whose first parameter is the target."""

    @functools.wraps(body)
    def test(
        place: str, request: pytest.FixtureRequest, tmp_path: Path, subtests: pytest.Subtests, **parameters: Any
    ) -> None:
        make = _places()[place]

        async def run() -> None:
            making = make(tmp_path, request)
            async with asyncio.timeout(None if place == IN_PROCESS else 120), making as target:
                await body(target, **parameters)

        if place != IN_PROCESS:
            asyncio.run(run())
            return
        for seed in _SEEDS:
            with subtests.test(seed=seed):
                run_virtual(run(), seed)

    names = ("place", "request", "tmp_path", "subtests")
    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    test.__signature__ = inspect.Signature([*own, *list(inspect.signature(body).parameters.values())[1:]])  # type: ignore[attr-defined]
    marked: Callable[..., None] = pytest.mark.parametrize("place", _PLACES)(test)
    return marked
