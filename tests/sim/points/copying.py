"""Scripts of claims that are filled from another claim or from a snapshot, and whose source may go as soon as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind, finalizers_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.controllers.provisioner.controller import Provisioner
from mooring.controllers.provisioner.intents.journal import Journal
from mooring.controllers.provisioner.names import SNAPSHOT_FINALIZER
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Patch, PatchType
from tests.sim.checkers import Complaint
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.points.claims import PLAN, Claiming
from tests.sim.points.director import Director
from tests.sim.points.script import Script, Stage
from tests.sim.provisioning.acts import Acts
from tests.sim.provisioning.backend import Endpoint, info_of
from tests.sim.provisioning.life import ProvisionersLine, binder
from tests.sim.provisioning.plan import DRIVER, NAMESPACE, PLACE
from tests.sim.provisioning.world import ClaimWorld
from tests.sim.snapshots.world import DEFINITIONS
from tests.sim.standing import WorldGroup
from tests.support.snapshot_crds import SNAPSHOT_CRDS

_RPC: Final = csi.ControllerServiceCapability.RPC
SNAPSHOT: Final = "s0"


class Copier(Endpoint):
    """A driver that fills its volumes from others, and from snapshots."""

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        response = await super().create_volume(request)
        if request.HasField("volume_content_source"):
            response.volume.content_source.CopyFrom(request.volume_content_source)
        return response


def copier_info(plan: Any) -> DriverInfo:
    info = info_of(plan)
    able = info.controller | {_RPC.CLONE_VOLUME, _RPC.CREATE_DELETE_SNAPSHOT}
    return dataclasses.replace(info, controller=frozenset(able))


def provisioner(world: Any, mortal: Mortal) -> Made:
    plan, clock, randomness = world.plan, world.clock, Random(world.plan.seed * 1000 + mortal.number)
    line = ProvisionersLine(world, mortal)
    world.laws.shown = lambda process, plural: line.shown_before_now(plural) if process == mortal.number else 0
    options = ProvisionerOptions(timeout_s=plan.timeout_s, retry_interval_start_s=plan.retry_start_s, retry_interval_max_s=plan.retry_max_s)
    events = EventRecorder(line, mortal.who, clock=clock, randomness=randomness)
    driver, intents = InProcessDriver(Copier(world, mortal), clock=clock), Journal(line, PLACE, mortal.who, clock)
    runtime = Runtime(line, clock, randomness, world.metrics)
    return Provisioner(runtime, driver, copier_info(plan), options, events, intents=intents), line


class Copying(Claiming):
    """sources: what copies are made of; it is let go once there is none to be made."""

    def __init__(self, world: ClaimWorld, director: Director) -> None:
        Stage.__init__(self, world, director)
        self.acts = Acts(world, self.keep("provisioner", provisioner), self.keep("binder", binder))

    async def prepare(self) -> None:
        cluster = self.world.cluster
        for definition in SNAPSHOT_CRDS:
            await cluster.create(DEFINITIONS, definition)
        await super().prepare()
        ref = {"namespace": NAMESPACE, "name": SNAPSHOT}
        spec = {"driver": DRIVER, "deletionPolicy": "Retain", "source": {"snapshotHandle": "snap/1"}, "volumeSnapshotRef": ref}
        body = {"metadata": {"name": "content0"}, "spec": spec}
        await self._create(VOLUME_SNAPSHOT_CONTENTS, body)
        made = await self._create(
            VOLUME_SNAPSHOTS, {"metadata": {"name": SNAPSHOT}, "spec": {"source": {"volumeSnapshotContentName": "content0"}}}
        )
        spec = {"volumeSnapshotRef": {**ref, "uid": made["metadata"]["uid"]}}
        await cluster.patch(VOLUME_SNAPSHOT_CONTENTS.whole(), "content0", Patch(PatchType.MERGE, {"spec": spec}))
        status = {"readyToUse": True, "restoreSize": "1Gi"}
        of_content, of_snapshot = (
            {**status, "restoreSize": 1 << 30, "snapshotHandle": "snap/1"},
            {**status, "boundVolumeSnapshotContentName": "content0"},
        )
        await cluster.patch(
            VOLUME_SNAPSHOT_CONTENTS.whole(), "content0", Patch(PatchType.MERGE, {"status": of_content}), subresource="status"
        )
        await cluster.patch(
            VOLUME_SNAPSHOTS.whole(), SNAPSHOT, Patch(PatchType.MERGE, {"status": of_snapshot}), NAMESPACE, subresource="status"
        )

    async def _create(self, kind: Kind[Any], body: dict[str, Any]) -> Any:
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        return await self.world.cluster.create(kind.whole(), whole, NAMESPACE if kind.namespaced else "")

    async def make_copy(self, name: str, source: dict[str, str]) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "class0",
            "dataSource": source,
        }
        await self._create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})

    def complaints(self) -> Sequence[Complaint]:
        """A claim that is copied is held until it is deleted, a snapshot only as long as copies are made of it."""
        snapshots = self.world.truth.all(VOLUME_SNAPSHOTS)
        held = [one.metadata.name for one in snapshots if SNAPSHOT_FINALIZER in finalizers_of(one)]
        return [*super().complaints(), *(("source-held", f"{name} is still held, and nobody needs it") for name in held)]


async def provision(stage: Copying) -> None:
    await stage.acts.make_claim()


async def clone(stage: Copying) -> None:
    await stage.make_copy("copy", {"kind": "PersistentVolumeClaim", "name": "c1"})


async def restore(stage: Copying) -> None:
    await stage.make_copy("copy", {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": SNAPSHOT})


async def drop_both(stage: Copying) -> None:
    """The claim that is copied is deleted, perhaps while it is; and then the copy, which may never come."""
    await stage.acts._delete(PERSISTENT_VOLUME_CLAIMS, "c1", NAMESPACE)
    await stage.acts._delete(PERSISTENT_VOLUME_CLAIMS, "copy", NAMESPACE)


async def drop_copy(stage: Copying) -> None:
    await stage.acts._delete(PERSISTENT_VOLUME_CLAIMS, "copy", NAMESPACE)


def _world(group: WorldGroup) -> ClaimWorld:
    return ClaimWorld(PLAN, group)


CALM_S: Final = 120.0
"""Not as long as a source is held that a stranger holds."""
SWEPT_S: Final = 700.0
"""A finalizer whose PUT came late is swept from the snapshot after an interval of 300 s."""
SCRIPTS: Final = (
    Script("clone", "a claim gets a copy of another one's volume", _world, Copying, (provision, clone), calm_s=CALM_S, early_is_same=False),
    Script("drop-both", "its source is deleted, and then the copy", _world, Copying, (provision, clone, drop_both), calm_s=CALM_S),
    Script("drop-clone", "the copy is deleted, perhaps before it is there", _world, Copying, (provision, clone, drop_copy), calm_s=CALM_S),
    Script("restore", "a claim is filled from a snapshot", _world, Copying, (restore,), calm_s=CALM_S),
    Script("drop-restored", "it is deleted, perhaps before it is there", _world, Copying, (restore, drop_copy), calm_s=SWEPT_S),
)
