"""Growth and snapshots in `mooring dev`: sizes that come back, a folder that is used again, and a plane without
snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev.polling import until
from mooring.dev.seed_objects import claim, pod, snapshot
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Cluster, Patch, PatchType
from tests.support.mooring_dev import create, dev

pytestmark = [pytest.mark.slow, pytest.mark.long]


def client_of(config: Path) -> HttpCluster:
    return HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="test")


def has(size: str) -> Callable[[Any], bool]:
    return lambda one: one is not None and one.status.phase == "Bound" and one.status.capacity["storage"] == size


def is_ready(one: Any) -> bool:
    return one is not None and one.status is not None and one.status.ready_to_use is True


def is_gone(one: Any) -> bool:
    return one is None


async def snap(cluster: Cluster) -> None:
    await cluster.create(VOLUME_SNAPSHOTS.whole(), snapshot("shelf", "books"), "default")
    await until(cluster, VOLUME_SNAPSHOTS, "shelf", is_ready)


async def test_a_folder_that_is_used_again_has_its_snapshots_and_the_growth_goes_on(tmp_path: Path) -> None:
    """What was asked for while nobody was there, too."""
    state = f"--state={tmp_path / 'state'}"
    with dev(tmp_path, state, "--nodes=1") as (_, config):
        await create(config, claim("books", "hostpath"))
        async with client_of(config) as cluster:
            await until(cluster, PERSISTENT_VOLUME_CLAIMS, "books", has("1Gi"))
            await snap(cluster)
    with dev(tmp_path, state, "--nodes=1", "--snapshots=false") as (program, config):
        assert "No snapshot controller, no snapshotter: --snapshots=false." in program.output()
        async with client_of(config) as cluster:
            assert is_ready(await cluster.get(VOLUME_SNAPSHOTS, "shelf", "default")), "objects and kinds stay"
            await cluster.delete(VOLUME_SNAPSHOTS, "shelf", "default")
            assert not is_gone(await cluster.get(VOLUME_SNAPSHOTS, "shelf", "default")), "nobody takes care of it"
    with dev(tmp_path, state, "--nodes=1") as (program, config):
        assert "customresourcedefinitions" not in program.output(), "the kinds are as they were"
        async with client_of(config) as cluster:
            await until(cluster, VOLUME_SNAPSHOTS, "shelf", is_gone)
            assert () == (await cluster.list(VOLUME_SNAPSHOT_CONTENTS)).items
            patch = Patch(PatchType.MERGE, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
            await cluster.patch(PERSISTENT_VOLUME_CLAIMS, "books", patch, "default")
            await create(config, pod("reader", "books"))
            await until(cluster, PERSISTENT_VOLUME_CLAIMS, "books", has("2Gi"))


async def test_a_plane_without_snapshots_has_not_their_kinds(tmp_path: Path) -> None:
    with dev(tmp_path, "--nodes=1", "--snapshots=false") as (program, config):
        async with client_of(config) as cluster:
            assert not await cluster.serves(VOLUME_SNAPSHOTS)
        assert "--examples --snapshots=false" in program.output()


BARE = """
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.sdk import Plugin


class Bare(Plugin):
    name = "bare.csi.test"

    async def create_volume(self, request):
        size = request.capacity_range.required_bytes
        return csi.CreateVolumeResponse(volume={"volume_id": request.name, "capacity_bytes": size})

    async def delete_volume(self, request):
        return csi.DeleteVolumeResponse()
"""


def test_a_driver_without_either_gets_a_line_that_says_so(tmp_path: Path) -> None:
    """What such a plane has and lacks: tests/unit/testing/test_growth_and_copies.py."""
    (tmp_path / "bare.py").write_text(BARE)
    with dev(tmp_path, f"--driver={tmp_path / 'bare.py'}:Bare") as (program, _):
        for line in (
            "No resizer: the driver neither grows nor modifies volumes.",
            "No snapshot controller, no snapshotter: the driver makes no snapshots.",
        ):
            assert f"\n{line}\n" in program.output()
        assert "resizer → API" not in program.output()
        assert "snapshotter → API" not in program.output()
