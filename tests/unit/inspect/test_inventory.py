"""What in a cluster keeps a volume from being called leaked, or from being deleted: looks at clusters, in virtual
time.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS
from mooring.api.snapshot_names import BEING_CREATED, CONTENT_FINALIZER, GROUP_BEING_CREATED
from mooring.base.clock import rfc3339
from mooring.base.errors import ConfigError
from mooring.inspect.facts import CannotLook
from tests.support.builders import DRIVER, Json, a_class, a_group_content, a_new_content, a_pod, a_va
from tests.support.orphaned import Found, Listing, OrphansWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
GCE = "pd.csi.storage.gke.io"
DISK = "projects/p1/zones/z1/disks/data-disk"
ZONE = "topology.csi.test/zone"


MADE = {"pv.kubernetes.io/provisioned-by": DRIVER}


def kinds(found: list[Found]) -> list[tuple[str, str]]:
    return [(one.kind, one.handle) for one in found]


async def deletable(world: OrphansWorld) -> list[str]:
    """What goes when everything leaked is to go."""
    before = set(world.driver.volumes)
    await world.run(f"{world.driver.name}\n", delete=True, older_than_s=0.0)
    return sorted(before - set(world.driver.volumes))


# -- PersistentVolumes that spell their volume in another way


@each_row("labels", [{}, {"topology.kubernetes.io/zone": "z1"}], ids=["zone unknown", "zone known"])
async def test_what_an_in_tree_volume_leaves_open_fits_what_the_driver_lists(labels: dict[str, str]):
    world = OrphansWorld(Listing(DISK, name=GCE))
    await world.own("pv1", "", source={"gcePersistentDisk": {"pdName": "data-disk"}}, labels=labels)
    assert [] == await world.found()


async def test_an_in_tree_volume_of_another_place_does_not_fit():
    world = OrphansWorld(Listing(DISK, name=GCE))
    await world.own(
        "pv1", "", source={"gcePersistentDisk": {"pdName": "data-disk"}}, labels={"topology.kubernetes.io/zone": "z2"}
    )
    assert [("doubtful", DISK)] == kinds(await world.found())


@each_row(
    ("listed", "named", "attributes"),
    [
        ("/subscriptions/S/resourceGroups/RG/d1", "/subscriptions/s/resourcegroups/rg/d1", {}),
        ("uuid-of/disk-7", "[store] folder/disk-7", {}),
        ("vol-7", "static", {"backend": "vol-7"}),
        ("vol-7", "static", {"backend": "pool/Vol-7"}),
    ],
    ids=["letters", "last part", "attribute", "last part of an attribute"],
)
async def test_what_a_persistent_volume_may_mean_is_not_leaked(listed: str, named: str, attributes: dict[str, str]):
    world = OrphansWorld(Listing(listed))
    await world.own("pv1", named, csi={"volumeAttributes": attributes})
    assert [("doubtful", listed)] == kinds(await world.found())
    assert "pv1" in (await world.found())[0].why
    assert [] == await deletable(world)


async def test_a_second_volume_of_the_same_name_has_leaked_when_its_object_has_its_own():
    """The leak of a creation that was tried in one place after another."""
    world = OrphansWorld(Listing("zones/a/disks/d1", "zones/b/disks/d1"))
    await world.own("pv1", "zones/b/disks/d1")
    assert [("leaked", "zones/a/disks/d1")] == kinds(await world.found())
    assert ["zones/a/disks/d1"] == await deletable(world)


async def test_while_a_persistent_volume_has_none_any_leaked_one_could_be_its():
    world = OrphansWorld(Listing("opaque", "h2"))
    await world.own("pv1", "[store] folder/disk.vmdk")
    await world.own("pv2", "h2")
    found = await world.found()
    assert [("leaked", "opaque"), ("ghost", "[store] folder/disk.vmdk")] == kinds(found)
    assert "it may be the volume of PersistentVolume pv1, whose handle the driver does not list" == found[0].kept
    assert [] == await deletable(world)


async def test_only_the_asked_drivers_in_tree_volumes_must_be_readable():
    unreadable = {"awsElasticBlockStore": {"volumeID": "aws://zone/nonsense"}}
    other = OrphansWorld(Listing("h1"))
    await other.own("pv1", "", source=unreadable)
    assert [("leaked", "h1")] == kinds(await other.found())
    asked = OrphansWorld(Listing("h1", name="ebs.csi.aws.com"))
    await asked.own("pv1", "", source=unreadable)
    with pytest.raises(CannotLook):
        await asked.found()


# -- attachments


async def test_what_is_attached_stays_when_its_persistent_volume_was_forced_away():
    world = OrphansWorld(Listing("vol-pvc-0123abcd", "vol-8"))
    await world.create(a_va(pv="pvc-0123abcd"))
    assert [("leaked", "vol-8"), ("leaked", "vol-pvc-0123abcd")] == kinds(found := await world.found())
    text = (
        "it is the volume of PersistentVolume pvc-0123abcd, which is gone and which VolumeAttachment pv1-node1 attaches"
    )
    assert ["", text] == [one.kept for one in found]
    await world.own("pv8", "h8")
    world.driver.volumes["h8"] = 1
    assert ["vol-8"] == await deletable(world)


@each_row(("listed", "lost"), [("opaque", "pvc-0123abcd"), ("data-2", "data")], ids=["fits none", "fits by accident"])
async def test_an_attachment_that_fits_no_volume_for_sure_could_be_of_any(listed: str, lost: str):
    world = OrphansWorld(Listing(listed, "vol-8"))
    await world.create(a_va(pv=lost))
    assert [("leaked", listed), ("leaked", "vol-8")] == kinds(found := await world.found())
    assert all("VolumeAttachment pv1-node1" in one.kept for one in found)
    assert [] == await deletable(world)


async def test_an_attachment_of_another_driver_keeps_nothing():
    world = OrphansWorld(Listing("vol-8", "h1"))
    await world.own("pv1", "h1")
    await world.create(a_va(pv="gone", attacher="other"))
    assert ["vol-8"] == await deletable(world)


async def test_an_inline_attachment_names_its_volume_in_any_spelling():
    world = OrphansWorld(Listing(DISK, "projects/p1/zones/z1/disks/other", name=GCE))
    handle = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/data-disk"
    spec = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": GCE, "volumeHandle": handle}}
    await world.create(a_va(pv=None, inline=spec, attacher=GCE))
    kept = {one.handle: one.kept for one in await world.found()}
    assert {DISK: "VolumeAttachment pv1-node1 names it", "projects/p1/zones/z1/disks/other": ""} == kept


# -- disks that a pod names itself (27 A1)


def a_user(**source: dict[str, str]) -> Json:
    return a_pod("user", volumes=[{"name": "own", **source}], node="n1", phase="Running")


async def test_a_disk_that_a_pod_names_itself_is_no_orphan():
    world = OrphansWorld(Listing(DISK, "projects/p1/zones/z1/disks/other", "projects/p1/zones/z1/disks/mine", name=GCE))
    await world.own("pv1", "projects/p1/zones/z1/disks/mine")
    await world.create(a_user(gcePersistentDisk={"pdName": "data-disk"}))
    assert [("leaked", "projects/p1/zones/z1/disks/other")] == kinds(await world.found())
    assert ["projects/p1/zones/z1/disks/other"] == await deletable(world)


async def test_a_disk_that_a_pod_names_in_other_letters_stays():
    uri = "/subscriptions/s/d1"
    world = OrphansWorld(Listing("/subscriptions/S/d1", name="disk.csi.azure.com"))
    await world.create(a_user(azureDisk={"diskName": "d1", "diskURI": uri, "kind": "Managed"}))
    assert ["pod default/user names it"] == [one.kept for one in await world.found()]
    assert [] == await deletable(world)


async def test_a_disk_that_the_driver_lists_under_another_name_could_be_any():
    world = OrphansWorld(Listing("opaque", name="csi.vsphere.vmware.com"))
    await world.create(a_user(vsphereVolume={"volumePath": "[store] v.vmdk"}))
    assert [True] == ["pod default/user names itself" in one.kept for one in await world.found()]
    assert [] == await deletable(world)


# -- claims


@each_row("by", ["handle", "handle without dashes", "context"])
async def test_the_volume_of_a_claim_that_is_not_bound_yet_is_in_the_air(by: str):
    """external-provisioner keeps in memory what it has begun."""
    world = OrphansWorld(Listing())
    uid = await world.claim()
    handle = {"handle": f"vol-pvc-{uid}", "handle without dashes": f"v{uid.replace('-', '')}"}.get(by, "opaque")
    world.driver.volumes = {handle: 1, "vol-8": 1}
    if by == "context":
        world.driver.words["opaque"] = f"pvc-{uid}"
    found = await world.found()
    assert {(handle, "begun"), ("vol-8", "leaked")} == {(one.handle, one.kind) for one in found}
    await world.own("pv9", "h9")
    world.driver.volumes["h9"] = 1
    assert ["vol-8"] == await deletable(world)


@each_row("by", ["annotation", "class", "chosen node"])
async def test_while_a_claim_of_this_driver_waits_any_leaked_volume_could_be_its(by: str):
    world = OrphansWorld(Listing("opaque"))
    await world.create(a_class("fast", wffc=by == "chosen node"))
    if by == "annotation":
        await world.claim(storageClassName="")
    else:
        notes = {"volume.kubernetes.io/selected-node": "n1"} if by == "chosen node" else {}
        await world.claim(provisioner=None, notes=notes, storageClassName="fast")
    assert ["it may be the volume of the claim default/c1, which is not bound yet"] == [
        one.kept for one in await world.found()
    ]
    assert [] == await deletable(world)


@each_row("who", ["another driver's", "waits for a pod", "bound", "bound a moment ago"])
async def test_a_claim_for_which_nothing_is_made_keeps_nothing(who: str):
    world = OrphansWorld(Listing("opaque", "h1"))
    await world.create(a_class("late", wffc=True))
    match who:
        case "another driver's":
            await world.claim(provisioner="other")
            await world.own("pv1", "h1")
        case "waits for a pod":
            await world.claim(provisioner=None, storageClassName="late")
            await world.own("pv1", "h1")
        case "bound":
            await world.claim(volumeName="pv1", phase="Bound")
            await world.own("pv1", "h1")
        case _:
            uid = await world.claim()
            await world.own(
                "pv1", "h1", annotations=MADE, spec={"claimRef": {"namespace": "default", "name": "c1", "uid": uid}}
            )
    assert ["opaque"] == await deletable(world)


IN_TREE = {
    "no driver's": {"nfs": {"server": "s", "path": "/x"}},
    "another driver's": {"awsElasticBlockStore": {"volumeID": "aws:///"}},
}


@each_row("whose", IN_TREE)
async def test_a_claim_with_a_volume_that_is_none_of_this_drivers_has_lost_nothing(whose: str):
    world = OrphansWorld(Listing("opaque", "kept"))
    await world.own("pv", "kept")
    await world.own("elsewhere", "", source=IN_TREE[whose])
    await world.claim(provisioner=None, volumeName="elsewhere", phase="Bound")
    assert [("leaked", "")] == [(one.kind, one.kept) for one in await world.found()]
    assert ["opaque"] == await deletable(world)


@each_row("provisioner", [DRIVER, None])
async def test_a_claim_that_has_lost_its_persistent_volume_may_be_mounted_still(provisioner: str | None):
    """Drivers that attach nothing have no VolumeAttachments that would tell."""
    world = OrphansWorld(Listing("opaque"))
    await world.claim(provisioner=provisioner, volumeName="pv1", phase="Lost")
    kept = "it may be the volume of PersistentVolume pv1, which the claim default/c1 has lost"
    assert [kept] == [one.kept for one in await world.found()]
    assert [] == await deletable(world)


# -- pods


async def test_a_pods_own_volume_is_no_orphan():
    world = OrphansWorld(Listing())
    pod = await world.create(a_pod("p1", volumes=[{"name": "scratch", "csi": {"driver": DRIVER}}]))
    uid = pod["metadata"]["uid"]
    own, other = (f"csi-{hashlib.sha256(f'{uid}{name}'.encode()).hexdigest()}" for name in ("scratch", "gone"))
    world.driver.volumes = {own: 1, other: 1}
    assert [("leaked", other)] == kinds(await world.found())


@each_row("is_named", [True, False])
async def test_pods_are_read_only_where_a_volume_has_no_persistent_volume(
    monkeypatch: pytest.MonkeyPatch, is_named: bool
):
    """They are many."""
    world = OrphansWorld(Listing("h1"))
    await world.own("pv", "h1" if is_named else "other")
    asked: list[str] = []
    real = world.cluster.list

    async def listing(kind: Any, *args: Any, **more: Any) -> Any:
        asked.append(kind.plural)
        return await real(kind, *args, **more)

    monkeypatch.setattr(world.cluster, "list", listing)
    await world.found()
    assert 2 == asked.count("persistentvolumes")
    assert is_named == ("pods" not in asked)


async def test_a_claim_that_was_restored_before_its_persistent_volume_means_it():
    """From a backup claims come first, with their volumeName: they are Pending, not Lost."""
    world = OrphansWorld(Listing("kept", "pvc-0a1b2c3d"))
    await world.own("pv", "kept")
    await world.claim(volumeName="pvc-0a1b2c3d")
    assert [] == await deletable(world)
    kept = "it is the volume of PersistentVolume pvc-0a1b2c3d, which the claim default/c1 waits for"
    assert [("leaked", kept)] == [(one.kind, one.kept) for one in await world.found()]


@each_row(
    ("node", "phase", "is_deletable"),
    [("n1", "Running", False), ("n1", "Succeeded", True), (None, "Pending", True)],
    ids=["on a node", "finished", "never placed"],
)
async def test_a_pod_whose_claim_was_forced_away_may_have_the_volume_mounted(
    node: str | None, phase: str, is_deletable: bool
):
    """Claim and PersistentVolume lost their finalizers in a stuck namespace, and drivers that attach nothing have no
    VolumeAttachments.
    """
    world = OrphansWorld(Listing("kept", "lost"))
    await world.own("pv", "kept")
    await world.create(a_pod("p", "gone", node=node, phase=phase))
    kept = "it may be the volume of the claim default/gone, which is gone and which pod default/p uses"
    assert ["" if is_deletable else kept] == [one.kept for one in await world.found()]
    assert (["lost"] if is_deletable else []) == await deletable(world)


@each_row("is_anew", [True, False], ids=["made anew since", "there when it started"])
async def test_a_claim_made_anew_is_not_the_one_that_a_pod_began_with(is_anew: bool):
    """Claim and PersistentVolume were forced away under the pod, and a StatefulSet made the claim again."""
    world = OrphansWorld(Listing("kept", "lost", "new"))
    await world.own("pv", "kept")
    started = world.clock.wall_s() + (-60.0 if is_anew else 60.0)
    await world.create(a_pod("p", "c1", node="n1", phase="Running"))
    await world.patch(PODS, "p", {"status": {"startTime": rfc3339(started)}}, subresource="status")
    uid = await world.claim(volumeName="pv2", phase="Bound")
    await world.own(
        "pv2", "new", annotations=MADE, spec={"claimRef": {"namespace": "default", "name": "c1", "uid": uid}}
    )
    kept = "it may be the volume of the claim default/c1, which is gone and which pod default/p uses"
    assert [kept if is_anew else ""] == [one.kept for one in await world.found()]
    assert ([] if is_anew else ["lost"]) == await deletable(world)


# -- what the driver says


async def test_a_node_without_a_name_is_no_node():
    world = OrphansWorld(Listing("h1"))
    world.driver.published_on["h1"] = [""]
    assert [""] == [one.kept for one in await world.found()]


def reachable_from(zone: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}


async def test_with_one_driver_per_node_the_volumes_of_other_nodes_are_not_missed():
    world = OrphansWorld(Listing("h1", "h2", place={ZONE: "here"}))
    await world.own("pv1", "h1", spec=reachable_from("here"), annotations=MADE)
    await world.own("far", "h3", spec=reachable_from("there"), annotations=MADE)
    assert [("leaked", "h2")] == kinds(await world.found())
    assert ["h2"] == await deletable(world)
    await world.own("near", "h4", spec=reachable_from("here"), annotations=MADE)
    assert [("ghost", "h4")] == kinds(await world.found())


async def test_a_driver_that_lists_volumes_of_other_places_misses_those_that_it_does_not_list():
    world = OrphansWorld(Listing("h1", place={ZONE: "here"}))
    await world.own("far1", "h1", spec=reachable_from("there"), annotations=MADE)
    await world.own("far2", "h2", spec=reachable_from("there"), annotations=MADE)
    assert [("ghost", "h2")] == kinds(await world.found())


async def test_volumes_of_other_nodes_are_of_no_other_name_where_the_drivers_own_are_listed_as_it_made_them():
    """A driver that serves all nodes, with other names in its list than it gives, shows none of the other places'
    either.
    """
    world = OrphansWorld(Listing("opaque", place={ZONE: "here"}))
    await world.own("far", "h3", spec=reachable_from("there"), annotations=MADE)
    assert [("leaked", "opaque")] == kinds(await world.found())
    assert [] == await deletable(world)
    await world.own("near", "h1", spec=reachable_from("here"), annotations=MADE)
    world.driver.volumes["h1"] = 1
    assert ["opaque"] == await deletable(world)


async def test_a_hand_made_volume_of_another_node_may_be_a_leaked_one_by_another_name():
    world = OrphansWorld(Listing("opaque", place={ZONE: "here"}))
    await world.own("far", "h3", spec=reachable_from("there"))
    assert [("leaked", "opaque")] == kinds(await world.found())
    assert [] == await deletable(world)


# -- intents


async def test_a_begun_volume_that_nobody_will_end_is_told_and_goes_by_its_name():
    """Mooring does not run any more, and the claim is gone."""
    world = OrphansWorld(Listing("vol-pvc-1", "h1"))
    await world.own("pv1", "h1")
    await world.begin("pvc-1", written_ago_s=601)
    assert [("abandoned", "vol-pvc-1")] == kinds(await world.found())
    assert 3 == await world.run()
    assert [] == await deletable(world)
    assert 0 == await world.run(delete=True, yes=True, volume="vol-pvc-1", older_than_s=0.0)
    assert {"h1"} == set(world.driver.volumes)


async def test_what_an_abandoned_intent_may_mean_goes_by_its_name_only():
    world = OrphansWorld(Listing("opaque", "h1"))
    await world.own("pv1", "h1")
    await world.begin("pvc-1", written_ago_s=601)
    assert [("leaked", "opaque")] == kinds(await world.found())
    assert [] == await deletable(world)
    assert 0 == await world.run(delete=True, yes=True, volume="opaque", older_than_s=0.0)


@each_row("who", ["a claim", "a provisioner"])
async def test_an_intent_that_somebody_may_end_is_not_abandoned(who: str):
    world = OrphansWorld(Listing("vol-pvc-1"))
    uid = await world.claim(provisioner="other") if who == "a claim" else "gone"
    await world.begin("pvc-1", uid, written_ago_s=601 if who == "a claim" else 599)
    assert [("begun", "vol-pvc-1")] == kinds(await world.found())


async def test_a_journal_with_one_fresh_page_is_not_idle():
    world = OrphansWorld(Listing("vol-pvc-1"))
    await world.begin("pvc-1", written_ago_s=601)
    await world.begin("pvc-2", "u2", page=1)
    assert [("begun", "vol-pvc-1")] == kinds(await world.found())


# -- snapshots of which nobody knows whether the driver has made them

MARKED = {"annotations": {BEING_CREATED: "yes"}, "finalizers": [CONTENT_FINALIZER]}
GROUP_MARKED = {"annotations": {GROUP_BEING_CREATED: "yes"}, "finalizers": [CONTENT_FINALIZER]}


async def with_contents(world: OrphansWorld) -> OrphansWorld:
    """A content and a group content with an open outcome, and some without."""
    await world.make_snapshot_kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_new_content("open", **MARKED), a_group_content(**GROUP_MARKED), a_new_content("unasked"))
    await world.create(a_new_content("import", handle="there", ref_uid=None, **MARKED))
    await world.create({**a_new_content("others", **MARKED, driver="other.csi")})
    await world.create(a_new_content("made", **MARKED))
    await world.patch(VOLUME_SNAPSHOT_CONTENTS, "made", {"status": {"snapshotHandle": "h"}}, subresource="status")
    return world


async def test_a_content_that_waits_in_vain_for_its_outcome_is_told_with_what_to_do():
    world = await with_contents(OrphansWorld(Listing("vol")))
    await world.delete(VOLUME_SNAPSHOT_CONTENTS, "open")
    await world.delete(GROUP_SNAPSHOT_CONTENTS, "groupcontent")
    asked = [one for one in await world.found() if one.kind == "asked"]
    assert ["the snapshotter repeats it"] * 2 == [one.why.rpartition(": ")[2] for one in asked], (
        "the driver may tell any moment"
    )
    await asyncio.sleep(700.0)
    assert 3 == await world.run()
    found = {one.object: one.why for one in await world.found() if one.kind == "unsettled"}
    single, group = "VolumeSnapshotContent/open", "VolumeGroupSnapshotContent/groupcontent"
    assert {single, group} == set(found)
    assert found[single].startswith("a request for a snapshot of vol got no answer; ")
    assert [True, True] == [
        f"take the annotation {mark} off" in found[key]
        for key, mark in ((single, BEING_CREATED), (group, GROUP_BEING_CREATED))
    ]


async def test_one_whose_snapshot_lives_is_asked_for():
    world = await with_contents(OrphansWorld(Listing("vol")))
    await asyncio.sleep(700.0)
    assert ["asked", "asked"] == [one.kind for one in await world.found() if one.object]


async def test_a_driver_that_lists_no_volumes_may_have_unsettled_snapshots_all_the_same():
    world = await with_contents(OrphansWorld(Listing(lists=False)))
    with pytest.raises(ConfigError, match="LIST_VOLUMES"):
        await world.run()
    await world.delete(VOLUME_SNAPSHOT_CONTENTS, "open")
    await asyncio.sleep(700.0)
    assert 3 == await world.run()
    assert "VolumeSnapshotContent/open: a request for a snapshot of vol" in world.out.getvalue()
    with pytest.raises(ConfigError, match="LIST_VOLUMES"):
        await world.run(delete=True)
