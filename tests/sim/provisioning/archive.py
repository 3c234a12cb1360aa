"""Objects that are lost, and come back from a backup or by hand, in any order; and pods that use their volumes all the
while.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.pods import PODS
from mooring.sidecars.provisioner.names import DELETION_SECRET_NAME
from tests.sim.provisioning.plan import DRIVER, IMPORTED, NAMESPACE, RESTORED, is_foreign, is_imported
from tests.sim.provisioning.users import UserActs
from tests.support.builders import a_pod

_LOST: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)
"""What a backup does not bring back."""


class ArchiveActs(UserActs):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._torn: dict[str, dict[str, Any]] = {}  # PersistentVolumes by name, as they were

    async def make_peace(self) -> None:
        for pod in self._truth.all(PODS):
            await self._end_pod(pod.metadata.name)
        await super().make_peace()

    # -- objects that go

    async def tear_volume(self) -> None:
        """A bound volume's object is gone, finalizers and all, as after a namespace or a CRD was cleaned up by
        force.
        """
        if bound := [pv for pv in self._ours() if pv.status.phase == "Bound"]:
            await self._tear(self._one_of(bound).metadata.name)

    async def _tear(self, name: str) -> None:
        found = self._truth.get(PERSISTENT_VOLUMES.whole(), name)
        if found is None:
            return
        self._torn[name] = copy.deepcopy(found)
        self._world.laws.torn.add(found["spec"]["csi"]["volumeHandle"])
        await self._merge(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})
        await self._delete(PERSISTENT_VOLUMES, name)

    async def tear_claim(self) -> None:
        """Claim and volume of a running pod lose their objects; the pod goes on."""
        used = {name for pod in self._truth.all(PODS) for name in self._world.laws.pods_of.get(pod.metadata.name, ())}
        claims = [claim for claim in self._claims() if claim.spec.volume_name in used]
        if claims:
            claim = self._one_of(claims)
            await self._tear(claim.spec.volume_name)
            self._world.laws.tearing = True
            await self._merge(
                PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, {"metadata": {"finalizers": None}}, NAMESPACE
            )
            self._world.laws.tearing = False
            await self._delete(PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, NAMESPACE)

    async def damage_ref(self) -> None:
        """Somebody's tool takes claimRef away from a volume in use, or the uid or the names in it."""
        if bound := [pv for pv in self._ours() if pv.status.phase == "Bound"]:
            ref = self._one_of(
                (None, {"uid": None}, {"name": ""}, {"name": "other"}, {"namespace": None, "name": None})
            )
            name = self._one_of(bound).metadata.name
            self._world.laws.damaged, self._world.laws.damaged_ever = {name}, True
            self._world.laws.freed.add(name)
            await self._merge(PERSISTENT_VOLUMES, name, {"spec": {"claimRef": ref}})
            self._world.laws.damaged = set()

    # -- and come back

    async def restore_volume(self) -> None:
        """As it was, or without the uid of its claim."""
        gone = [name for name in sorted(self._torn) if self._truth.volume(name) is None]
        if gone:
            body = copy.deepcopy(self._torn[self._one_of(gone)])
            body["metadata"] = {key: value for key, value in body["metadata"].items() if key not in _LOST}
            body["metadata"].setdefault("labels", {})[RESTORED] = "yes"
            body.pop("status", None)
            if self._randomness.happens(0.3):
                body["spec"]["claimRef"].pop("uid", None)
            if self._randomness.happens(
                0.5
            ):  # as an earlier external-provisioner wrote it: then the class says whether there is a Secret
                body["metadata"]["annotations"].pop(DELETION_SECRET_NAME, None)
            await self._do(
                f"restore {body['metadata']['name']}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body)
            )

    async def claim_by_name(self) -> None:
        """A claim comes back before its volume's object, or means one that somebody else has."""
        if self._torn:
            self._count += 1
            name = self._one_of(sorted(self._torn))
            await self._create_claim(
                f"n{self._count}", volumeName=name, storageClassName=self._torn[name]["spec"]["storageClassName"]
            )

    async def import_under_name(self) -> None:
        """An administrator writes the object that the provisioner is about to write: under its name, for its claim, to
        be retained.
        """
        waiting = [claim for claim in self._claims() if not claim.spec.volume_name]
        made = [
            (claim, handle)
            for claim in waiting
            if (handle := self._world.backend.handle_of(f"pvc-{claim.metadata.uid}"))
        ]
        if unwanted := [(claim, handle) for claim, handle in made if handle not in self._world.laws.doomed]:
            claim, handle = self._one_of(unwanted)
            ref = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": claim.metadata.name}
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
            }
            spec |= {
                "storageClassName": claim.spec.storage_class_name,
                "csi": {"driver": DRIVER, "volumeHandle": handle},
                "claimRef": ref,
            }
            body = {"metadata": {"name": f"pvc-{claim.metadata.uid}", "labels": {RESTORED: "yes"}}, "spec": spec}
            await self._do(
                f"write {body['metadata']['name']} by hand", self._cluster.create(PERSISTENT_VOLUMES.whole(), body)
            )

    async def name_again(self) -> None:
        """A second object for a volume that has one, to be retained: somebody means to keep its data."""
        bound = [
            pv.spec.csi.volume_handle for pv in self._ours() if pv.spec.csi is not None and pv.status.phase == "Bound"
        ]
        if wanted := [handle for handle in bound if handle not in self._world.laws.doomed]:
            handle = self._one_of(wanted)
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
            }
            spec |= {"csi": {"driver": DRIVER, "volumeHandle": handle}}
            body = {
                "metadata": {"name": f"imported-{handle.replace('/', '-')}", "labels": {IMPORTED: "yes"}},
                "spec": spec,
            }
            await self._do(
                f"import {handle}, which has an object", self._cluster.create(PERSISTENT_VOLUMES.whole(), body)
            )

    def _ours(self) -> list[PersistentVolume]:
        return [pv for pv in self._truth.all(PERSISTENT_VOLUMES) if not is_foreign(pv) and not is_imported(pv)]

    # -- pods

    async def make_pod(self) -> None:
        if bound := [claim for claim in self._claims() if claim.status.phase == "Bound"]:
            self._count += 1
            claim = self._one_of(bound)
            name = f"p{self._count}"
            body = a_pod(name, claim.metadata.name, node="node0", phase="Running")
            self._world.laws.pods_of[name] = {claim.spec.volume_name}
            await self._do(
                f"create pod {name} with {claim.metadata.name}", self._cluster.create(PODS.whole(), body, NAMESPACE)
            )

    async def drop_pod(self) -> None:
        if pods := self._truth.all(PODS):
            await self._end_pod(self._one_of(pods).metadata.name)

    async def _end_pod(self, name: str) -> None:
        """As its kubelet does in the end."""
        await self._do(f"delete pod {name}", self._cluster.delete(PODS, name, NAMESPACE, grace_period_s=0))
