"""The scenarios: for a size, the objects that are there, and the controllers that meet them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.cluster.nodehealth.controller import NodeHealth
from mooring.cluster.snapshots.controller import SnapshotController
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.resizer.controller import Resizer
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.snapshotter.controller import Snapshotter
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    BOUND_CLAIM,
    DRIVER,
    FINALIZER,
    NODE_ID_ANNOTATION,
    RWX,
    Json,
    a_bound_claim,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_held_pv,
    a_new_snapshot,
    a_node,
    a_pod,
    a_pv,
    a_ready_node,
    a_snapshot_class,
    a_va,
)
from tests.support.resizing import ResizingDriver, claim_status
from tests.support.scripted_driver import ScriptedDriver
from tests.support.snapshot_driver import SnapshotDriver
from tests.support.volume_driver import VolumeDriver

Parts = list[Coroutine[Any, Any, None]]
ON_NODE: Final = 50
_SERVICE: Final = csi.PluginCapability.Service
_PROVISIONER: Final = {"volume.kubernetes.io/storage-provisioner": DRIVER}


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """quick, whole: the size that is counted by every run of the tests, and that of a large cluster. seconds: of
    virtual time.

    of_server: the API server's own steps count. done: whether a world has come to the end that was wanted: counts of a
    world in which nothing happened would prove nothing.
    """

    quick: int
    whole: int
    bodies: Callable[[int], list[Json]]
    driver: Callable[[], ScriptedDriver]
    parts: Callable[[StateWorld], Parts]
    done: Callable[[StateWorld, int], bool]
    seconds: float = 120.0
    of_server: bool = False


def _port(world: StateWorld) -> tuple[InProcessDriver, DriverInfo]:
    driver = world.driver
    info = DriverInfo(DRIVER, "1", frozenset(driver.plugin), frozenset(), frozenset(driver.controller))
    return InProcessDriver(driver, clock=world.clock), info


# -- claims


def _places(size: int) -> list[Json]:
    """Each node is a zone of its own; a claim for each fifty of them."""
    nodes = [a_node(f"n{number:05}", labels={"zone": f"n{number:05}"}) for number in range(size)]
    drivers = [a_csi_node(f"n{number:05}", {DRIVER: f"id{number}"}, keys=("zone",)) for number in range(size)]
    return [*nodes, *drivers, a_class("sc"), *_asking(max(2, size // 50))]


def _asking(count: int) -> list[Json]:
    return [a_claim(f"claim{number:05}", uid=f"uid-{number:05}", annotations=_PROVISIONER) for number in range(count)]


def _provisioner(world: StateWorld) -> Parts:
    port, info = _port(world)
    journal = Journal(world.cluster, JournalLocation("default", DRIVER), "one", world.clock)
    options = ProvisionerOptions(worker_threads=100)
    return [Provisioner(world.runtime, port, info, options, world.recorder(DRIVER), intents=journal).run()]


def _all_made(world: StateWorld, size: int) -> bool:
    driver = world.driver
    assert isinstance(driver, VolumeDriver)
    return len(driver.volumes) == len(world.all(PERSISTENT_VOLUME_CLAIMS))


def _claims(size: int) -> list[Json]:
    """Of one class; the binder asks for their volumes, and binds them."""
    return [a_class("sc"), *(a_claim(f"claim{number:05}", uid=f"uid-{number:05}") for number in range(size))]


def _binder_and_provisioner(world: StateWorld) -> Parts:
    return [make_binder(world.runtime, BinderOptions()).run(), *_provisioner(world)]


def _all_bound(world: StateWorld, size: int) -> bool:
    return all(claim["status"].get("phase") == "Bound" for claim in world.all(PERSISTENT_VOLUME_CLAIMS))


def _zonal() -> ScriptedDriver:
    return VolumeDriver(topology={})


def _growing(size: int) -> list[Json]:
    made: list[Json] = []
    for number in range(size):
        claim = a_claim(f"claim{number:05}", size="2Gi", volume=f"pv{number:05}", uid=f"uid-{number:05}")
        made += [
            {**claim, "status": claim_status(1)},
            a_pv(f"pv{number:05}", f"h{number}", claim=claim, storageClassName="sc"),
        ]
    return made


def _at_rest_but_one(size: int) -> list[Json]:
    """The oldest claim alone has not grown yet."""
    made = _growing(size)
    for claim in made[2::2]:
        claim["status"] = claim_status(2)
    return made


def _resizer(world: StateWorld) -> Parts:
    port, info = _port(world)
    return [Resizer(world.runtime, port, info, ResizerOptions(), world.recorder("resizer")).run()]


def _all_grown(world: StateWorld, size: int) -> bool:
    return all(claim["status"]["capacity"]["storage"] == "2Gi" for claim in world.all(PERSISTENT_VOLUME_CLAIMS))


# -- snapshots


def _snapshots(size: int) -> list[Json]:
    """Of one claim."""
    claim = a_bound_claim("claim", "pv")
    taken = [a_new_snapshot(f"snap{number:05}", uid=f"uid-{number:05}") for number in range(size)]
    return [a_snapshot_class(), claim, a_pv("pv", "vol", claim=claim), *taken]


def _snapshot_programs(world: StateWorld) -> Parts:
    port, info = _port(world)
    controller = SnapshotController(world.runtime, SnapshotControllerOptions())
    return [controller.run(), Snapshotter(world.runtime, port, info, SnapshotterOptions()).run()]


def _all_taken(world: StateWorld, size: int) -> bool:
    driver = world.driver
    assert isinstance(driver, SnapshotDriver)
    return len(driver.snapshots) == size


# -- nodes


def _on_one_node(size: int) -> list[Json]:
    """A pod with a volume of its own for each, all of one node."""
    made: list[Json] = [a_csi_driver(), a_csi_node("n1", {DRIVER: "id1"}), a_ready_node("n1")]
    made[-1]["metadata"]["annotations"] = {MANAGED: "true"}
    for number in range(size):
        name = f"claim{number:05}"
        ref = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        pv = a_held_pv(f"pv{number:05}", f"h{number}", modes=RWX, spec={"claimRef": ref})
        made += [
            a_bound_claim(name, f"pv{number:05}", annotations=BOUND_CLAIM),
            pv,
            a_pod(f"pod{number:05}", name, node="n1"),
        ]
    return made


def _attachdetach(world: StateWorld) -> Parts:
    return [AttachDetach(world.runtime, AttachDetachOptions()).run()]


def _attachdetach_and_attacher(world: StateWorld) -> Parts:
    port, info = _port(world)
    return [*_attachdetach(world), Attacher(world.runtime, port, info, AttacherOptions()).run()]


def _all_published(world: StateWorld, size: int) -> bool:
    return sum(bool(nodes) for nodes in world.driver.published.values()) == size


def _without_volume(size: int) -> list[Json]:
    """Attachments whose PersistentVolumes are gone, fifty on each node, and as many pods that wait for volumes of their
    own.
    """
    held = {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id1"}, "status": {"attached": True}}
    made = _on_one_node(size // 50)
    for first in range(0, size, ON_NODE):
        name, handles = f"node{first:05}", [f"lost{number}" for number in range(first, min(size, first + ON_NODE))]
        listed = [{"name": unique_name(DRIVER, handle), "devicePath": ""} for handle in handles]
        node = a_ready_node(name)
        node["metadata"]["annotations"] = {MANAGED: "true"}
        node["status"]["volumesAttached"] = listed
        made += [
            node,
            *(a_va(attachment_name(DRIVER, handle, name), f"pv-{handle}", name, **held) for handle in handles),
        ]
    return made


def _nodes(size: int) -> list[Json]:
    """Silent ones, each with a pod; and nobody hears any of them."""
    made: list[Json] = []
    for number in range(size):
        made += [a_ready_node(f"n{number:05}"), a_pod(f"pod{number:05}", node=f"n{number:05}", phase="Running")]
    return made


def _health(world: StateWorld) -> Parts:
    return [NodeHealth(world.runtime).run()]


# -- the API server's own


def _owned(size: int) -> list[Json]:
    """Claims of one pod that is gone already."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-gone"}
    return [a_claim(f"claim{number:05}", uid=f"uid-{number:05}", ownerReferences=[owner]) for number in range(size)]


