"""Several who view one plane."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from mooring.api.core import NODES
from mooring.base.clock import Clock, LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.dev.live.board import Board
from mooring.dev.live.model import Model
from mooring.dev.live.watching import Viewer, viewed
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster


class Eye:
    """Counts what it was told, and keeps the board while it may look."""

    def __init__(self) -> None:
        self.changes = 0
        self.board: Callable[[], Board] | None = None

    def changed(self) -> None:
        self.changes += 1

    @contextlib.asynccontextmanager
    async def viewing(self, board: Callable[[], Board], _clock: Clock) -> AsyncGenerator[None, None]:
        self.board = board
        yield
        self.board = None


@in_virtual_time
async def test_all_who_view_a_plane_share_one_model_and_one_watch() -> None:
    cluster, eyes = FakeCluster(), (Eye(), Eye())
    runtime = Runtime(cluster, LoopClock(), Random(1), Metrics())
    model = Model(*(eye.changed for eye in eyes))
    async with viewed(eyes, model, runtime, snapshots=False):
        before = eyes[0].changes
        cluster.put(NODES, "n1")
        await asyncio.sleep(1)
        assert 7 == cluster.watching, "of each kind one"
        for eye in eyes:
            assert eye.board is not None
            assert ["n1"] == [node.name for node in eye.board().nodes]
            assert eye.changes > before
        model.lost("n1")
        assert eyes[0].changes == eyes[1].changes
    assert [None, None] == [eye.board for eye in eyes]


@in_virtual_time
async def test_for_nobody_nothing_is_watched() -> None:
    cluster = FakeCluster()
    nobody: tuple[Viewer, ...] = ()
    async with viewed(nobody, Model(), Runtime(cluster, LoopClock(), Random(1), Metrics()), snapshots=False):
        await asyncio.sleep(1)
        assert 0 == cluster.watching
