"""The demo's course: one volume's life, from claim to deletion. Written to by a pod, read by the next one on another
node, and by a third after the second one's node has died; grown under that one, photographed, emptied, restored.

After each step API, driver, state file, folders and the mount table must agree, or it fails.
"""

from __future__ import annotations

import inspect
from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES
from mooring.api.workloads import DEPLOYMENTS, REPLICA_SETS
from mooring.base.clock import Clock
from mooring.dev.demo.growth import ATTRIBUTES, GrowthDemo
from mooring.dev.demo.life import CLAIM, LifeDemo
from mooring.dev.demo.stage import CLASS, NAMESPACE, NODE_NAMES, Stage
from mooring.dev.seed_objects import attributes_class, csi_driver, node, snapshot_class, storage_class

_LEFT: Final = (
    *(DEPLOYMENTS, REPLICA_SETS, PODS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS),
    *(VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOT_CLASSES, VOLUME_ATTRIBUTES_CLASSES, STORAGE_CLASSES),
)
_TWICE: Final = ("CreateVolume", "DeleteVolume")
_ONCE: Final = (
    "ControllerExpandVolume",
    "NodeExpandVolume",
    "CreateSnapshot",
    "DeleteSnapshot",
    "ControllerModifyVolume",
)
_FOR_EACH_POD: Final = (
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
)
_PODS: Final = 4


class Demo:
    """run() once."""

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._stage, self._cluster, self._story = stage, stage.cluster, stage.story
        self._life = LifeDemo(stage)
        self._growth = GrowthDemo(stage, self._life, clock)

    async def run(self) -> None:
        """Raises DemoFailed, or what the ports raise."""
        life, growth = self._life, self._growth
        moves = (life.ask, life.run_pod, life.move, life.lose_node, life.let_go, life.return_node)
        changes = (growth.grow, growth.photograph, growth.lose, growth.restore, growth.modify, growth.clear)
        for step in (self._prepare, *moves, *changes, life.end_pod, self._give_back, self._clear_away):
            self._story.step(" ".join((inspect.getdoc(step) or "").partition("\n\n")[0].split()).rstrip("."))
            await step()
        self._count()
        self._story.title("")
        self._story.title("The volume's life, in seconds:")
        for at_s, text in self._stage.timeline:
            self._story.title(f"{at_s:6.3f}  {text}")

    # -- steps; the first line of each is its title

    async def _prepare(self) -> None:
        """Creates the driver's CSIDriver and classes, and two Nodes: the driver registers with the agent of each."""
        name, cluster = self._stage.driver_name, self._cluster
        await cluster.create(CSI_DRIVERS.whole(), csi_driver(name, attaches=True, takes_inline=True))
        await cluster.create(
            STORAGE_CLASSES.whole(), storage_class(name, CLASS, grows=True, fs_type=self._stage.fs_type)
        )
        await cluster.create(VOLUME_SNAPSHOT_CLASSES.whole(), snapshot_class(name, CLASS))
        for attributes, parameters in ATTRIBUTES.items():
            await cluster.create(VOLUME_ATTRIBUTES_CLASSES.whole(), attributes_class(name, attributes, parameters))
        for node_name in NODE_NAMES:
            await cluster.create(NODES.whole(), node(node_name, {}))
        await self._stage.nodes.start()
        for node_name in NODE_NAMES:
            drivers = (await cluster.get(CSI_NODES, node_name)).spec.drivers or ()
            self._stage.expect(
                f"drivers in the CSINode {node_name}", [(name, node_name)], [(one.name, one.node_id) for one in drivers]
            )
        self._story.checked(f"the CSINodes of {' and '.join(NODE_NAMES)} name the driver {name}")

    async def _give_back(self) -> None:
        """The claim is deleted: the binder releases the volume, the provisioner has it deleted."""
        polling = self._stage.polling
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM, NAMESPACE)
        await polling.until(PERSISTENT_VOLUME_CLAIMS, CLAIM, lambda one: one is None, "is gone")
        await polling.until(PERSISTENT_VOLUMES, self._life.pv, lambda pv: pv is None, "is gone")
        self._story.checked("the claim and the PersistentVolume are gone")
        await polling.driver_has_nothing()
        self._stage.moment("detached and deleted, after its Deployment and its claim")

    async def _clear_away(self) -> None:
        """The classes go, and nothing is left."""
        await self._cluster.delete(STORAGE_CLASSES, CLASS)
        await self._cluster.delete(VOLUME_SNAPSHOT_CLASSES, CLASS)
        for name in ATTRIBUTES:
            await self._cluster.delete(VOLUME_ATTRIBUTES_CLASSES, name)
        for kind in _LEFT:
            await self._stage.polling.until_none(kind)
        *names, last = (kind.name for kind in _LEFT)
        self._story.checked(f"the API server has no {', no '.join(names)} and no {last}")
        for where, folder in self._stage.folders.items():
            folder.check_empty(where)
        self._stage.mounts.check()

    def _count(self) -> None:
        """Nothing failed, and nothing was done twice."""
        expected = {**dict.fromkeys(_TWICE, 2), **dict.fromkeys(_ONCE, 1), **dict.fromkeys(_FOR_EACH_POD, _PODS)}
        self._stage.expect(
            "changing calls to the driver", expected, {name: self._story.calls[name] for name in expected}
        )
        self._stage.expect("failed calls", {}, dict(self._story.failed_calls))
        called = (
            f"{', '.join(_TWICE)}: once for each volume; {', '.join(_ONCE)}: called once; "
            f"{', '.join(_FOR_EACH_POD)}: once for each pod"
        )
        self._story.checked(f"{called}; no call failed")
