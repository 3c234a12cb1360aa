"""`mooring timeline` about snapshots, their contents and groups (issue 29), in virtual time."""

from __future__ import annotations

import json
from typing import Any

from tests.support.builders import (
    a_group_snapshot,
    a_new_content,
    a_new_snapshot,
    a_snapshot_class,
)
from tests.support.cluster_world import EPOCH_S
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def shown(world: WhyWorld, *words: str) -> dict[str, Any]:
    code, text = await world.timeline(*words, output="json")
    assert 0 == code
    found: dict[str, Any] = json.loads(text)
    return found


async def a_bound_world() -> WhyWorld:
    """A claim with a volume, its snapshot, and 7 s later the content, which the driver cut at once."""
    world = WhyWorld()
    await world.make_snapshot_kinds((*SNAPSHOT_CRDS, *GROUP_CRDS))
    await world.bound()
    group = await world.create(a_group_snapshot())
    snapshot = a_new_snapshot()
    owner = {"apiVersion": group["apiVersion"], "kind": group["kind"], "name": "group", "uid": group["metadata"]["uid"]}
    snapshot["metadata"]["ownerReferences"] = [owner]
    made = await world.create(a_snapshot_class(), {**snapshot, "status": {"boundVolumeSnapshotContentName": "content"}})
    await world.clock.sleep(7)
    content = a_new_content("content", snapshot=made, ref_uid=made["metadata"]["uid"])
    await world.create(
        {**content, "status": {"snapshotHandle": "h", "creationTime": int((EPOCH_S + 7) * 1e9), "readyToUse": True}}
    )
    return world


@each_row("words", [("vs/snap",), ("vsc", "content"), ("group/group",)])
async def test_each_leads_to_snapshot_content_and_source_and_to_the_wait_for_the_content(
    words: tuple[str, ...],
) -> None:
    found = await shown(await a_bound_world(), *words)
    assert {"pvc", "pv", "vs", "vsc"} <= {one["lane"] for one in found["lanes"]}
    assert [7.0] == [one["seconds"] for one in found["gaps"]]
    last = [(one["lane"], one["who"], one["what"]) for one in found["moments"] if one["offsetSeconds"] == 7]
    assert ("vsc", "the driver", "took the snapshot, as the driver has it") == last[-1]


async def test_a_group_has_a_lane_of_its_own_and_its_members() -> None:
    lanes = {one["lane"] for one in (await shown(await a_bound_world(), "group/group"))["lanes"]}
    assert {"vgs", "vs"} <= lanes
    assert "vgs" not in {one["lane"] for one in (await shown(await a_bound_world(), "vs/snap"))["lanes"]}
