"""`mooring why` (issue 29) of a claim that waits for its provisioner: that one's own judgement, before any Event tells
of it.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.storage import STORAGE_CLASSES
from mooring.apiserver.local import ServerFaults
from mooring.cluster.binder.volumes.reasons import WaitsForProvisioner
from mooring.inspect.reading import Reading
from mooring.inspect.whole import decoded
from mooring.inspect.why.provisioning import QUIET_S, provisioning_link
from mooring.kube.errors import Forbidden
from tests.support.builders import (
    DRIVER,
    a_bound_claim,
    a_claim,
    a_class,
    a_csi_driver,
    a_new_snapshot,
    a_volume,
    an_attributes_class,
)
from tests.support.explaining import WhyWorld
from tests.support.rows import each_row
from tests.support.snapshot_crds import SNAPSHOT_CRDS
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

ASKED = {"annotations": {"volume.kubernetes.io/storage-provisioner": DRIVER}}
OF_SNAPSHOT = {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}}
OF_CLAIM = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "origin"}}


async def a_world(
    faults: ServerFaults | None = None, parameters: dict[str, str] | None = None, **claim: Any
) -> WhyWorld:
    """A claim whose provisioner has been asked."""
    world = WhyWorld(faults)
    await world.make_snapshot_kinds(SNAPSHOT_CRDS)
    await world.create(a_class(parameters=parameters), a_csi_driver(), a_claim(**{**ASKED, **claim}))
    return world


async def test_the_provisioner_s_own_words_say_that_the_driver_is_asked() -> None:
    world = await a_world()
    link = await world.blocking("pvc/claim")
    assert ("claim claim", "waiting", "cluster") == (link["name"], link["state"], link["mover"])
    assert link["text"].startswith('the CSI driver is asked for volume "pvc-')


async def test_a_volume_that_is_made_is_known_whatever_its_name_begins_with() -> None:
    """--volume-name-prefix: then it is the binder's move, and the driver is not asked again."""
    for prefix in ("pvc", "shelf"):
        world = await a_world()
        claim = await world.get(PERSISTENT_VOLUME_CLAIMS, "claim")
        name = f"{prefix}-{claim['metadata']['uid']}"
        await world.create(a_volume(name, claim=claim))
        await world.tell(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}", "Normal")
        link = await world.blocking("pvc/claim")
        assert name in link["text"], prefix
        assert "the binder (kube-controller-manager, or mooring binder)" == link["who"], prefix


async def test_a_snapshot_that_is_not_ready_keeps_its_claim_and_is_the_next_thing_to_ask_about() -> None:
    world = await a_world(**OF_SNAPSHOT)
    link = await world.blocking("pvc/claim")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert 'volumesnapshots.snapshot.storage.k8s.io "snap" not found' in link["text"]
    await world.create(a_new_snapshot(claim="other"))
    link = await world.blocking("pvc/claim")
    assert link["text"].endswith(
        "error getting handle for DataSource Type VolumeSnapshot by Name snap: snapshot snap not bound"
    )
    assert "mooring why -n default vs/snap" == link["commands"][0]["line"]


async def test_a_source_claim_that_is_smaller_than_it_is_the_owner_s() -> None:
    world = await a_world(size="512Mi", **OF_CLAIM)
    origin = await world.create(a_bound_claim("origin"))
    await world.create(a_volume(claim=origin, phase="Bound"))
    link = await world.blocking("pvc/claim")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert "must be" in link["text"]
    assert "mooring why -n default pvc/origin" == link["commands"][0]["line"]


