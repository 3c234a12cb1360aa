"""More of what users and administrators do, each group of it in some lives alone: Secrets, classes, nodes, odd claims,
copies.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import NODES as NODE_OBJECTS
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, SECRETS
from mooring.api.meta import annotation
from mooring.api.snapshot import GROUP, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import CSI_NODES, STORAGE_CLASSES
from mooring.kube.cluster import Patch, PatchType
from mooring.sidecars.provisioner.names import SELECTED_NODE
from tests.sim.provisioning.acts import Acts, secret_data
from tests.sim.provisioning.habits import KEY, OTHER_KEY, ZONES
from tests.sim.provisioning.plan import CLAIMS_MAX, DRIVER, NAMESPACE, NODES, OTHER_SECRET, SECRET, SECRETS_OF
from tests.sim.snapshots.world import DEFINITIONS
from tests.support.builders import a_csi_node, a_node
from tests.support.snapshot_crds import SNAPSHOT_CRDS

OTHER_DRIVER: Final = "other.example.com"
SIZES: Final = ("1", "1m", "1500M", "9223372036854775807", "8Ei")
"""Beside 1Gi: the smallest, a part of a byte, another unit, the largest, and one more than that."""
TOO_LARGE: Final = "8Ei"
MISSING: Final = "missing"
"""A class that nobody makes."""
LONG: Final = "c" * 240
_PLACES: Final = tuple(zip(NODES, ZONES, strict=True))
SNAPSHOTS_MAX: Final = 3


class UserActs(Acts):
    async def prepare(self) -> None:
        await super().prepare()
        await self._create_secret(OTHER_SECRET)
        habits = self._world.plan.habits
        if habits.zoned:
            await self._restore_nodes(*(place for place in _PLACES if place[1] == habits.full or not habits.outgrown))
        if "make_snapshot" in self._world.plan.acts:
            await self._make_kinds()

    async def make_peace(self) -> None:
        for planned in self._world.plan.classes:
            found = self._truth.get(STORAGE_CLASSES, planned.name)
            if found is not None and found.provisioner != DRIVER:
                await self._delete(STORAGE_CLASSES, planned.name)
        await super().make_peace()
        if {"spoil_secret", "change_account"} & set(self._world.plan.acts):
            await self._create_secret(OTHER_SECRET)
            for name, token in SECRETS_OF.items():
                await self._merge(SECRETS, name, {"data": secret_data(token)}, NAMESPACE)
        if self._world.plan.habits.zoned:
            await self.restore_nodes()

    # -- Secrets and classes

    async def spoil_secret(self) -> None:
        """Its token is no longer that of the account, until somebody notices."""
        await self._merge(SECRETS, self._one_of(tuple(SECRETS_OF)), {"data": secret_data("wrong")}, NAMESPACE)

    async def mend_secret(self) -> None:
        name = self._one_of(tuple(SECRETS_OF))
        await self._create_secret(name)
        await self._merge(SECRETS, name, {"data": secret_data(SECRETS_OF[name])}, NAMESPACE)

    async def change_account(self) -> None:
        """A class is made anew with another Secret."""
        planned = self._one_of(self._world.plan.classes)
        self._secrets[planned.name] = OTHER_SECRET if self._secrets[planned.name] == SECRET else SECRET
        await self._delete(STORAGE_CLASSES, planned.name)
        await self._make_class(planned)

    async def foreign_class(self) -> None:
        """A class of the same name is another driver's for a while."""
        planned = self._one_of(self._world.plan.classes)
        await self._delete(STORAGE_CLASSES, planned.name)
        await self._make_class(planned, OTHER_DRIVER)

    async def own_class(self) -> None:
        planned = self._one_of(self._world.plan.classes)
        await self._delete(STORAGE_CLASSES, planned.name)
        await self._make_class(planned)

    # -- nodes

    async def restore_nodes(self) -> None:
        await self._restore_nodes(*_PLACES)

    async def _restore_nodes(self, *places: tuple[str, str]) -> None:
        for name, zone in places:
            body = a_node(name, labels={KEY: zone, OTHER_KEY: zone})
            await self._do(f"create node {name}", self._cluster.create(NODE_OBJECTS.whole(), body))
            body = a_csi_node(name, {DRIVER: f"id-{name}"}, keys=(KEY,))
            await self._do(f"create csinode {name}", self._cluster.create(CSI_NODES.whole(), body))

    async def drop_csi_node(self) -> None:
        await self._delete(CSI_NODES, self._one_of(NODES))

    async def drop_node(self) -> None:
        """One that is selected, if there is one."""
        chosen = [node for claim in self._claims() if (node := annotation(claim, SELECTED_NODE))]
        name = self._one_of(chosen or NODES)
        await self._delete(NODE_OBJECTS, name)
        await self._delete(CSI_NODES, name)

    async def choose_again(self) -> None:
        """The scheduler changes its mind, as it does when the chosen node is full meanwhile."""
        waiting = [claim for claim in self._claims() if annotation(claim, SELECTED_NODE) and not claim.spec.volume_name]
        if waiting:
            notes = {SELECTED_NODE: self._one_of(NODES)}
            await self._merge(
                PERSISTENT_VOLUME_CLAIMS,
                self._one_of(waiting).metadata.name,
                {"metadata": {"annotations": notes}},
                NAMESPACE,
            )

    # -- claims

    async def make_odd_claim(self) -> None:
        if len(self._claims()) < CLAIMS_MAX:
            self._count += 1
            long = self._randomness.happens(0.5)
            name = f"{LONG}-{self._count:012d}"[:253] if long else f"c{self._count}"
            await self._create_claim(name, "1Gi" if long else self._one_of(SIZES))

    async def make_clone(self) -> None:
        """Of a claim that has its volume, or of one that has not."""
        if (claims := self._claims()) and len(claims) < CLAIMS_MAX:
            self._count += 1
            source = self._one_of(claims)
            spec = {"kind": "PersistentVolumeClaim", "name": source.metadata.name}
            size = (source.spec.resources.requests or {}).get("storage", "1Gi")
            await self._create_claim(
                f"c{self._count}", size, dataSource=spec, storageClassName=source.spec.storage_class_name
            )

    # -- snapshots

    async def _make_kinds(self) -> None:
        for definition in SNAPSHOT_CRDS:
            await self._cluster.create(DEFINITIONS, definition)

    def _snapshots(self) -> list[Any]:
        return [one for one in self._truth.all(VOLUME_SNAPSHOTS) if one.metadata.deletion_timestamp is None]

    async def make_snapshot(self) -> None:
        """Ready from the beginning, bound to its content."""
        if len(self._snapshots()) >= SNAPSHOTS_MAX:
            return
        self._count += 1
        name = f"s{self._count}"
        kind = VOLUME_SNAPSHOTS.whole()
        body: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}
        body["spec"] = {"source": {"volumeSnapshotContentName": name}}
        await self._do(f"create snapshot {name}", self._cluster.create(kind, body, NAMESPACE))
        made = self._truth.get(VOLUME_SNAPSHOTS, name, NAMESPACE)
        assert made is not None
        ref = {"namespace": NAMESPACE, "name": name, "uid": made.metadata.uid}
        spec = {
            "driver": DRIVER,
            "deletionPolicy": "Retain",
            "source": {"snapshotHandle": name},
            "volumeSnapshotRef": ref,
        }
        kind = VOLUME_SNAPSHOT_CONTENTS.whole()
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
        await self._do("create content", self._cluster.create(kind, body))
        await self._status(VOLUME_SNAPSHOT_CONTENTS, name, {"snapshotHandle": name, "readyToUse": True})
        bound = {"boundVolumeSnapshotContentName": name, "readyToUse": True, "restoreSize": "1Gi"}
        await self._status(VOLUME_SNAPSHOTS, name, bound, NAMESPACE)

    async def make_restore(self) -> None:
        if (snapshots := self._snapshots()) and len(self._claims()) < CLAIMS_MAX:
            self._count += 1
            source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": self._one_of(snapshots).metadata.name}
            if self._randomness.happens(0.3):
                await self._create_claim(f"c{self._count}", dataSource=source, storageClassName=MISSING)
            else:
                await self._create_claim(f"c{self._count}", dataSource=source)

    async def drop_snapshot(self) -> None:
        """With its content, or content first, as where somebody is in a hurry."""
        if snapshots := self._snapshots():
            name = self._one_of(snapshots).metadata.name
            await self._delete(VOLUME_SNAPSHOTS, name, NAMESPACE)
            if self._randomness.happens(0.3):
                await self._delete(VOLUME_SNAPSHOT_CONTENTS, name)

    async def _status(self, kind: Any, name: str, status: dict[str, Any], namespace: str = "") -> None:
        patch = Patch(PatchType.MERGE, {"status": status})
        await self._do(
            f"status of {name}", self._cluster.patch(kind.whole(), name, patch, namespace, subresource="status")
        )
