"""Acts of users and administrators: each is a method, drawn by its weight. They see the truth, and nothing fails
them.
"""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.pods import PODS
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.kube.cluster import Patch, PatchType
from tests.sim.acting import Requesting, secret_data
from tests.sim.growth.backend import WHOLE
from tests.sim.growth.kubelet import Kubelet
from tests.sim.growth.laws import Json, bytes_of, handle_of
from tests.sim.growth.odd_acts import OddActs
from tests.sim.growth.plan import (
    CLAIMS_MAX,
    CLASSES,
    DRIVER,
    GIB,
    GROWING,
    INFEASIBLE_CLASS,
    MISSING_CLASS,
    NAMESPACE,
    SECRET,
    SIZE_MAX,
)
from tests.sim.growth.setting_back import SettingBack
from tests.sim.growth.world import GrowthWorld
from tests.sim.keeper import Keeper
from tests.support.builders import CONTAINER

NAME_MAX = 253


class Acts(Requesting):
    def __init__(self, world: GrowthWorld, resizer: Keeper) -> None:
        self._world, self._resizer = world, resizer
        self._randomness, self._truth, self._cluster, self._backend = (
            world.randomness["actor"],
            world.truth,
            world.cluster,
            world.backend,
        )
        self._claims, self._count, self._token = world.laws.claims, 0, "token0"
        self._kubelet, self._odd = Kubelet(world), OddActs(world, self._merge, self._do)
        self._setting_back, self._in_peace = (
            SettingBack(world, self._merge, self._do, _pod_of, self.restore_secret),
            False,
        )

    async def prepare(self) -> None:
        body = {"metadata": {"name": GROWING}, "provisioner": DRIVER, "allowVolumeExpansion": True}
        await self._do("create StorageClass", self._cluster.create(STORAGE_CLASSES.whole(), body))
        await self.restore_secret()
        for _ in (*CLASSES, INFEASIBLE_CLASS):
            await self.restore_class()
        await self._odd.prepare()
        await self.make_claim()

    async def disturb(self) -> None:
        await super().disturb()
        await self._odd.disturb()
        await self._setting_back.disturb()

    async def tend(self) -> None:
        """The nodes do their part. In peace, users ask for what a server that was set back has forgotten."""
        await self._kubelet.tend()
        if self._in_peace:
            await self._setting_back.tend()

    async def make_peace(self) -> None:
        """Everything is back that is needed, and what can't be had is wished no more."""
        await self.restore_secret()
        await self._odd.make_peace()
        for _ in (*CLASSES, INFEASIBLE_CLASS):
            await self.restore_class()
        for claim in list(self._claims.values()):
            await self._leave(claim)
            if claim["spec"].get("volumeAttributesClassName") in (INFEASIBLE_CLASS, MISSING_CLASS):
                await self._choose_class(claim, self._one_of(CLASSES))
            limit = self._backend.limits.get(handle_of(claim), SIZE_MAX * GIB)
            if _wish(claim) > WHOLE:
                await self.unlimit()
                await self._wish(claim, max(SIZE_MAX * GIB, bytes_of(claim["status"]["capacity"]) + 1))
                continue
            if _wish(claim) > limit:
                if self._randomness.happens(0.5) and limit > bytes_of(claim["status"]["capacity"]):
                    await self._wish(claim, limit)
                else:
                    await self.unlimit()
        self._in_peace = True

    # -- claims

    async def make_claim(self) -> None:
        if len(self._claims) >= CLAIMS_MAX:
            return
        self._count += 1
        name, pv_name, size = f"c{self._count}", f"pv{self._count}", GIB * (1 + self._randomness.below(3))
        if self._world.plan.habits.long_names:
            name, pv_name = name.ljust(NAME_MAX, "x"), pv_name.ljust(NAME_MAX, "x")
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": GROWING}
        claim = {
            "metadata": {"name": name},
            "spec": {**common, "volumeName": pv_name, "resources": {"requests": {"storage": str(size)}}},
        }
        made = await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim, NAMESPACE)
        self._backend.make(
            f"h-{pv_name}",
            size,
            on_node=self._world.plan.on_node or self._randomness.happens(self._world.plan.node_share),
        )
        source: Json = {"driver": DRIVER, "volumeHandle": f"h-{pv_name}"}
        if self._world.plan.wants_secret:
            source["controllerExpandSecretRef"] = {"name": SECRET, "namespace": NAMESPACE}
            self._backend.secrets[f"h-{pv_name}"] = self._token
        ref = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name, "uid": made["metadata"]["uid"]}
        spec = {
            **common,
            "capacity": {"storage": str(size)},
            "csi": source,
            "claimRef": ref,
            "persistentVolumeReclaimPolicy": "Delete",
        }
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), {"metadata": {"name": pv_name}, "spec": spec})
        status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": str(size)}}
        await self._merge(PERSISTENT_VOLUME_CLAIMS, name, {"status": status}, NAMESPACE, "status")

    async def drop_claim(self) -> None:
        """With its volume, and all that holds them."""
        if claim := self._some():
            await self._leave(claim)
            name, pv_name = claim["metadata"]["name"], claim["spec"]["volumeName"]
            for kind, obj, namespace in (
                (PERSISTENT_VOLUME_CLAIMS, name, NAMESPACE),
                (PERSISTENT_VOLUMES, pv_name, ""),
            ):
                await self._merge(kind, obj, {"metadata": {"finalizers": None}}, namespace)
                await self._do(f"delete {kind.name} {obj}", self._cluster.delete(kind, obj, namespace))
            self._backend.drop(handle_of(claim))

    async def grow(self) -> None:
        if claim := self._some():
            await self._wish(claim, min(_wish(claim) + GIB * (1 + self._randomness.below(4)), SIZE_MAX * GIB))

    async def shrink(self) -> None:
        """A growth that has not come about may be taken back, or made smaller."""
        if claim := self._some():
            has, wish = bytes_of(claim["status"].get("capacity")), _wish(claim)
            if wish > has + 1:
                await self._wish(claim, has + 1 + self._randomness.below(wish - has - 1))

    async def _wish(self, claim: Json, size: int) -> None:
        spec = {"resources": {"requests": {"storage": str(size)}}}
        await self._merge(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], {"spec": spec}, NAMESPACE)

    async def touch(self) -> None:
        """Others write to claims, too."""
        if claim := self._some():
            self._count += 1
            name, text = claim["metadata"]["name"], str(self._count)
            await self._merge(
                PERSISTENT_VOLUME_CLAIMS,
                name,
                {"metadata": {"annotations": {"users.example.com/count": text}}},
                NAMESPACE,
            )
            condition = {"type": "users.example.com/Looked", "status": "True", "message": text}
            patch = Patch(PatchType.STRATEGIC, {"status": {"conditions": [condition]}})
            request = self._cluster.patch(
                PERSISTENT_VOLUME_CLAIMS.whole(), name, patch, NAMESPACE, subresource="status"
            )
            await self._do(f"a condition of others on {name}", request)

    # -- pods

    async def use(self) -> None:
        if claim := self._some():
            name, handle = claim["metadata"]["name"], handle_of(claim)
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
            body = {"metadata": {"name": _pod_of(claim)}, "spec": {"containers": [CONTAINER], "volumes": [volume]}}
            self._backend.in_use.add(handle)
            await self._do(f"create Pod {_pod_of(claim)}", self._cluster.create(PODS.whole(), body, NAMESPACE))

    async def leave(self) -> None:
        if claim := self._some():
            await self._leave(claim)

    async def _leave(self, claim: Json) -> None:
        self._backend.in_use.discard(handle_of(claim))
        name = _pod_of(claim)
        await self._do(f"delete Pod {name}", self._cluster.delete(PODS, name, NAMESPACE))

    # -- the storage

    async def limit(self) -> None:
        """There is only room for a little more."""
        if claim := self._some():
            handle = handle_of(claim)
            self._backend.limits[handle] = self._backend.sizes[handle] + GIB * self._randomness.below(3)
            self._tell(f"limit {handle} to {self._backend.limits[handle]}")

    async def unlimit(self) -> None:
        self._backend.limits.clear()
        self._tell("there is room again")

    async def restart_driver(self) -> None:
        self._backend.restart(self._randomness.uniform(0.0, 2.0))

    # -- classes and secrets

    async def choose_class(self) -> None:
        if claim := self._some():
            await self._choose_class(claim, self._one_of((*CLASSES, *CLASSES, INFEASIBLE_CLASS, MISSING_CLASS, None)))

    async def _choose_class(self, claim: Json, name: str | None) -> None:
        await self._merge(
            PERSISTENT_VOLUME_CLAIMS,
            claim["metadata"]["name"],
            {"spec": {"volumeAttributesClassName": name}},
            NAMESPACE,
        )

    async def drop_class(self) -> None:
        name = self._one_of((*CLASSES, INFEASIBLE_CLASS))
        await self._merge(VOLUME_ATTRIBUTES_CLASSES, name, {"metadata": {"finalizers": None}})
        await self._do(f"delete VolumeAttributesClass {name}", self._cluster.delete(VOLUME_ATTRIBUTES_CLASSES, name))

    async def restore_class(self) -> None:
        for name in (*CLASSES, INFEASIBLE_CLASS):
            if not self._truth.version(VOLUME_ATTRIBUTES_CLASSES, name):
                body = {"metadata": {"name": name}, "driverName": DRIVER, "parameters": {"level": name}}
                await self._do(
                    f"create VolumeAttributesClass {name}",
                    self._cluster.create(VOLUME_ATTRIBUTES_CLASSES.whole(), body),
                )
                return

    async def change_secret(self) -> None:
        """The storage first: until the Secret follows, it refuses."""
        self._count += 1
        self._token = f"token{self._count}"
        for handle in self._backend.secrets:
            self._backend.secrets[handle] = self._token
        self._tell(f"the storage wants {self._token}")

    async def drop_secret(self) -> None:
        await self._do("delete Secret", self._cluster.delete(SECRETS, SECRET, NAMESPACE))

    async def restore_secret(self) -> None:
        data = secret_data(self._token)
        if self._truth.version(SECRETS, SECRET, NAMESPACE):
            await self._merge(SECRETS, SECRET, {"data": data}, NAMESPACE)
        else:
            await self._do(
                "create Secret",
                self._cluster.create(SECRETS.whole(), {"metadata": {"name": SECRET}, "data": data}, NAMESPACE),
            )

    # -- processes

    async def kill_resizer(self) -> None:
        self._resizer.kill()

    async def roll_resizer(self) -> None:
        await self._resizer.roll()

    # -- hands

    def _some(self) -> Json | None:
        """Some claim, if there is any."""
        return self._claims[self._one_of(sorted(self._claims))] if self._claims else None


def _pod_of(claim: Json) -> str:
    return f"pod-{claim['metadata']['name']}"[:NAME_MAX]


def _wish(claim: Json) -> int:
    return bytes_of(claim["spec"]["resources"]["requests"])