def _housekeeping(world: StateWorld) -> Parts:
    async def keep() -> None:
        Housekeeping(world.store, clock=world.clock).start()
        await asyncio.sleep(1e6)

    return [keep()]


def _none_left(world: StateWorld, size: int) -> bool:
    return not world.all(PERSISTENT_VOLUME_CLAIMS)


def _always(world: StateWorld, size: int) -> bool:
    return bool(world.deeds)


SCENARIOS: Final = {
    "places": Scenario(100, 5000, _places, _zonal, _provisioner, _all_made),
    "claims": Scenario(50, 10_000, _claims, VolumeDriver, _binder_and_provisioner, _all_bound),
    "growths": Scenario(50, 10_000, _growing, lambda: ResizingDriver(node_step=False), _resizer, _all_grown),
    "at-rest": Scenario(200, 10_000, _at_rest_but_one, lambda: ResizingDriver(node_step=False), _resizer, _all_grown),
    "snapshots": Scenario(25, 1000, _snapshots, SnapshotDriver, _snapshot_programs, _all_taken),
    "volumes-on-node": Scenario(50, 1000, _on_one_node, ScriptedDriver, _attachdetach_and_attacher, _all_published),
    "attachments-alone": Scenario(200, 10_000, _without_volume, ScriptedDriver, _attachdetach, _always),
    "silent-nodes": Scenario(50, 5000, _nodes, ScriptedDriver, _health, _always),
    "objects-of-owner": Scenario(100, 10_000, _owned, ScriptedDriver, _housekeeping, _none_left, of_server=True),
}
