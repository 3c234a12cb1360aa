"""The requests of everybody but the programs, without faults; and the hand that does node health's work where that does
not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any, Final

from mooring.api.core import NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS
from mooring.cluster.nodehealth.view import NOT_READY_TAINT
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from tests.sim.plan import DRIVER
from tests.sim.plane.claim_laws import HAND
from tests.sim.plane.kubelet import Kubelet
from tests.sim.plane.placing import place_of
from tests.sim.plane.plan import NAMESPACE, OTHER, VolumePlan
from tests.sim.plane.stands import FINISHED, Json, NodeStand, is_alive, is_gone, node_of
from tests.sim.plane.user_hands import UserHands
from tests.sim.plane.world import PlaneWorld
from tests.support.builders import CONTAINER, a_claim, a_csi_driver, a_pod

GRACE_S: Final = 50.0
LOOK_S: Final = 5.0
CLASS: Final = "class0"
SECOND: Final = "-second"
"""What the names of a second volume and its claim end with."""
PROTECTIONS: Final = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection")


class Hands(UserHands):
    """kubelets: by node."""

    def __init__(self, world: PlaneWorld, kubelets: dict[str, Kubelet]) -> None:
        self._world, self._cluster, self.kubelets = world, world.cluster, kubelets
        self._silent_s: dict[str, float] = {}

    def tell(self, what: str) -> None:
        self._world.story.tell("actor", what)

    def is_on_living(self, pod: Json) -> bool:
        """True for a pod that has a node whose kubelet runs."""
        kubelet = self.kubelets.get(node_of(pod))
        return kubelet is not None and kubelet.alive

    async def do(self, what: str, request: Awaitable[Any]) -> Any:
        """Races are part of life: what was refused is tried again by whoever still misses it."""
        self.tell(what)
        token = HAND.set(True)
        try:
            with contextlib.suppress(ApiError):
                return await request
        finally:
            HAND.reset(token)

    async def merge(
        self, kind: Kind[Any], name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> None:
        patch = Patch(PatchType.MERGE, body)
        await self.do(
            f"patch {kind.name} {name} {body}",
            self._cluster.patch(kind.whole(), name, patch, namespace, subresource=subresource),
        )

    async def delete(
        self, kind: Kind[Any], name: str, namespace: str = "", grace_s: int | None = None, *, propagation: str = ""
    ) -> None:
        how = f" {propagation}".rstrip() if grace_s is None else " by force"
        request = self._cluster.delete(kind, name, namespace, grace_period_s=grace_s, propagation=propagation)
        await self.do(f"delete {kind.name} {name}{how}", request)

    async def prepare(self) -> None:
        await self.do("create namespace", self._cluster.create(NAMESPACES.whole(), {"metadata": {"name": OTHER}}))
        await self.do(
            "create CSIDriver", self._cluster.create(CSI_DRIVERS.whole(), a_csi_driver(DRIVER, storageCapacity=False))
        )
        for name in self.classes if self._world.plan.manners.classes else (CLASS,):
            await self.make_class(name, "")

    # -- volumes

    async def make_volume(self, volume: VolumePlan, *, second: bool = False) -> None:
        """With its claim, that it is reserved for."""
        name, namespace = (f"{volume.name}{SECOND}", OTHER) if second else (volume.name, NAMESPACE)
        if self._world.plan.provisions:
            claim = a_claim(name, sc=CLASS, modes=[volume.mode])
            await self.do(
                f"create claim {name}", self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim, namespace)
            )
            return
        if (made := await self.make_claim(name, volume, name, namespace)) is not None:
            reference = {
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": made["metadata"]["uid"],
            }
            await self.make_pv(name, volume, volume.handle, reference)

    async def bind(self, volume: VolumePlan, *, second: bool = False) -> None:
        name, namespace = (f"{volume.name}{SECOND}", OTHER) if second else (volume.name, NAMESPACE)
        await self.bind_claim(name, volume, namespace)

    async def tend(self) -> None:
        """Protections of what is deleted: off a claim that no pod names, and off a volume whose claim is gone. The
        binder's work.
        """
        laws = self._world.laws
        if self._world.plan.provisions:
            return
        named = {
            (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
            for pod in laws.pods.values()
            if not is_gone(pod)
            for volume in pod["spec"].get("volumes") or ()
        }
        for key, claim in list(laws.claims.items()):
            if "deletionTimestamp" in claim["metadata"] and key not in named:
                await self._unprotect(PERSISTENT_VOLUME_CLAIMS, claim, key[0])
        for pv in list(laws.volumes.values()):
            ref = pv["spec"].get("claimRef") or {}
            claim = laws.claims.get((ref.get("namespace", ""), ref.get("name", "")))
            if "deletionTimestamp" in pv["metadata"] and (claim is None or claim["metadata"]["uid"] != ref.get("uid")):
                await self._unprotect(PERSISTENT_VOLUMES, pv)
        if not self._world.faulty:
            laws.clean_up()

    async def _unprotect(self, kind: Kind[Any], obj: Json, namespace: str = "") -> None:
        meta = obj["metadata"]
        others = [one for one in meta.get("finalizers", []) if one not in PROTECTIONS]
        if others != meta.get("finalizers", []):
            body = {"metadata": {"finalizers": others or None, "resourceVersion": meta["resourceVersion"]}}
            await self.merge(kind, meta["name"], body, namespace)

    # -- pods and nodes

    async def make_pod(self, name: str, claims: list[str], node: str, namespace: str = NAMESPACE) -> None:
        seconds = int(self._world.plan.tolerated_s)
        tolerated = [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": seconds,
            }
            for key in ("not-ready", "unreachable")
        ]
        container = {**CONTAINER, "volumeMounts": [{"name": claim, "mountPath": f"/{claim}"} for claim in claims]}
        body = a_pod(
            name, *claims, tolerations=tolerated, containers=[container], **place_of(self._world.plan, name, node)
        )
        await self.do(f"create pod {name} on {node} with {claims}", self._cluster.create(PODS.whole(), body, namespace))

    async def taint(self, node: str) -> None:
        found = self._world.truth.get(NODES.whole(), node)
        if found is not None:
            taints = [one for one in found["spec"].get("taints") or () if one["key"] != OUT_OF_SERVICE_TAINT]
            taints.append({"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"})
            await self.merge(NODES, node, {"spec": {"taints": taints}})

    async def untaint(self, node: str) -> None:
        found = self._world.truth.get(NODES.whole(), node)
        if found is not None and self._world.laws.nodes[node].tainted:
            taints = [one for one in found["spec"].get("taints") or () if one["key"] != OUT_OF_SERVICE_TAINT]
            await self.merge(NODES, node, {"spec": {"taints": taints or None}})

    # -- node health

    async def watch_health(self) -> None:
        """For ever: silent nodes become unknown, their pods are deleted after a while, and those that nobody can end
        are removed.
        """
        while True:
            await self._world.clock.sleep(LOOK_S)
            for node, kubelet in self.kubelets.items():
                await self._look_at(node, kubelet)
            if self._world.plan.workloads.runs:
                for pod in [
                    pod
                    for pod in self._world.laws.pods.values()
                    if not node_of(pod) and "deletionTimestamp" in pod["metadata"]
                ]:
                    await self.remove(pod)

    async def _look_at(self, node: str, kubelet: Kubelet) -> None:
        now, stand = self._world.clock.now(), self._world.laws.nodes.get(node, NodeStand(is_there=False))
        if kubelet.alive:
            self._silent_s.pop(node, None)
            await self._let_in(node)
            return
        silent_s = now - self._silent_s.setdefault(node, now)
        if silent_s > GRACE_S and stand.is_there and stand.unhealthy_s is None:
            await self.set_ready(node, "Unknown")
            await self._keep_out(node)
        for pod in [pod for pod in self._world.laws.pods.values() if pod["spec"].get("nodeName") == node]:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            if is_alive(pod) and silent_s > GRACE_S + self._world.plan.tolerated_s:
                await self.delete(PODS, name, namespace)
            is_out = stand.tainted and stand.unhealthy_s is not None and "deletionTimestamp" in pod["metadata"]
            if is_out or (not stand.is_there and silent_s > GRACE_S):
                await self.remove(pod)

    async def remove(self, pod: Json) -> None:
        """As the garbage collector of pods does: one that nobody can end any more has failed."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if self._world.plan.workloads.runs and pod["status"].get("phase") not in FINISHED:
            await self.merge(
                PODS, name, {"status": {"phase": "Failed", "containerStatuses": None}}, namespace, subresource="status"
            )
        await self.delete(PODS, name, namespace, grace_s=0)

    async def _keep_out(self, node: str) -> None:
        """A Node that is silent gets no new pods."""
        found = self._world.truth.get(NODES.whole(), node) if self._world.plan.workloads.runs else None
        if found is not None:
            taints = [one for one in found["spec"].get("taints") or () if one["key"] != NOT_READY_TAINT]
            await self.merge(
                NODES, node, {"spec": {"taints": [*taints, {"key": NOT_READY_TAINT, "effect": "NoSchedule"}]}}
            )

    async def _let_in(self, node: str) -> None:
        """Every Node is born with a taint that keeps the scheduler away until it is ready."""
        found = self._world.truth.get(NODES.whole(), node) if self._world.plan.placing.runs else None
        taints = (found or {"spec": {}})["spec"].get("taints") or ()
        others = [one for one in taints if one["key"] != NOT_READY_TAINT]
        if len(others) < len(taints) and self._world.laws.nodes[node].unhealthy_s is None:
            await self.merge(NODES, node, {"spec": {"taints": others or None}})
