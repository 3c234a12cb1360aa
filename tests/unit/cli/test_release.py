"""`mooring release` (issue 27, A7) on the in-process port, in virtual time: what a removed driver's attacher left, and the proof before."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.api.volume_names import unique_name
from mooring.apiserver.local import ServerFaults
from mooring.base.errors import ConfigError
from mooring.cli import mooring as command
from mooring.cli.release import CANNOT, CLEAN, LEFT, ReleaseCommand, ReleaseFlags
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    a_bound_claim,
    a_csi_driver,
    a_csi_node,
    a_held_pv,
    a_lease,
    a_node,
    a_pod,
    a_reference,
    a_va,
    an_attached_va,
)
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

LOCK = "external-attacher-leader-csi-test"
RENEWED = "2026-06-01T00:00:00.000000Z"


class ReleaseWorld(ClusterWorld):
    def __init__(self, faults: ServerFaults | None = None) -> None:
        super().__init__(faults)
        self.out, self.err = io.StringIO(), io.StringIO()

    async def run(self, typed: str = "", **flags: Any) -> int:
        self.out, self.err = io.StringIO(), io.StringIO()
        given = ReleaseFlags(**{"driver": DRIVER, **flags})
        return await ReleaseCommand(given, self.cluster, self.clock, io.StringIO(typed), self.out, self.err).run()

    async def report(self, **flags: Any) -> dict[str, Any]:
        """What one look shows. Nothing is written."""
        self.story.clear()
        await self.run(output="json", **flags)
        assert not [step for step in self.story if not step.startswith("list")], self.story
        found: dict[str, Any] = json.loads(self.out.getvalue())
        return found

    async def kept(self, **flags: Any) -> dict[str, str]:
        """Why each object that is held has to stay, "" for none."""
        return {one["name"]: one.get("kept", "") for one in (await self.report(**flags))["held"]}

    async def obstacles(self) -> list[str]:
        return [one["what"] for one in (await self.report())["obstacles"]]

    async def holders(self, kind: Kind[Any]) -> list[str]:
        return [
            one["metadata"]["name"]
            for one in await self.list(kind)
            if FINALIZER in one["metadata"].get("finalizers", ())
        ]

    async def deleted(self, kind: Kind[Any], name: str) -> None:
        """Wanted gone, and held."""
        await self.delete(kind, name)


async def a_world(node: bool = True, **attachment: Any) -> ReleaseWorld:
    """A volume and its attachment, both deleted, as the attacher left them. node: its Node is there still."""
    world = ReleaseWorld()
    if node:
        await world.create(a_node("node1"))
    await world.create(a_held_pv("pv1"), an_attached_va("pv1-node1", **attachment))
    await world.deleted(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.patch(
        PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": [FINALIZER]}}
    )  # protection has done its part
    await world.deleted(PERSISTENT_VOLUMES, "pv1")
    return world


async def test_what_a_machine_that_is_gone_had_is_released_and_ends():
    world = await a_world(node=False)
    assert {"pv1-node1": "", "pv1": ""} == await world.kept()
    assert CLEAN == await world.run(f"{DRIVER}\n", remove=True)
    await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    await world.gone(PERSISTENT_VOLUMES, "pv1")
    assert CLEAN == await world.run()


async def test_the_volume_goes_after_its_attachment():
    world = await a_world(node=False)
    await world.run(remove=True, yes=True)
    writes = [step for step in world.story if step.startswith("patch")]
    assert ["patch volumeattachments", "patch persistentvolumes"] == [" ".join(step.split()[:2]) for step in writes]


async def test_a_look_changes_nothing_and_leaves_exit_code_3():
    world = await a_world(node=False)
    assert LEFT == await world.run()
    assert ["pv1-node1"] == await world.holders(VOLUME_ATTACHMENTS)
    assert "csi.test: 2 objects held, 0 kept, 2 may go\n" in world.out.getvalue()


@pytest.mark.parametrize("typed", ["", "yes\n", "csi.tes\n"])
async def test_another_word_than_the_drivers_name_releases_nothing(typed: str):
    world = await a_world(node=False)
    assert CANNOT == await world.run(typed, remove=True)
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


async def test_what_may_be_attached_goes_only_when_somebody_has_looked_at_the_storage():
    world = await a_world()
    kept = await world.kept()
    assert "its volume may be attached to node1 (node id nodeID1)" == kept["pv1-node1"]
    assert "VolumeAttachment pv1-node1 names it" == kept["pv1"]
    assert CANNOT == await world.run(remove=True, yes=True)
    assert CLEAN == await world.run(remove=True, yes=True, detached="pv1-node1")


async def test_the_next_step_names_the_flag():
    world = await a_world()
    (attachment, _) = (await world.report())["held"]
    assert attachment["wayOut"].endswith("--detached=pv1-node1")


async def test_one_with_the_finalizer_and_without_a_node_s_id_may_be_attached():
    """Each attacher writes both at once: somebody has taken the id away."""
    world = await a_world(annotations={}, status={"attached": False})
    assert (await world.kept())["pv1-node1"].endswith("the attach had begun, and its node's id was taken away since")


async def test_a_publish_that_may_have_happened_counts():
    world = await a_world(status={"attached": False})
    wanted = (
        "its volume may be attached to node1 (node id nodeID1): it is not marked attached, but the attach had begun"
    )
    assert wanted == (await world.kept())["pv1-node1"]


async def test_a_name_that_no_held_attachment_has_is_refused():
    world = await a_world()
    with pytest.raises(ConfigError, match="no VolumeAttachment that is held has the name pv1-node2"):
        await world.run(detached="pv1-node1,pv1-node2")


async def test_an_attachment_that_is_wanted_stays_and_so_does_its_volume():
    world = ReleaseWorld()
    await world.create(a_held_pv("pv1"), an_attached_va("pv1-node1"), a_held_pv("pv2", "handle2"))
    kept = await world.kept()
    assert "it is not being deleted, so a pod may want it" == kept["pv1-node1"]
    assert "VolumeAttachment pv1-node1 names it" == kept["pv1"]
    assert LEFT == await world.run(remove=True, yes=True)
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


async def test_a_new_attachment_without_the_finalizer_keeps_the_volume_too():
    world = ReleaseWorld()
    await world.create(a_held_pv("pv1"), a_va("pv1-node1"))
    assert {"pv1": "VolumeAttachment pv1-node1 names it"} == await world.kept()


async def test_what_a_kubelet_reports_as_in_use_stays_whatever_is_said():
    world = await a_world()
    await world.patch(
        NODES, "node1", {"status": {"volumesInUse": [unique_name(DRIVER, "handle1")]}}, subresource="status"
    )
    kept = await world.kept(detached="pv1-node1")
    assert 2 * ["the kubelet of node1 reports it as in use"] == list(kept.values())


async def test_where_the_volume_is_unknown_any_of_the_driver_counts():
    world = ReleaseWorld()
    in_use = {"volumesInUse": [unique_name(DRIVER, "other")]}
    await world.create(a_node("node1", **in_use), an_attached_va("lost-node1", "lost"))
    await world.deleted(VOLUME_ATTACHMENTS, "lost-node1")
    assert {"lost-node1": "the kubelet of node1 reports it as in use"} == await world.kept(detached="lost-node1")


async def test_another_drivers_volume_in_use_keeps_nothing():
    world = await a_world()
    await world.patch(
        NODES, "node1", {"status": {"volumesInUse": [unique_name("csi.other", "handle1")]}}, subresource="status"
    )
    assert {"pv1-node1": "", "pv1": ""} == await world.kept(detached="pv1-node1")


async def test_a_pod_with_the_volume_keeps_it_also_where_its_claim_was_forced_away():
    world = ReleaseWorld()
    claim = await world.create(a_bound_claim("claim", "pv1"))
    await world.create(
        a_held_pv("pv1", spec={"claimRef": a_reference(claim)}), a_pod("web", "claim", node="node1", phase="Running")
    )
    assert {"pv1": "it is in use by pod default/web on node1"} == await world.kept()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "claim", {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUME_CLAIMS, "claim")
    assert {"pv1": "it is in use by pod default/web on node1"} == await world.kept()
    await world.patch(PODS, "web", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert {"pv1": ""} == await world.kept()


async def test_a_pod_with_a_later_claim_of_the_same_name_keeps_nothing():
    world = ReleaseWorld()
    await world.create(
        a_bound_claim("claim", "pv2"), a_held_pv("pv1", spec={"claimRef": a_reference("claim", "an-old-uid")})
    )
    await world.create(a_pod("web", "claim", node="node1", phase="Running"))
    assert {"pv1": ""} == await world.kept()


async def test_a_driver_that_is_registered_or_installed_is_not_gone():
    world = await a_world(node=False)
    await world.create(
        a_csi_node("node1", {DRIVER: "i-1"}), a_csi_node("node2", {"csi.other": "i-2"}), a_csi_driver(DRIVER)
    )
    assert ["its CSIDriver object csi.test is there", "it is registered on node1"] == await world.obstacles()
    assert CANNOT == await world.run(remove=True, yes=True)
    assert "nothing is released: the driver is not gone\n" == world.err.getvalue()
    assert "not gone: it is registered on node1\n    first: delete its DaemonSet" in world.out.getvalue()
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)
    await world.remove(CSI_NODES, "node1")
    await world.remove(CSI_DRIVERS, DRIVER)
    assert CLEAN == await world.run(remove=True, yes=True)


async def test_a_lease_that_does_not_say_how_long_it_holds_is_given_the_usual_time():
    world = await a_world(node=False)
    await world.create(a_lease(LOCK, leaseDurationSeconds=None))
    began = world.clock.now()
    assert [] == await world.obstacles()
    assert 15 <= world.clock.now() - began < 16


@pytest.mark.parametrize("lock", [LOCK, "csi-test", "external-resizer-csi-test", "mooring-controller-csi-test"])
async def test_a_lease_that_is_renewed_shows_a_driver_that_lives(lock: str):
    world = await a_world(node=False)
    await world.create(a_lease(lock, holderIdentity="pod_1", renewTime=RENEWED, namespace="storage"))

    async def renew() -> None:
        await asyncio.sleep(14)
        await world.patch(LEASES, lock, {"spec": {"renewTime": "2026-06-01T00:00:14.000000Z"}}, "storage")

    renewing = asyncio.create_task(renew(), name="renew")
    assert [f"the Lease storage/{lock} is held by pod_1: it was renewed a moment ago"] == await world.obstacles()
    await renewing
    assert f"looking for 15s whether storage/{lock} is still renewed\n" == world.err.getvalue()


async def test_a_lease_that_nobody_renews_is_dead_whatever_its_times_say():
    """Its holder's clock may be a year ahead."""
    world = await a_world(node=False)
    await world.create(a_lease(LOCK, holderIdentity="pod_1", renewTime="2027-06-01T00:00:00.000000Z"))
    began = world.clock.now()
    assert CLEAN == await world.run(remove=True, yes=True)
    assert 15 <= world.clock.now() - began < 16


