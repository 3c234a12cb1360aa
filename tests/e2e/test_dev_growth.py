"""Growth and snapshots in `mooring dev`: sizes that come back, a folder that is used again, and a plane without snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev.polling import until, until_any
from mooring.dev.seed_objects import claim, group_snapshot, pod, restored, snapshot
from mooring.driver.hostpath.statefile import read_state
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EVERYTHING, Cluster, Patch, PatchType
from tests.support.mooring_dev import create, dev

pytestmark = [pytest.mark.slow, pytest.mark.long]

GiB = 1 << 30
CLONE = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "books"}}


def client_of(config: Path) -> HttpCluster:
    return HttpCluster(kubeconfig.load(str(config), {}), clock=LoopClock(), randomness=Random(), user_agent="test")


def has(size: str) -> Callable[[Any], bool]:
    return lambda one: one is not None and one.status.phase == "Bound" and one.status.capacity["storage"] == size


def is_ready(one: Any) -> bool:
    return one is not None and one.status is not None and one.status.ready_to_use is True


def is_gone(one: Any) -> bool:
    return one is None


async def grow(cluster: Cluster, name: str, size: str) -> None:
    patch = Patch(PatchType.MERGE, {"spec": {"resources": {"requests": {"storage": size}}}})
    await cluster.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, "default")
    await until(cluster, PERSISTENT_VOLUME_CLAIMS, name, has(size))


async def snap(cluster: Cluster) -> None:
    await cluster.create(VOLUME_SNAPSHOTS.whole(), snapshot("shelf", "books"), "default")
    await until(cluster, VOLUME_SNAPSHOTS, "shelf", is_ready)


async def test_a_restore_and_a_clone_of_a_grown_volume_have_its_size(tmp_path: Path) -> None:
    """Less is refused, with an event; more is given."""
    with dev(tmp_path, f"--state={tmp_path / 'state'}", "--nodes=1") as (_, config):
        await create(config, claim("books", "hostpath"), pod("reader", "books"))
        async with client_of(config) as cluster:
            await until(cluster, PERSISTENT_VOLUME_CLAIMS, "books", has("1Gi"))
            await grow(cluster, "books", "3Gi")
            await snap(cluster)
            sources = {"restored": restored("shelf"), "cloned": CLONE}
            for name, source in sources.items():
                await create(config, claim(name, "hostpath", "3Gi", **source), claim(f"{name}-larger", "hostpath", "4Gi", **source))
                await create(config, claim(f"{name}-smaller", "hostpath", "2Gi", **source))
            for name in sources:
                await until(cluster, PERSISTENT_VOLUME_CLAIMS, name, has("3Gi"))
                await until(cluster, PERSISTENT_VOLUME_CLAIMS, f"{name}-larger", has("4Gi"))
                told = await until_any(cluster, EVENTS, EVERYTHING, lambda event, name=name: _is_refused(event, f"{name}-smaller"))  # type: ignore[misc]
                assert str(2 * GiB) in told.message
                assert str(3 * GiB) in told.message
                assert "Pending" == (await cluster.get(PERSISTENT_VOLUME_CLAIMS, f"{name}-smaller", "default")).status.phase
        sizes = sorted(one.capacity_bytes // GiB for one in read_state(tmp_path / "state" / "driver").volumes.values())
        assert [3, 3, 3, 4, 4] == sizes


def _is_refused(event: Any, claim_name: str) -> bool:
    return bool(event.involved_object.name == claim_name and event.reason == "ProvisioningFailed")


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


async def test_a_group_of_volumes_is_photographed_at_one_moment_and_each_can_be_restored(tmp_path: Path) -> None:
    shelf = {"shelf": "a"}
    with dev(tmp_path, f"--state={tmp_path / 'state'}", "--nodes=1") as (_, config):
        labelled = [claim(name, "hostpath") for name in ("books", "maps")]
        for one in labelled:
            one["metadata"]["labels"] = shelf
        await create(config, *labelled, claim("other", "hostpath"))
        async with client_of(config) as cluster:
            for name in ("books", "maps", "other"):
                await until(cluster, PERSISTENT_VOLUME_CLAIMS, name, has("1Gi"))
            await cluster.create(GROUP_SNAPSHOTS.whole(), group_snapshot("shelves", shelf), "default")
            await until(cluster, GROUP_SNAPSHOTS, "shelves", is_ready)
            members = (await cluster.list(VOLUME_SNAPSHOTS)).items
            assert {"books", "maps"} == {one.spec.source.persistent_volume_claim_name for one in members}
            for one in members:
                await until(cluster, VOLUME_SNAPSHOTS, one.metadata.name, is_ready)
            await create(config, claim("again", "hostpath", **restored(members[0].metadata.name)))
            await until(cluster, PERSISTENT_VOLUME_CLAIMS, "again", has("1Gi"))
            assert 2 == len(read_state(tmp_path / "state" / "driver").snapshots)
            await cluster.delete(GROUP_SNAPSHOTS, "shelves", "default")
            await until(cluster, GROUP_SNAPSHOTS, "shelves", is_gone)
            for one in members:
                await until(cluster, VOLUME_SNAPSHOTS, one.metadata.name, is_gone)
            assert () == (await cluster.list(GROUP_SNAPSHOT_CONTENTS)).items == (await cluster.list(VOLUME_SNAPSHOT_CONTENTS)).items
            assert {} == read_state(tmp_path / "state" / "driver").snapshots


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
        return csi.CreateVolumeResponse(volume={"volume_id": request.name, "capacity_bytes": request.capacity_range.required_bytes})

    async def delete_volume(self, request):
        return csi.DeleteVolumeResponse()
"""


async def test_a_driver_without_either_has_neither_and_a_line_that_says_so(tmp_path: Path) -> None:
    """Its classes do not promise growth."""
    (tmp_path / "bare.py").write_text(BARE)
    with dev(tmp_path, f"--driver={tmp_path / 'bare.py'}:Bare") as (program, config):
        for line in (
            "No resizer: the driver neither grows nor modifies volumes.",
            "No snapshot controller, no snapshotter: the driver makes no snapshots.",
        ):
            assert f"\n{line}\n" in program.output()
        async with client_of(config) as cluster:
            assert not await cluster.serves(VOLUME_SNAPSHOTS)
            assert [None, None] == [one.get("allowVolumeExpansion") for one in (await cluster.list(STORAGE_CLASSES.whole())).items]
            assert () == (await cluster.list(VOLUME_ATTRIBUTES_CLASSES)).items
        assert "resizer → API" not in program.output()
        assert "snapshotter → API" not in program.output()
