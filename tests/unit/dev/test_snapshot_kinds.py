"""The kinds of snapshots in a plane: their definitions are upstream's, and come into its API server once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.api.definitions import CUSTOM_RESOURCE_DEFINITIONS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.dev import extras as snapshot_kinds
from mooring.dev.extras import DIGEST, definitions, install
from mooring.dev.seed_objects import group_snapshot, group_snapshot_class, snapshot, snapshot_class
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import Invalid
from tests.support.layers import SPECIFICATION, not_tested

ROOT = Path(__file__).parents[3]
ORIGINALS = ROOT.parent / "shared" / "crds"
NAME = "volumesnapshots.snapshot.storage.k8s.io"


def a_cluster() -> Cluster:
    return LocalCluster(new_store(Random(1), 0.0), clock=LoopClock(), randomness=Random(1))


async def versions(cluster: Cluster) -> dict[str, str]:
    return {
        one["metadata"]["name"]: one["metadata"]["resourceVersion"]
        for one in (await cluster.list(CUSTOM_RESOURCE_DEFINITIONS)).items
    }


async def definition(cluster: Cluster) -> dict[str, Any]:
    return await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)


def bare(value: Any, *, names: bool = False) -> Any:
    """Without descriptions. names: the keys are those of somebody's fields."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: bare(one, names=key == "properties" and not names)
        for key, one in value.items()
        if names or key != "description" or not isinstance(one, str)
    }


def test_they_are_the_originals_but_for_descriptions() -> None:
    if not ORIGINALS.is_dir():
        not_tested(
            SPECIFICATION,
            f"no {ORIGINALS.relative_to(ROOT.parent)}: the definitions were not compared with the originals",
        )
    originals = {
        one["metadata"]["name"]: one for one in (yaml.safe_load(path.read_text()) for path in ORIGINALS.rglob("*.yaml"))
    }
    ours = {one["metadata"]["name"]: one for one in definitions()}
    assert {name: bare(one["spec"]) for name, one in originals.items()} == {
        name: one["spec"] for name, one in ours.items()
    }
    approved = "api-approved.kubernetes.io"
    assert {one["metadata"]["annotations"][approved] for one in originals.values()} == {
        one["metadata"]["annotations"][approved] for one in ours.values()
    }


async def test_the_kinds_are_served_at_once_and_validated() -> None:
    cluster = a_cluster()
    await install(cluster)
    for kind in (VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOT_CLASSES):
        assert await cluster.serves(kind)
    await cluster.create(VOLUME_SNAPSHOT_CLASSES.whole(), snapshot_class("d", "c"))
    good = snapshot("good", "claim")
    await cluster.create(VOLUME_SNAPSHOTS.whole(), good, "default")
    both = {"persistentVolumeClaimName": "claim", "volumeSnapshotContentName": "content"}
    with pytest.raises(
        Invalid, match="exactly one of volumeSnapshotContentName and persistentVolumeClaimName must be set"
    ):
        await cluster.create(
            VOLUME_SNAPSHOTS.whole(), {**good, "metadata": {"name": "bad"}, "spec": {"source": both}}, "default"
        )
    moved = Patch(PatchType.MERGE, {"spec": {"source": {"persistentVolumeClaimName": "another"}}})
    with pytest.raises(Invalid, match="persistentVolumeClaimName is immutable"):
        await cluster.patch(VOLUME_SNAPSHOTS, "good", moved, "default")


async def test_a_second_start_writes_nothing() -> None:
    cluster = a_cluster()
    await install(cluster)
    before = await versions(cluster)
    await install(cluster)
    assert before == await versions(cluster)


async def test_a_later_version_brings_its_own_definitions_and_keeps_objects_and_notes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a folder of an earlier version is used again."""
    cluster = a_cluster()
    earlier = list(definitions())
    for one in earlier:
        one["metadata"]["annotations"][DIGEST] = "earlier"
        one["spec"]["versions"][0]["additionalPrinterColumns"] = []
    monkeypatch.setattr(snapshot_kinds, "definitions", lambda groups: earlier)
    await install(cluster)
    monkeypatch.undo()
    await cluster.create(VOLUME_SNAPSHOTS.whole(), snapshot("kept", "claim"), "default")
    await cluster.patch(
        CUSTOM_RESOURCE_DEFINITIONS,
        NAME,
        Patch(PatchType.MERGE, {"metadata": {"labels": {"mine": "yes"}, "annotations": {"note": "x"}}}),
    )
    await install(cluster)
    found, wanted = await definition(cluster), next(one for one in definitions() if one["metadata"]["name"] == NAME)
    assert wanted["spec"]["versions"] == found["spec"]["versions"]
    assert ({"mine": "yes"}, "x") == (found["metadata"]["labels"], found["metadata"]["annotations"]["note"])
    assert ["kept"] == [one.metadata.name for one in (await cluster.list(VOLUME_SNAPSHOTS)).items]
    before = await versions(cluster)
    await install(cluster)
    assert before == await versions(cluster)


async def test_somebody_elses_definition_stays() -> None:
    cluster = a_cluster()
    theirs = next(one for one in definitions() if one["metadata"]["name"] == NAME)
    del theirs["metadata"]["annotations"][DIGEST]
    theirs["spec"]["versions"] = theirs["spec"]["versions"][:1]
    await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, theirs)
    before = await definition(cluster)
    await install(cluster)
    assert before == await definition(cluster)
    assert 6 == len(await versions(cluster))


async def test_the_kinds_of_groups_are_there_for_drivers_that_make_them() -> None:
    cluster = a_cluster()
    await install(cluster, groups=False)
    assert not await cluster.serves(GROUP_SNAPSHOTS)
    await install(cluster)
    for kind in (GROUP_SNAPSHOTS, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOT_CLASSES):
        assert await cluster.serves(kind)
    await cluster.create(GROUP_SNAPSHOT_CLASSES.whole(), group_snapshot_class("d", "c"))
    await cluster.create(GROUP_SNAPSHOTS.whole(), group_snapshot("shelves", {"app": "books"}), "default")
    moved = Patch(PatchType.MERGE, {"spec": {"source": {"selector": {"matchLabels": {"app": "other"}}}}})
    with pytest.raises(Invalid, match="selector is immutable"):
        await cluster.patch(GROUP_SNAPSHOTS, "shelves", moved, "default")
    both = {**group_snapshot("bad", {"a": "b"})["spec"]["source"], "volumeGroupSnapshotContentName": "content"}
    with pytest.raises(Invalid, match="exactly one of selector and volumeGroupSnapshotContentName must be set"):
        await cluster.create(
            GROUP_SNAPSHOTS.whole(), {**group_snapshot("bad", {}), "spec": {"source": both}}, "default"
        )