@pytest.mark.parametrize("spec", [{"holderIdentity": ""}, {"holderIdentity": None}])
async def test_a_lease_without_a_holder_needs_no_time(spec: dict[str, Any]):
    world = await a_world(node=False)
    await world.create(a_lease(LOCK, **spec))
    began = world.clock.now()
    assert [] == await world.obstacles()
    assert world.clock.now() == began


async def test_a_lease_for_hours_is_not_waited_for():
    world = await a_world(node=False)
    await world.create(a_lease(LOCK, leaseDurationSeconds=7200))
    began = world.clock.now()
    assert [
        f"the Lease default/{LOCK} is held by me: it holds for 2h0m0s, which nobody waited for"
    ] == await world.obstacles()
    assert world.clock.now() == began


class ComesBack(ServerFaults):
    """A sidecar of the driver takes its Lease between the first look and the second."""

    def __init__(self) -> None:
        self.world: ReleaseWorld | None = None

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list" and kind.plural == "csinodes" and self.world is not None:
            world, self.world = self.world, None
            await world.create(a_lease(LOCK, holderIdentity="new"))


async def test_a_driver_that_comes_back_meanwhile_is_seen_by_the_second_look():
    faults = ComesBack()
    world = ReleaseWorld(faults)
    await world.create(a_held_pv("pv1"))
    faults.world = world
    assert LEFT == await world.run(remove=True, yes=True)
    assert f"the driver is back: the Lease default/{LOCK} is held by new" in world.err.getvalue()
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