async def test_a_clone_of_a_bound_claim_is_asked_for() -> None:
    world = await a_world(**OF_CLAIM)
    origin = await world.create(a_bound_claim("origin"))
    noted = {"annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}}
    await world.create(a_volume(claim=origin, phase="Bound", **noted))
    assert "the CSI driver is asked" in (await world.blocking("pvc/claim"))["text"]


async def test_a_selector_is_told_before_the_provisioner_s_next_try() -> None:
    world = await a_world(selector={"matchLabels": {"a": "b"}})
    link = await world.blocking("pvc/claim")
    assert ("failed", "user", "claim Selector is not supported") == (link["state"], link["mover"], link["text"])
    assert "kubectl get storageclass sc -o yaml" == link["commands"][0]["line"]


async def test_a_parameter_that_nobody_knows_is_whose_class_it_is() -> None:
    world = await a_world(parameters={"csi.storage.k8s.io/nosuch": "x"})
    link = await world.blocking("pvc/claim")
    assert ("failed", "user") == (link["state"], link["mover"])
    assert "csi.storage.k8s.io/nosuch" in link["text"]


async def test_an_attributes_class_of_another_driver_is_told() -> None:
    world = await a_world(volumeAttributesClassName="gold")
    assert 'volumeattributesclasses.storage.k8s.io "gold" not found' in (await world.blocking("pvc/claim"))["text"]
    await world.create(an_attributes_class("gold", driverName="csi.other"))
    assert "is for driver csi.other" in (await world.blocking("pvc/claim"))["text"]


async def test_a_source_of_another_kind_is_a_populator_s() -> None:
    world = await a_world(dataSourceRef={"apiGroup": "example.com", "kind": "Backup", "name": "b"})
    link = await world.blocking("pvc/claim")
    assert ("waiting", "a volume populator fills it from its Backup") == (link["state"], link["text"])
    assert "the volume populator that knows the kind Backup" == link["who"]


async def test_a_volume_that_is_made_waits_for_the_binder() -> None:
    world = await a_world()
    claim = await world.get(PERSISTENT_VOLUME_CLAIMS, "claim")
    await world.create(a_volume(f"pvc-{claim['metadata']['uid']}", claim={"kind": "PersistentVolumeClaim", **claim}))
    link = await world.blocking("pvc/claim")
    assert ("waiting", "the binder (kube-controller-manager, or mooring binder)") == (link["state"], link["who"])


async def test_a_secret_is_not_read_and_an_event_tells_that_it_is_missing() -> None:
    secret = {
        "csi.storage.k8s.io/provisioner-secret-name": "keys",
        "csi.storage.k8s.io/provisioner-secret-namespace": "vault",
    }
    world = await a_world(parameters=secret)
    assert "the CSI driver is asked" in (await world.blocking("pvc/claim"))["text"]
    claim = {"kind": "PersistentVolumeClaim", **(await world.get(PERSISTENT_VOLUME_CLAIMS, "claim"))}
    await world.tell(
        claim, "ProvisioningFailed", 'error getting secret keys in namespace vault: secrets "keys" not found'
    )
    assert 'the secret "vault/keys" does not exist' == (await world.blocking("pvc/claim"))["text"]


class NoSnapshots(ServerFaults):
    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if kind.plural == "volumesnapshots" and verb == "get":
            raise Forbidden("no right to snapshots")


async def test_a_source_that_can_t_be_seen_is_not_taken_for_missing() -> None:
    world = await a_world(NoSnapshots(), **OF_SNAPSHOT)
    link = await world.blocking("pvc/claim")
    assert ("unseen", "unknown") == (link["state"], link["mover"])
    assert "VolumeSnapshot default/snap is looked up first, and it could not be seen" == link["text"]


async def test_a_source_in_another_namespace_is_left_to_the_events() -> None:
    """Whether it is granted, no object that was read says. A server with the gate keeps the namespace; ours takes the
    source out.
    """
    reading = Reading((await a_world()).cluster, 0.0)
    ref = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap", "namespace": "far"}
    claim = decoded(PERSISTENT_VOLUME_CLAIMS, a_claim(dataSourceRef=ref, namespace="default", uid="uid", **ASKED))
    reading.scene.claims.put(claim)
    reading.scene.classes.put(decoded(STORAGE_CLASSES, a_class()))
    assert "waiting" == provisioning_link(reading.scene, "claim", claim, WaitsForProvisioner(DRIVER)).state.value


@each_row("migrated", [False, True])
async def test_an_in_tree_class_is_the_csi_driver_s_that_took_over(migrated: bool) -> None:
    world = WhyWorld()
    csi = "pd.csi.storage.gke.io"
    notes = {"volume.kubernetes.io/storage-provisioner": csi, "pv.kubernetes.io/migrated-to": csi} if migrated else {}
    await world.create(a_class(provisioner="kubernetes.io/gce-pd"), a_csi_driver(csi))
    await world.create(a_claim(annotations=notes))
    assert (f"csi-provisioner of {csi}" if migrated else "the owner of the claim") == (
        await world.blocking("pvc/claim")
    )["who"]


async def test_a_provisioner_that_is_no_csi_driver_is_waited_for_or_missed_like_others() -> None:
    """A CSIDriver of such a name can't even be asked for."""
    world = WhyWorld()
    await world.create(a_class(provisioner="cluster.local/nfs"), a_claim())
    assert "waiting" == (await world.blocking("pvc/claim"))["state"]
    await world.clock.sleep(QUIET_S + 1)
    assert (
        'nothing in this cluster answers for the provisioner "cluster.local/nfs"'
        in (await world.blocking("pvc/claim"))["text"]
    )
