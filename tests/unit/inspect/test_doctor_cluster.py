"""`mooring doctor` on a cluster: it writes nothing, reads no secret, and says what it could not see."""

from __future__ import annotations

import io
import json
from typing import Any

from mooring.api.coordination import LEASES
from mooring.api.core import SECRETS
from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339_micro
from mooring.cli.clusters import METADATA
from mooring.cli.doctor import DoctorFlags, look
from mooring.inspect.doctor import objects
from mooring.kube.errors import Forbidden
from tests.support.builders import a_csi_driver, a_lease
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.sick_cluster import SECRET_KEYS, deployment, sidecar, storage_class
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


class Refuses(ServerFaults):
    def __init__(self, *plurals: str) -> None:
        self._plurals = plurals

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural in self._plurals:
            raise Forbidden(f"{kind.plural} is forbidden")


class DoctorWorld(ClusterWorld):
    async def doctor(self, **flags: Any) -> tuple[int, str]:
        """The exit code and the text; nothing is written by it."""
        self.story.clear()
        out = io.StringIO()
        code = await look(DoctorFlags(**flags), self.cluster, self.cluster, self.clock.wall_s(), out)
        assert not [step for step in self.story if not step.startswith(("get", "list"))], self.story
        return code, out.getvalue()

    async def values(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self.doctor(output="json"))[1])
        return found


async def test_a_sick_cluster_gets_all_its_findings_and_no_write() -> None:
    world = DoctorWorld()
    attacher = sidecar("csi-attacher", "--timeout=1s")
    stale = a_lease("external-resizer-csi-test", renewTime=rfc3339_micro(world.clock.wall_s() - 600))
    await world.create(storage_class("slow", "csi.gone"), a_csi_driver("csi.test"), stale)
    await world.create(deployment(attacher, sidecar("csi-snapshotter"), namespace="default"))
    code, text = await world.doctor()
    found = (await world.values())["findings"]
    assert 3 == code
    assert {"definitions", "snapshot-parts", "classes", "leaders", "timeouts"} == {one["check"] for one in found}
    assert "ERROR" in text
    assert 1 == text.count("not seen roles and bindings"), "said once for four kinds"
    assert 1 == text.count("rbac")


async def test_a_cluster_without_drivers_is_well() -> None:
    world = DoctorWorld()
    code, text = await world.doctor()
    assert 0 == code
    assert "nothing is wrong; " in text


async def test_a_named_secret_is_looked_for_by_name_alone() -> None:
    world = DoctorWorld()
    await world.create(a_csi_driver("csi.test"), storage_class(parameters=SECRET_KEYS))
    (one,) = (await world.values())["findings"]
    assert ("secrets", "error") == (one["check"], one["severity"])
    assert ["get secrets"] == [step for step in world.story if "secrets" in step]
    assert SECRETS.resource == objects.BARE_SECRETS.resource
    assert {"metadata"} == set(objects.Bare.__struct_fields__)
    assert "as=PartialObjectMetadata" in METADATA


@each_row(
    ("plural", "silent"),
    [
        ("secrets", "secrets"),
        ("csidrivers", "classes"),
        ("customresourcedefinitions", "definitions"),
        ("pods", "snapshot-parts"),
    ],
)
async def test_what_is_refused_is_told_and_proves_nothing(plural: str, silent: str) -> None:
    snapshotter = deployment(sidecar("csi-snapshotter"), namespace="default")
    sick = [storage_class("slow", "csi.gone"), storage_class("b", parameters=SECRET_KEYS), snapshotter]
    for faults, is_told in ((ServerFaults(), True), (Refuses(plural), False)):
        world = DoctorWorld(faults)
        await world.create(*sick)
        values = await world.values()
        assert is_told is any(one["check"] == silent for one in values["findings"])
        assert is_told is not any(plural in one["what"].lower() + one["why"] for one in values["notSeen"])


async def test_leases_of_nodes_are_no_leaders() -> None:
    world = DoctorWorld()
    stale = a_lease("snapshot-controller-leader", renewTime=rfc3339_micro(world.clock.wall_s() - 600))
    stale["metadata"]["namespace"] = "kube-node-lease"
    await world.create(stale)
    assert 1 == len(await world.list(LEASES))
    assert [] == (await world.values())["findings"]
