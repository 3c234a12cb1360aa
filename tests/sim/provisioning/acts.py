"""What users and administrators do: each act is a method, drawn by its weight in the plan. They see the truth, and
nothing fails them.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS, PersistentVolumeClaim
from mooring.api.meta import annotation, is_deleting
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.sidecars.provisioner.names import SELECTED_NODE
from tests.sim.acting import Requesting, secret_data
from tests.sim.keeper import Keeper
from tests.sim.provisioning.plan import (
    CLAIMS_MAX,
    DRIVER,
    FOREIGN,
    IMPORTED,
    NAMESPACE,
    NODES,
    SECRET,
    SECRETS_OF,
    ClassPlan,
    is_foreign,
    is_static,
)
from tests.sim.provisioning.world import ClaimWorld
from tests.support.builders import a_va

_PREFIX = "csi.storage.k8s.io"


class Acts(Requesting):
    def __init__(self, world: ClaimWorld, provisioner: Keeper, binder: Keeper) -> None:
        self._world, self._provisioner, self._binder = world, provisioner, binder
        self._randomness, self._truth, self._cluster = world.randomness["actor"], world.truth, world.cluster
        self._count = 0
        self._flavours = {planned.name: 0 for planned in world.plan.classes}
        self._secrets = {planned.name: SECRET for planned in world.plan.classes}

    async def prepare(self) -> None:
        await self.restore_secret()
        for planned in self._world.plan.classes:
            await self._make_class(planned)

    async def tend(self) -> None:
        """The scheduler: a node for each claim that waits for one."""
        waiting = {planned.name for planned in self._world.plan.classes if planned.waits}
        for claim in self._claims():
            if (
                claim.spec.storage_class_name in waiting
                and not claim.spec.volume_name
                and not annotation(claim, SELECTED_NODE)
            ):
                notes = {SELECTED_NODE: self._one_of(NODES)}
                await self._merge(
                    PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, {"metadata": {"annotations": notes}}, NAMESPACE
                )
        if not self._world.faulty:
            await self._give_up()

    async def _give_up(self) -> None:
        """Whose volume was made as its class was before, or is imported, waits in vain until its user has deleted the
        claim.
        """
        backend = self._world.backend
        for claim in self._claims():
            name = f"pvc-{claim.metadata.uid}"
            made, wanted = backend.handles_at(name), self._flavours.get(claim.spec.storage_class_name or "", 0)
            is_other = any(
                handle in self._world.laws.imported or backend.flavours[handle] != str(wanted) for handle in made
            )
            if is_other and self._truth.volume(name) is None:
                await self._delete(PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, NAMESPACE)

    async def make_peace(self) -> None:
        """Everything is back that is needed, and nothing stands in the way any more."""
        await self.restore_secret()
        for planned in self._world.plan.classes:
            await self._make_class(planned)
        for attachment in self._truth.all(VOLUME_ATTACHMENTS):
            await self._delete(VOLUME_ATTACHMENTS, attachment.metadata.name)
        while await self.free_name():
            pass

    # -- claims and volumes

    async def make_claim(self) -> None:
        if len(self._claims()) >= CLAIMS_MAX:
            return
        self._count += 1
        await self._create_claim(f"c{self._count}")

    async def _create_claim(self, name: str, size: str = "1Gi", **spec: Any) -> None:
        spec |= {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        spec.setdefault("storageClassName", self._one_of(self._world.plan.classes).name)
        body = {"metadata": {"name": name}, "spec": spec}
        await self._do(f"create claim {name}", self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), body, NAMESPACE))

    async def drop_claim(self) -> None:
        if claims := self._claims():
            await self._delete(PERSISTENT_VOLUME_CLAIMS, self._one_of(claims).metadata.name, NAMESPACE)

    async def drop_volume(self) -> None:
        """One that is in use, or no more; who deletes one before its claim is bound to it, leaves that stuck, as in
        Kubernetes.
        """
        unbound = {
            claim.metadata.uid for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS) if not claim.spec.volume_name
        }
        claimed = [pv for pv in self._truth.all(PERSISTENT_VOLUMES) if pv.spec.claim_ref and not is_static(pv)]
        if volumes := [pv for pv in claimed if pv.spec.claim_ref and pv.spec.claim_ref.uid not in unbound]:
            await self._delete(PERSISTENT_VOLUMES, self._one_of(volumes).metadata.name)

    async def keep_volume(self) -> None:
        """An administrator wants the data of a volume whatever becomes of its claim."""
        if volumes := self._truth.all(PERSISTENT_VOLUMES):
            spec = {"persistentVolumeReclaimPolicy": "Retain"}
            await self._merge(PERSISTENT_VOLUMES, self._one_of(volumes).metadata.name, {"spec": spec})

    async def take_name(self) -> None:
        """Somebody else's PersistentVolume gets the name that a claim's is about to have, as it happens where names are
        cut short.
        """
        if claims := [claim for claim in self._claims() if not claim.spec.volume_name]:
            name = f"pvc-{self._one_of(claims).metadata.uid}"
            made = self._world.backend.handle_of(name) or f"{name}/1"
            sources: tuple[dict[str, Any], ...] = (
                {"csi": {"driver": DRIVER, "volumeHandle": f"{FOREIGN}/{name}"}},
                {"csi": {"driver": "other.example.com", "volumeHandle": made}},
                {"nfs": {"server": "nfs.example.com", "path": "/"}},
            )
            ref = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": FOREIGN, "uid": FOREIGN}
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
            }
            spec |= self._one_of(sources) | ({"claimRef": ref} if self._randomness.happens(0.5) else {})
            if spec.get("csi", {}).get("driver") == DRIVER:
                self._world.laws.taken_over.add(name)
            body = {"metadata": {"name": name, "labels": {FOREIGN: "yes"}}, "spec": spec}
            await self._do(f"take name {name}: {spec}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body))

    async def free_name(self) -> bool:
        """True when there was one to be deleted."""
        if foreign := [
            pv
            for pv in self._truth.all(PERSISTENT_VOLUMES)
            if is_foreign(pv) and not is_static(pv) and not is_deleting(pv)
        ]:
            await self._delete(PERSISTENT_VOLUMES, self._one_of(foreign).metadata.name)
        return bool(foreign)

    async def import_volume(self) -> None:
        """An administrator writes the object of a volume whose creation is open by hand; one that is about to be
        deleted nobody wants.
        """
        named = {pv.spec.csi.volume_handle for pv in self._truth.all(PERSISTENT_VOLUMES) if pv.spec.csi is not None}
        unwanted = named | self._world.laws.doomed
        made = [self._world.backend.handle_of(intent.volume_name) for intent in self._world.laws.intents()]
        if handles := [handle for handle in made if handle and handle not in unwanted]:
            handle = self._one_of(handles)
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
            await self._do(f"import {handle}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body))

    async def touch(self) -> None:
        if claims := self._claims():
            self._count += 1
            notes = {"users.example.com/count": str(self._count)}
            await self._merge(
                PERSISTENT_VOLUME_CLAIMS,
                self._one_of(claims).metadata.name,
                {"metadata": {"annotations": notes}},
                NAMESPACE,
            )

    async def attach(self) -> None:
        if volumes := self._truth.all(PERSISTENT_VOLUMES):
            name = self._one_of(volumes).metadata.name
            body = a_va(f"va-{name}", name, "node0", attacher=DRIVER)
            await self._do(f"attach {name}", self._cluster.create(VOLUME_ATTACHMENTS.whole(), body))

    async def detach(self) -> None:
        if attachments := self._truth.all(VOLUME_ATTACHMENTS):
            await self._delete(VOLUME_ATTACHMENTS, self._one_of(attachments).metadata.name)

    # -- classes and secrets

    async def drop_class(self) -> None:
        if classes := self._truth.all(STORAGE_CLASSES):
            await self._delete(STORAGE_CLASSES, self._one_of(classes).metadata.name)

    async def restore_class(self) -> None:
        await self._make_class(self._one_of(self._world.plan.classes))

    async def change_class(self) -> None:
        """Made anew with other parameters, as only that way is left: who waits for a volume wants another one from now
        on.
        """
        planned = self._one_of(self._world.plan.classes)
        self._flavours[planned.name] = 1 - self._flavours[planned.name]
        await self._delete(STORAGE_CLASSES, planned.name)
        await self._make_class(planned)

    async def drop_secret(self) -> None:
        await self._delete(SECRETS, SECRET, NAMESPACE)

    async def restore_secret(self) -> None:
        await self._create_secret(SECRET)

    async def _create_secret(self, name: str) -> None:
        body = {"metadata": {"name": name}, "data": secret_data(SECRETS_OF[name])}
        await self._do("create secret", self._cluster.create(SECRETS.whole(), body, NAMESPACE))

    async def _make_class(self, planned: ClassPlan, provisioner: str = DRIVER) -> None:
        name = self._secrets[planned.name]
        secret = {
            f"{_PREFIX}/provisioner-secret-name": name,
            f"{_PREFIX}/provisioner-secret-namespace": NAMESPACE,
            "secret": "yes",
        }
        body = {
            "metadata": {"name": planned.name},
            "provisioner": provisioner,
            "reclaimPolicy": planned.policy,
            "volumeBindingMode": "WaitForFirstConsumer" if planned.waits else "Immediate",
            "parameters": {"flavour": str(self._flavours[planned.name]), **(secret if planned.secret else {})},
        }
        await self._do(f"create class {planned.name}", self._cluster.create(STORAGE_CLASSES.whole(), body))

    # -- processes

    async def restart_driver(self) -> None:
        self._world.backend.restart(self._randomness.uniform(0.0, 2.0))

    async def kill_provisioner(self) -> None:
        self._provisioner.kill()

    async def roll_provisioner(self) -> None:
        await self._provisioner.roll()

    async def kill_binder(self) -> None:
        self._binder.kill()

    # -- hands

    def _claims(self) -> list[PersistentVolumeClaim]:
        return [claim for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS) if not is_deleting(claim)]
