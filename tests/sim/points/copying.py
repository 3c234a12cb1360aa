"""Scripts of claims that are filled from another claim or from a snapshot, and whose source may go as soon as they
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind, finalizers_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.kube.cluster import Patch, PatchType
from mooring.sidecars.provisioner.names import SNAPSHOT_FINALIZER
from tests.sim.checkers import Complaint
from tests.sim.points.claims import PLAN, Claiming
from tests.sim.points.script import Script, world_of
from tests.sim.provisioning.plan import DRIVER, NAMESPACE
from tests.sim.provisioning.world import ClaimWorld
from tests.sim.snapshots.world import DEFINITIONS
from tests.support.snapshot_crds import SNAPSHOT_CRDS

SNAPSHOT: Final = "s0"


class Copying(Claiming):
    """A snapshot stands beside the claims, and both are copied."""

    async def prepare(self) -> None:
        cluster = self.world.cluster
        for definition in SNAPSHOT_CRDS:
            await cluster.create(DEFINITIONS, definition)
        await super().prepare()
        ref = {"namespace": NAMESPACE, "name": SNAPSHOT}
        spec = {
            "driver": DRIVER,
            "deletionPolicy": "Retain",
            "source": {"snapshotHandle": "snap/1"},
            "volumeSnapshotRef": ref,
        }
        body = {"metadata": {"name": "content0"}, "spec": spec}
        await self._create(VOLUME_SNAPSHOT_CONTENTS, body)
        made = await self._create(
            VOLUME_SNAPSHOTS,
            {"metadata": {"name": SNAPSHOT}, "spec": {"source": {"volumeSnapshotContentName": "content0"}}},
        )
        spec = {"volumeSnapshotRef": {**ref, "uid": made["metadata"]["uid"]}}
        await cluster.patch(VOLUME_SNAPSHOT_CONTENTS.whole(), "content0", Patch(PatchType.MERGE, {"spec": spec}))
        status = {"readyToUse": True, "restoreSize": "1Gi"}
        of_content, of_snapshot = (
            {**status, "restoreSize": 1 << 30, "snapshotHandle": "snap/1"},
            {**status, "boundVolumeSnapshotContentName": "content0"},
        )
        await cluster.patch(
            VOLUME_SNAPSHOT_CONTENTS.whole(),
            "content0",
            Patch(PatchType.MERGE, {"status": of_content}),
            subresource="status",
        )
        await cluster.patch(
            VOLUME_SNAPSHOTS.whole(),
            SNAPSHOT,
            Patch(PatchType.MERGE, {"status": of_snapshot}),
            NAMESPACE,
            subresource="status",
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
        return [
            *super().complaints(),
            *(("source-held", f"{name} is still held, and nobody needs it") for name in held),
        ]


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


_world = world_of(ClaimWorld, PLAN)


CALM_S: Final = 120.0
"""Not as long as a source is held that a stranger holds."""
SWEPT_S: Final = 700.0
"""A finalizer whose PUT came late is swept from the snapshot after an interval of 300 s."""
SCRIPTS: Final = (
    Script(
        "clone",
        "a claim gets a copy of another one's volume",
        _world,
        Copying,
        (provision, clone),
        calm_s=CALM_S,
        early_is_same=False,
    ),
    Script(
        "drop-both",
        "its source is deleted, and then the copy",
        _world,
        Copying,
        (provision, clone, drop_both),
        calm_s=CALM_S,
    ),
    Script(
        "drop-clone",
        "the copy is deleted, perhaps before it is there",
        _world,
        Copying,
        (provision, clone, drop_copy),
        calm_s=CALM_S,
    ),
    Script("restore", "a claim is filled from a snapshot", _world, Copying, (restore,), calm_s=CALM_S),
    Script(
        "drop-restored",
        "it is deleted, perhaps before it is there",
        _world,
        Copying,
        (restore, drop_copy),
        calm_s=SWEPT_S,
    ),
)