class Touched(ServerFaults):
    """Somebody writes to an attachment between the look and the release."""

    def __init__(self) -> None:
        self.world: ReleaseWorld | None = None

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "patch" and kind is VOLUME_ATTACHMENTS and self.world is not None:
            await self.world.patch(VOLUME_ATTACHMENTS, name, {"metadata": {"annotations": {"somebody": "was here"}}})


async def test_an_object_that_was_written_since_the_look_stays_and_its_volume_too():
    faults = Touched()
    world = ReleaseWorld(faults)
    await world.create(a_held_pv("pv1"), an_attached_va("pv1-node1"))
    await world.deleted(VOLUME_ATTACHMENTS, "pv1-node1")
    faults.world = world
    assert LEFT == await world.run(remove=True, yes=True)
    assert "VolumeAttachment pv1-node1: somebody has changed it meanwhile: look again\n" in world.err.getvalue()
    assert "PersistentVolume pv1: an attachment of it could not be released\n" in world.err.getvalue()
    assert ["pv1"] == await world.holders(PERSISTENT_VOLUMES)


async def test_the_same_finalizer_of_a_driver_with_another_name_stays():
    """csi.test and csi-test have one finalizer between them."""
    world = ReleaseWorld()
    await world.create(
        a_held_pv("other", source={"csi": {"driver": "csi-test", "volumeHandle": "h"}}), a_held_pv("pv1")
    )
    await world.create(an_attached_va("other-node1", "other", attacher="csi-test"))
    assert CLEAN == await world.run(remove=True, yes=True)
    assert ["other"] == await world.holders(PERSISTENT_VOLUMES)
    assert ["other-node1"] == await world.holders(VOLUME_ATTACHMENTS)


async def test_a_volume_from_the_time_before_csi_is_its_drivers():
    world = ReleaseWorld()
    finalizer = "external-attacher/ebs-csi-aws-com"
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    await world.create(a_held_pv("old", source=source, finalizers=[finalizer]))
    assert {"old": ""} == await world.kept(driver="ebs.csi.aws.com")


async def test_finalizers_of_others_stay_and_are_told():
    world = ReleaseWorld()
    await world.create(a_held_pv("pv1"))
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"finalizers": ["example.com/mine", FINALIZER]}})
    assert CLEAN == await world.run(remove=True, yes=True)
    assert ["example.com/mine"] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert "released; then still held by example.com/mine\n" in world.out.getvalue()


async def test_where_nothing_is_held_nothing_is_asked():
    world = ReleaseWorld()
    await world.create(a_csi_driver(DRIVER))
    assert CLEAN == await world.run(remove=True)
    assert "" == world.err.getvalue()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "--driver: name the driver that was removed"),
        (("--driver=a", "--yes"), "--yes goes with --remove"),
        (("--driver=a", "-o=xml"), "-o: must be table or json, got 'xml'"),
    ],
)
def test_a_wrong_line_has_exit_code_2(words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["release", *words])
    assert problem in capsys.readouterr().err
