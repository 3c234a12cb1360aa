"""The provisioner on a real cluster that lacks the kinds of snapshots at first: all else works, and what comes later is
noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.provisioner_world import SNAPSHOT_GROUP, Provisioning, a_world, make_snapshot, serve_snapshots
from tests.support.builders import a_class
from tests.support.control_plane import ControlPlane
from tests.support.rights import NAMESPACE, UPSTREAM, UPSTREAM_ELECTION, acting_as, has_asked, just, refused


@pytest.mark.long
async def test_a_claim_from_a_snapshot_is_told_and_gets_its_volume_when_the_kind_is_there(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    plane = new_control_plane()
    rights = just("upstream", UPSTREAM["provisioner"], UPSTREAM_ELECTION)
    async with acting_as(rights, plane, tmp_path) as proxy, a_world(plane, tmp_path) as world:
        node = await world.make_place()
        await world.create(a_class(world("sc"), provisioner=world.driver, wffc=True, reclaimPolicy="Delete"))
        async with world.provisioner(proxy, "log", f"--leader-election-namespace={NAMESPACE}") as program:
            origin = await world.provisioned(await world.make_claim("origin", node))
            source = {"apiGroup": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", "name": world("snapshot")}
            restored = await world.make_claim("restored", node, dataSource=source)
            await world.told(restored, "Warning", "ProvisioningFailed", _missing(world))
            serve_snapshots(world)
            make_snapshot(world, origin)
            await world.provisioned(restored)
            await world.until(lambda: has_asked(proxy, "watch", "volumesnapshots"), what="snapshots are watched")
        assert 1 == program.output().count("The API server does not serve this kind")
        assert [] == refused(proxy)


def _missing(world: Provisioning) -> str:
    """In external-provisioner's words, to the last letter."""
    name = world("snapshot")
    why = f"the server could not find the requested resource (get volumesnapshots.{SNAPSHOT_GROUP} {name})"
    return (
        f"error getting handle for DataSource Type VolumeSnapshot by Name {name}: error getting snapshot {name} "
        f"from api server: {why}"
    )
