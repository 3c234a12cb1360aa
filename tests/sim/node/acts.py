"""What users, administrators and accidents do: each act is a method, drawn by its weight in the plan. They see the
truth.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS
from mooring.base.randomness import Random
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from mooring.node.csinode.allocatable import PERIOD_S_MIN
from tests.sim.acting import Acting, secret_data
from tests.sim.keeper import Keeper
from tests.sim.node.calls import AUDIENCE
from tests.sim.node.groups import Wishes
from tests.sim.node.plan import NAMESPACE, PODS_MAX, RWOP, SECRET_MARK, VolumePlan
from tests.sim.node.pod_words import FINISHED, Json, is_alive
from tests.sim.node.world import NodeWorld
from tests.support.builders import CONTAINER, a_claim, a_csi_driver, a_pod, a_pv, a_secret

AWAY_S_MAX: Final = 5.0

_SECONDS_SEED: Final = 1 << 41
SECOND_INLINE: Final = 0.2
"""Of a life, that a pod with an inline volume has two."""


class Acts(Acting):
    """agents: the keepers, by node. remade: claims that were made anew, by their name. wishes: what users of pods say
    of groups.
    """

    def __init__(self, world: NodeWorld, agents: dict[str, Keeper]) -> None:
        self._world, self._agents, self._site = world, agents, world.backend
        self._randomness, self._cluster = world.randomness["actor"], world.cluster
        self._brings_two = Random(_SECONDS_SEED + world.plan.seed).happens(SECOND_INLINE)
        self._count, self.wishes = 0, Wishes(world.plan)
        self._unbound: list[VolumePlan] = []
        self.remade: dict[str, Json] = {}

    async def prepare(self) -> None:
        """The world before anything goes wrong."""
        for driver in self._world.plan.drivers:
            spec: Json = {
                "attachRequired": driver.attaches,
                "podInfoOnMount": driver.pod_info,
                "requiresRepublish": driver.asks_again,
            }
            if driver.habits.tokens:
                spec["tokenRequests"] = [{"audience": AUDIENCE}]
            if driver.habits.group_policy:
                spec["fsGroupPolicy"] = driver.habits.group_policy
            if driver.habits.counts:
                spec["nodeAllocatableUpdatePeriodSeconds"] = PERIOD_S_MIN
            modes = ["Persistent", *(["Ephemeral"] if driver.inline else [])]
            await self.do("create", CSI_DRIVERS, a_csi_driver(driver.name, volumeLifecycleModes=modes, **spec))
            for machine in self._site.machines.values():
                machine.make_socket(driver.name)
        for volume in self._world.plan.volumes:
            await self._make_volume(volume)
        for name in sorted(self._site.secrets):
            await self._make_secret(name)

    async def remake_claim(self, volume: VolumePlan) -> None:
        """Deleted by force, and made anew under its name; its volume is not its own yet."""
        await self.merge(PERSISTENT_VOLUME_CLAIMS, volume.name, {"metadata": {"finalizers": None}})
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, volume.name, NAMESPACE)
        self.remade[volume.name] = await self._make_claim(volume)
        await self._bind(volume)

    async def give_back(self) -> None:
        """The volumes are their claims' own again."""
        for name, claim in sorted(self.remade.items()):
            await self.merge(PERSISTENT_VOLUMES, name, {"spec": {"claimRef": {"uid": claim["metadata"]["uid"]}}})
        self.remade.clear()

    async def _make_claim(self, volume: VolumePlan) -> Json:
        mode = "Block" if volume.block else "Filesystem"
        claim = a_claim(volume.name, sc=None, modes=[volume.mode], volume=volume.name, volumeMode=mode)
        made: Json = await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), claim, NAMESPACE)
        return made

    async def _make_volume(self, volume: VolumePlan) -> None:
        mode = "Block" if volume.block else "Filesystem"
        made = await self._make_claim(volume)
        source: Json = {"driver": volume.driver, "volumeHandle": volume.handle}
        for field, name in (
            ("nodeStageSecretRef", volume.stage_secret),
            ("nodePublishSecretRef", volume.publish_secret),
        ):
            if name:
                source[field] = {"name": name, "namespace": NAMESPACE}
        if volume.fs_type:
            source["fsType"] = volume.fs_type
        body = a_pv(volume.name, modes=[volume.mode], source={"csi": source}, claim=made, volumeMode=mode)
        await self.do("create", PERSISTENT_VOLUMES, body)
        if volume.bound_late:
            self._unbound.append(volume)
        else:
            await self._bind(volume)

    async def make_peace(self) -> None:
        """Everything is back that is needed, and no two pods want what only one can have."""
        while self._unbound:
            await self.bind_claim()
        await self.give_back()
        for name in sorted(self._site.secrets):
            await self._make_secret(name)
        for machine in self._site.machines.values():
            for driver in self._world.plan.drivers:
                if machine.socket_of(driver.name) not in machine.sockets:
                    machine.make_socket(driver.name)
        for volume in self._world.plan.volumes:
            users = [pod for pod in self.alive() if volume.name in claims_in(pod)]
            for pod in users[1:]:
                is_elsewhere = pod["spec"]["nodeName"] != users[0]["spec"]["nodeName"]
                if volume.mode == RWOP or (volume.single_node and is_elsewhere):
                    await self.delete(pod)

    async def delete_all(self) -> None:
        """Every pod, those that have finished too."""
        for pod in list(self._world.laws.pods.values()):
            if "deletionTimestamp" not in pod["metadata"]:
                await self.delete(pod)

    # -- pods

    async def make_pod(self) -> None:
        if len(self.alive()) < PODS_MAX:
            plan = self._world.plan
            volumes = [volume for volume in plan.volumes if self._randomness.happens(0.5)] or [
                self._one_of(plan.volumes)
            ]
            await self.make_pod_of(volumes, self._one_of(plan.nodes))

    async def delete_pod(self) -> None:
        if pods := self.alive():
            await self.delete(self._one_of(pods))

    async def force_delete_pod(self) -> None:
        """Without waiting for its node."""
        if pods := list(self._world.laws.pods.values()):
            await self.delete(self._one_of(pods), grace_s=0)

    async def finish_pod(self) -> None:
        """Its containers have ended of their own."""
        if pods := self.alive():
            phase = self._one_of(("Succeeded", "Failed"))
            await self.merge(
                PODS, self._one_of(pods)["metadata"]["name"], {"status": {"phase": phase}}, subresource="status"
            )

    async def move_pod(self) -> None:
        """Deleted here, and made elsewhere with the same volumes, at once or when it is gone."""
        if pods := self.alive():
            pod = self._one_of(pods)
            names = claims_in(pod)
            await self.delete(pod)
            volumes = [volume for volume in self._world.plan.volumes if volume.name in names]
            if volumes:
                await self.make_pod_of(volumes, self._one_of(self._world.plan.nodes))

    async def touch_pod(self) -> None:
        if pods := list(self._world.laws.pods.values()):
            self._count += 1
            notes = {"users.example.com/count": str(self._count)}
            await self.merge(PODS, self._one_of(pods)["metadata"]["name"], {"metadata": {"annotations": notes}})

    async def make_pod_of(
        self, volumes: Sequence[VolumePlan], node: str, *, name: str = "", lost: Sequence[str] = ()
    ) -> None:
        """name: "" for a new one. lost: claims that there are not."""
        self._count += 1
        devices = [{"name": volume.name, "devicePath": f"/dev/{volume.name}"} for volume in volumes if volume.block]
        mounted = [*(volume.name for volume in volumes if not volume.block), *lost]
        inline = []
        if (takers := [driver for driver in self._world.plan.drivers if driver.inline]) and self._randomness.happens(
            0.4
        ):
            inline, mounted = [{"name": "scratch", "csi": {"driver": self._one_of(takers).name}}], [*mounted, "scratch"]
            if self._brings_two:
                inline, mounted = [*inline, {**inline[0], "name": "more"}], [*mounted, "more"]
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in mounted]
        container = {**CONTAINER, "volumeMounts": mounts, "volumeDevices": devices}
        names = [*(volume.name for volume in volumes), *lost]
        pod = a_pod(name or f"pod{self._count}", *names, node=node, volumes=inline, containers=[container])
        await self.do("create", PODS, self.wishes.put_into(pod))

    async def delete(self, pod: Json, grace_s: int | None = None) -> None:
        name = pod["metadata"]["name"]
        if grace_s == 0 or pod["status"].get("phase") in FINISHED:  # then the API server does not wait for the node
            self._world.laws.removed_by_force.add(pod["metadata"]["uid"])
        self._tell(f"delete pod {name}{'' if grace_s is None else ' by force'}")
        with contextlib.suppress(ApiError):
            await self._cluster.delete(PODS, name, NAMESPACE, grace_period_s=grace_s)

    # -- claims and secrets

    async def bind_claim(self) -> None:
        if self._unbound:
            await self._bind(self._unbound.pop(0))

    async def _bind(self, volume: VolumePlan) -> None:
        status = {"phase": "Bound", "accessModes": [volume.mode], "capacity": {"storage": "1Gi"}}
        await self.merge(PERSISTENT_VOLUME_CLAIMS, volume.name, {"status": status}, subresource="status")

    async def drop_secret(self) -> None:
        if name := self._secret():
            with contextlib.suppress(ApiError):
                await self._cluster.delete(SECRETS, name, NAMESPACE)

    async def restore_secret(self) -> None:
        if name := self._secret():
            await self._make_secret(name)

    async def change_secret(self) -> None:
        if name := self._secret():
            self._count += 1
            self._site.secrets[name] = f"{SECRET_MARK}{self._count}"
            with contextlib.suppress(ApiError):
                await self._cluster.delete(SECRETS, name, NAMESPACE)
            await self._make_secret(name)

    async def _make_secret(self, name: str) -> None:
        data = secret_data(self._site.secrets[name])
        await self.do("create", SECRETS, a_secret(name, data))

    def _secret(self) -> str:
        names = sorted(self._site.secrets)
        return self._one_of(names) if names else ""

    # -- machines, drivers and agents

    async def restart_driver(self) -> None:
        (node, driver), service = self._one_of(sorted(self._site.services.items(), key=lambda item: item[0]))
        away_s = self._randomness.uniform(0.0, AWAY_S_MAX)
        self._tell(f"restarts {driver} on {node}, away for {away_s:.3f} s")
        service.restart(away_s)
        if self._randomness.happens(0.5):  # its registrar with it
            self._site.machines[node].make_socket(driver)

    async def remove_socket(self) -> None:
        node, driver = self._one_of(self._world.plan.nodes), self._one_of(self._world.plan.drivers).name
        self._tell(f"stops the registrar of {driver} on {node}")
        self._site.machines[node].remove_socket(driver)

    async def make_socket(self) -> None:
        node, driver = self._one_of(self._world.plan.nodes), self._one_of(self._world.plan.drivers).name
        self._tell(f"starts the registrar of {driver} on {node}")
        self._site.machines[node].make_socket(driver)

    async def kill_agent(self) -> None:
        self._agents[self._one_of(self._world.plan.nodes)].kill()

    async def roll_agent(self) -> None:
        node = self._one_of(self._world.plan.nodes)
        self._tell(f"rolls the agent of {node}")
        await self._agents[node].roll()

    async def reboot(self) -> None:
        """The agent and the drivers die, and nothing stays mounted."""
        node = self._one_of(self._world.plan.nodes)
        self._tell(f"reboots {node}")
        self._agents[node].kill()
        for service in self._site.services_of(node):
            service.restart(self._randomness.uniform(0.0, AWAY_S_MAX))
        self._site.machines[node].reboot()

    async def touch_node(self) -> None:
        self._count += 1
        notes = {"users.example.com/count": str(self._count)}
        await self.merge(NODES, self._one_of(self._world.plan.nodes), {"metadata": {"annotations": notes}})

    # -- requests

    def alive(self) -> list[Json]:
        return [pod for pod in self._world.laws.pods.values() if is_alive(pod)]

    async def do(self, what: str, kind: Any, body: Json) -> None:
        self._tell(f"{what} {kind.name} {body['metadata']['name']} {body.get('spec', '')}")
        with contextlib.suppress(ApiError):
            await self._cluster.create(kind.whole(), body, NAMESPACE if kind.namespaced else "")

    async def merge(self, kind: Any, name: str, body: Json, *, subresource: str = "") -> None:
        self._tell(f"patch {kind.name} {name} {body}")
        with contextlib.suppress(ApiError):
            patch, namespace = Patch(PatchType.MERGE, body), NAMESPACE if kind.namespaced else ""
            await self._cluster.patch(kind.whole(), name, patch, namespace, subresource=subresource)


def claims_in(pod: Json) -> list[str]:
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
