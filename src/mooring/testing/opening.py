"""Opens a cluster for a test, and closes it.

with a_cluster(driver=MyDriver) as cluster:
    cluster.claim("data").bound()
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.durability import InMemory
from mooring.apiserver.web.server import LOOPBACK, ApiServer
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.csi.driver_form import Socket
from mooring.dev.folder import mounted_in, unmount_all
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.mounts.system import ToolFailed
from mooring.mounts.targets import mounting_refusal
from mooring.testing.cluster import AsyncCluster
from mooring.testing.drivers import MakesDriver, Wanted
from mooring.testing.plane import TLS, PlaneUnderTest, Ports, running
from mooring.testing.sync import Cluster
from mooring.testing.time import Life, PlaneTime, RealTime, VirtualTime

T = TypeVar("T")

NODES = 2
SEED = 7
BY_UNSHARE: Final = "unshare --user --map-root-user --mount pytest"
"""Gives everybody a process that may mount, where the kernel lets users make user namespaces."""


class ClusterOfTest(Cluster):
    """story: what has happened so far, line by line."""

    def __init__(
        self,
        time: PlaneTime,
        life: Life[PlaneUnderTest],
        plane: PlaneUnderTest,
        story: io.StringIO,
        kubeconfig: Path | None,
    ) -> None:
        self._time, self._life, self._story = time, life, story
        super().__init__(self._during, AsyncCluster(plane), kubeconfig)

    def _during(self, work: Coroutine[Any, Any, T]) -> T:
        return self._time.run(self._life.during(work))

    @property
    def story(self) -> str:
        return self._story.getvalue()


@contextlib.contextmanager
def a_cluster(
    driver: MakesDriver | str = "",
    *,
    options: Mapping[str, Any] | None = None,
    nodes: int | Sequence[str] = NODES,
    mounts: bool = False,
    serves: bool = False,
    seed: int | None = SEED,
) -> Iterator[ClusterOfTest]:
    """The cluster lasts as long as the block.

    driver: a class; a function of a node's name; the words of `mooring dev --driver`; "" for the reference driver.
    options: arguments of a class. nodes: their number or names. mounts: the driver really mounts, in the mount
    namespace of this process, and is judged by it. serves: clients are answered over TLS. seed: of everything that is
    drawn, the order of what is ready in virtual time included; None keeps asyncio's.
    Raises ConfigError for a driver that can't be used, and for mounts where this process may not mount.
    """
    names = [f"n{number}" for number in range(1, nodes + 1)] if isinstance(nodes, int) else nodes
    wanted = Wanted(driver, options or {}, names, mounts)
    if isinstance(wanted.form, Socket) and len(names) > 1:
        raise ConfigError(
            f"driver: one socket is one node's, for {wanted.form}: mark the test with "
            "@pytest.mark.mooring_cluster(nodes=1)"
        )
    if mounts:
        _check_mounts()
    folder = Path(tempfile.mkdtemp(prefix="mooring-"))  # a short path: sockets may be in it
    time: PlaneTime = RealTime() if serves or wanted.is_elsewhere else VirtualTime(seed)
    try:
        story = io.StringIO()
        life = Life(_plane(wanted, folder, time, story, Random(seed), serves=serves))
        plane = time.begin(life.begin())
        try:
            yield ClusterOfTest(time, life, plane, story, folder / "kubeconfig" if serves else None)
        finally:
            time.run(life.end())
    finally:
        time.close()
        _remove(folder)


def _check_mounts() -> None:
    """Raises ConfigError where this process may not mount."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as trial:
        try:
            refusal = mounting_refusal(Path(trial))
        except (OSError, ToolFailed) as error:
            refusal = str(error)
    if refusal:
        raise ConfigError(f"mounts: this process may not mount ({refusal}): run it as root, or by {BY_UNSHARE}")


def _remove(folder: Path) -> None:
    """Never with what is mounted in it: what is still mounted after all, and that folder, stay."""
    unmount_all(folder)
    if not tuple(mounted_in(folder)):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _plane(
    wanted: Wanted, folder: Path, time: PlaneTime, story: io.StringIO, randomness: Random, *, serves: bool
) -> AsyncGenerator[PlaneUnderTest, None]:
    clock = time.clock
    stay, drivers_s = (
        (time.loop.stay, time.loop.real_s) if isinstance(time, RealTime) else (_nobody_needs_it, clock.now)
    )
    ports = Ports(folder, clock, randomness, Story(PlainScreen(story), clock), stay, drivers_s)
    async with running(wanted, ports) as plane:
        if isinstance(time, RealTime):
            time.loop.busy = lambda: plane.calls.is_busy
        if serves:
            async with _served(plane, time):
                yield plane
        else:  # a store has one housekeeping, and a server brings it
            with contextlib.closing(Housekeeping(plane.store, clock=clock)) as housekeeping:
                housekeeping.start()
                yield plane


def _nobody_needs_it(_: float) -> None:
    """In virtual time nobody is outside."""


@contextlib.asynccontextmanager
async def _served(plane: PlaneUnderTest, time: PlaneTime) -> AsyncGenerator[None, None]:
    from mooring.apiserver.identity.tls import identity_in  # noqa: PLC0415 (here, so that a plane without TLS needs no cryptography)

    ports = plane.ports
    identity = identity_in(ports.folder / TLS, ports.clock.wall_s())
    server = ApiServer(
        plane.store,
        identity,
        clock=ports.clock,
        randomness=ports.randomness,
        address=(LOOPBACK, 0),
        durability=InMemory(plane.store),
    )
    await server.start()
    if isinstance(time, RealTime):
        time.loop.accompanied = lambda: server.connection_count > 0
    try:
        server.write_kubeconfig(ports.folder / "kubeconfig")
        yield
    finally:
        await server.close()
