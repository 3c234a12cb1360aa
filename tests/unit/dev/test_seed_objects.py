"""What `mooring dev` tells the API server before its nodes begin, at the first start and at later ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.core import NODES
from mooring.api.meta import Kind, annotation
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, LOG_PLACE, STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import is_managed
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.dev.extras import Extras, install
from mooring.dev.seed_objects import register
from mooring.kube.cluster import Cluster, Patch, PatchType
from tests.support.rows import each_row

NAME = "csi.test"
ATTACHES, DOES_NOT_ATTACH = DriverCapabilities(NAME, publishes=True), DriverCapabilities(NAME)
NOTHING_MORE = Extras()
EVERYTHING = Extras(grows=True, modifies=True, makes_snapshots=True)
EVERYTHING_BUT_SNAPSHOTS = Extras(grows=True, modifies=True, makes_snapshots=True, wants_snapshots=False)
ALL: tuple[Kind[Any], ...] = (NODES, CSI_NODES, CSI_DRIVERS, STORAGE_CLASSES)


def a_cluster() -> Cluster:
    return LocalCluster(new_store(Random(1), 0.0), clock=LoopClock(), randomness=Random(1))


async def registered(
    cluster: Cluster,
    driver: DriverCapabilities = ATTACHES,
    topology: Mapping[str, Mapping[str, str]] | None = None,
    extras: Extras = NOTHING_MORE,
    *,
    reference: bool = False,
    has_agents: bool = True,
) -> None:
    await register(cluster, driver, ["n"], topology or {}, extras, reference=reference, has_agents=has_agents)


async def labels(cluster: Cluster) -> Mapping[str, str]:
    found: Mapping[str, str] = (await cluster.get(NODES.whole(), "n"))["metadata"]["labels"]
    return found


async def everything(cluster: Cluster) -> list[list[Any]]:
    return [list((await cluster.list(kind.whole())).items) for kind in ALL]


async def test_why_learns_from_the_csidriver_where_the_log_is() -> None:
    cluster = a_cluster()
    await registered(cluster)
    assert "the terminal of mooring dev" == annotation(await cluster.get(CSI_DRIVERS, NAME), LOG_PLACE)


@each_row("before", [{}, {"n": {"zone": "b"}}, {"n": {"zone": "a"}}], ids=["without", "elsewhere", "the same"])
async def test_a_kept_node_gets_the_segments_that_it_has_by_now(before: Mapping[str, Mapping[str, str]]) -> None:
    """Who tries zones keeps the folder."""
    cluster = a_cluster()
    await registered(cluster, topology=before)
    await registered(cluster, topology={"n": {"zone": "a"}})
    assert {"kubernetes.io/hostname": "n", "zone": "a"} == await labels(cluster)


async def test_a_second_start_writes_nothing() -> None:
    cluster = a_cluster()
    await registered(cluster, topology={"n": {"zone": "a"}}, has_agents=False)
    before = await everything(cluster)
    await registered(cluster, topology={"n": {"zone": "a"}}, has_agents=False)
    assert before == await everything(cluster)


async def test_a_driver_is_attached_only_if_it_attaches_also_when_it_learns_it_later() -> None:
    cluster = a_cluster()
    await registered(cluster, DOES_NOT_ATTACH)
    assert (await cluster.get(CSI_DRIVERS, NAME)).spec.attach_required is False
    await registered(cluster, ATTACHES)
    assert (await cluster.get(CSI_DRIVERS, NAME)).spec.attach_required is True


async def test_a_kept_class_follows_another_driver() -> None:
    cluster = a_cluster()
    await registered(cluster)
    await registered(cluster, DriverCapabilities("other.test"))
    assert {"dev": "other.test", "dev-wait": "other.test"} == {
        one.metadata.name: one.provisioner for one in (await cluster.list(STORAGE_CLASSES)).items
    }


async def test_the_reference_driver_has_a_class_of_its_name_and_volumes_of_pods_own() -> None:
    cluster = a_cluster()
    await registered(cluster, reference=True)
    assert {"hostpath", "hostpath-wait"} == {one.metadata.name for one in (await cluster.list(STORAGE_CLASSES)).items}
    assert ("Persistent", "Ephemeral") == (await cluster.get(CSI_DRIVERS, NAME)).spec.volume_lifecycle_modes


async def test_nodes_are_entered_by_their_names_for_a_driver_without_a_node_service_alone() -> None:
    cluster = a_cluster()
    await registered(cluster)
    assert [] == list((await cluster.list(CSI_NODES)).items)
    await registered(cluster, has_agents=False)
    (driver,) = (await cluster.get(CSI_NODES, "n")).spec.drivers or ()
    assert (NAME, "n") == (driver.name, driver.node_id)


async def test_volumes_are_attached_to_a_node_without_an_agent() -> None:
    """The attach/detach controller leaves nodes alone whose kubelet has not asked for it."""
    cluster = a_cluster()
    await registered(cluster, has_agents=False)
    node = await cluster.get(NODES, "n")
    assert is_managed(node)
    assert not node.spec.taints


async def growth(cluster: Cluster) -> dict[str, bool | None]:
    """By class, whether its claims may ask for more."""
    return {
        one["metadata"]["name"]: one.get("allowVolumeExpansion")
        for one in (await cluster.list(STORAGE_CLASSES.whole())).items
    }


async def test_classes_are_those_that_the_driver_has_calls_for() -> None:
    cluster = a_cluster()
    await install(cluster)
    await registered(cluster)
    assert {"dev": None, "dev-wait": None} == await growth(cluster)
    assert (
        ()
        == (await cluster.list(VOLUME_SNAPSHOT_CLASSES)).items
        == (await cluster.list(VOLUME_ATTRIBUTES_CLASSES)).items
    )
    await registered(cluster, extras=EVERYTHING)
    assert {"dev": True, "dev-wait": True} == await growth(cluster), "also those of a time when it did not grow"
    (found,) = (await cluster.list(VOLUME_SNAPSHOT_CLASSES.whole())).items
    assert ("dev", NAME, "Delete") == (found["metadata"]["name"], found["driver"], found["deletionPolicy"])
    assert {"snapshot.storage.kubernetes.io/is-default-class": "true"} == found["metadata"]["annotations"]
    assert () == (await cluster.list(VOLUME_ATTRIBUTES_CLASSES)).items, (
        "nobody knows what another driver's parameters are called"
    )


async def test_the_reference_driver_has_two_classes_of_attributes() -> None:
    cluster = a_cluster()
    await registered(cluster, extras=Extras(grows=True, modifies=True), reference=True)
    found = {one.metadata.name: one.parameters for one in (await cluster.list(VOLUME_ATTRIBUTES_CLASSES)).items}
    assert {"gold": {"iops": "5000"}, "silver": {"iops": "500"}} == found


async def test_a_user_who_forbids_growth_is_heeded_at_the_next_start() -> None:
    cluster = a_cluster()
    await registered(cluster, extras=EVERYTHING_BUT_SNAPSHOTS)
    await cluster.patch(STORAGE_CLASSES, "dev", Patch(PatchType.MERGE, {"allowVolumeExpansion": False}))
    await registered(cluster, extras=EVERYTHING_BUT_SNAPSHOTS)
    assert {"dev": False, "dev-wait": True} == await growth(cluster)
