"""What users, administrators and accidents do to the plane: each act is a method, drawn by its weight in the plan. They
see the truth.

Each act has a randomness of its own, so that a life from which some acts are left out goes on with the others as they
were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.randomness import Random
from tests.sim.keeper import Keeper
from tests.sim.plan import DRIVER
from tests.sim.plane.agent_acts import AgentActs
from tests.sim.plane.hands import SECOND, Hands
from tests.sim.plane.node_acts import NodeActs
from tests.sim.plane.plan import NAMESPACE, OTHER, PODS_MAX, VolumePlan
from tests.sim.plane.program_acts import ProgramActs
from tests.sim.plane.stands import Json, is_alive, node_of
from tests.sim.plane.user_acts import UserActs
from tests.sim.plane.workload_acts import WorkloadActs
from tests.sim.plane.workload_hands import NOTE
from tests.sim.plane.world import PlaneWorld
from tests.support.builders import a_va

ACTS_MAX: Final = 100_000
FOREIGN: Final = "foreign-"
JOB_ENDS: Final = 1 << 45
"""Of the randomness that says how Jobs' pods end."""


class Acts(NodeActs, ProgramActs, AgentActs, UserActs, WorkloadActs):
    """keepers: of the programs, by their names' beginnings."""

    def __init__(self, world: PlaneWorld, hands: Hands, keepers: Mapping[str, Sequence[Keeper]]) -> None:
        super().__init__()
        self._world, self._hands, self._keepers, self._laws = world, hands, keepers, world.laws
        self._randomness = Random(world.plan.seed)
        self._given_up: set[str] = set()
        self._ends_of_jobs = Random(JOB_ENDS + world.plan.seed)
        self._count = 0
        self._unbound: list[tuple[VolumePlan, bool]] = []
        self._ends = False

    async def prepare(self) -> None:
        """The world before anything goes wrong."""
        await self._hands.prepare()
        for volume in self._world.plan.volumes:
            await self._make(volume)
        await self.restore_workloads()

    async def disturb(self) -> None:
        """One act."""
        self._count += 1
        self._randomness = Random(self._world.plan.seed * ACTS_MAX + self._count)
        name = self._one_of(self._world.plan.acts)
        if self._count in self._world.plan.skipped:
            return
        act: Callable[[], Awaitable[None]] = getattr(self, name)
        await act()

    @property
    def count(self) -> int:
        """How many there were."""
        return self._count

    async def make_peace(self) -> None:
        """What is needed is back, dead nodes are back or given up, and no two pods want what only one can have."""
        self._randomness = Random(self._world.plan.seed * ACTS_MAX)
        self._world.program_clock.offset_s = 0.0
        self._plug_in_all()
        await self.restore()
        await self.set_right()
        await self.settle_workloads()
        for found in [*self._laws.attachments.values()]:
            if found.name.startswith(FOREIGN):
                await self._hands.delete(VOLUME_ATTACHMENTS, found.name)
        for node, kubelet in self._hands.kubelets.items():
            if not kubelet.alive and self._randomness.happens(0.5 if self._world.plan.forces else 0.2):
                kubelet.returns()
            if kubelet.alive:
                await self._hands.untaint(node)
        if not any(kubelet.alive for kubelet in self._hands.kubelets.values()):
            await self.return_node()
            for node in [node for node, kubelet in self._hands.kubelets.items() if kubelet.alive]:
                await self._hands.untaint(node)
        for pod in [pod for pod in self._holders() if not all(map(self._can_be_had, self._volumes_of(pod)))]:
            await self._delete(pod)
        await self._part()

    def _holders(self) -> list[Json]:
        """Pods that need their volumes, or that keep their claims from deletion: for the binder those that have
        finished do so, too.
        """
        return list(self._laws.pods.values()) if self._world.plan.provisions else self._alive()

    def _volumes_of(self, pod: Json) -> list[tuple[str, str]]:
        return [(pod["metadata"]["namespace"], name) for name in _claims(pod)]

    def _can_be_had(self, claim: tuple[str, str]) -> bool:
        """True for a claim that is bound, and neither is it being deleted nor any PersistentVolume that means its
        volume.
        """
        handle, found = self._laws.handle_of(claim), self._laws.claims.get(claim)
        if self._world.plan.provisions:
            return found is not None and "deletionTimestamp" not in found["metadata"]
        same = [pv for pv in self._laws.volumes.values() if pv["spec"]["csi"]["volumeHandle"] == handle]
        return (
            bool(handle)
            and found is not None
            and not any("deletionTimestamp" in one["metadata"] for one in (found, *same))
        )

    async def _part(self) -> None:
        """Of pods that can't run together one stays."""
        for volume in self._world.plan.volumes:
            users = [
                pod for pod in self._alive() if volume.name in {name.removesuffix(SECOND) for name in _claims(pod)}
            ]
            users.sort(key=lambda pod: not self._hands.is_on_living(pod))
            for pod in users[1:]:
                if self._excludes(volume, pod, users[0]):
                    await self._delete(pod)

    async def restore(self) -> None:
        """What is missing of volumes comes back, now that their old names are free; unless all are deleted."""
        await self._remove_followers()
        if self._ends and self._world.plan.workloads.runs:
            await self.sweep_workloads()
        if self._ends:
            return
        await self.restore_workloads()
        await self.drop_set_pods()
        for volume in self._world.plan.volumes:
            await self._make(volume)
        while self._unbound:
            await self.bind_claim()

    async def give_up(self) -> None:
        """Nodes that stay dead are given up, in one of the ways that there are: by the taint, with their Node, or pod
        by pod.
        """
        for node in [node for node, kubelet in self._hands.kubelets.items() if not kubelet.alive]:
            self._hands.kubelets[node].dies()
            self._given_up.add(node)
            way = self._world.plan.seed % 3 if self._world.plan.forces else 0
            if way == 0 and (stand := self._laws.nodes.get(node)) is not None and stand.is_there:
                await self._hands.taint(node)
            elif way == 0:  # nothing says any more that it is out of service
                await self._detach_all_from(node)
            elif way == 1:
                await self._hands.delete(NODES, node)
            else:
                await self._remove_pods_of(node)

    def turn_off(self) -> None:
        """Machines that nobody reaches any more: a driver may have held a call of theirs for long, and no agent is
        there to undo it.
        """
        for kubelet in self._hands.kubelets.values():
            if not kubelet.alive and kubelet.powered:
                kubelet.dies()

    async def _detach_all_from(self, node: str) -> None:
        for one in [one for one in self._laws.attachments.values() if one.node == node]:
            self._laws.detached_by_hand(one.name)
            await self._hands.delete(VOLUME_ATTACHMENTS, one.name)

    async def _remove_pods_of(self, node: str) -> None:
        for pod in [pod for pod in self._laws.pods.values() if node_of(pod) == node]:
            await self._hands.remove(pod)

    async def _remove_followers(self) -> None:
        """Pods that came to a node which is given up."""
        for node in sorted(self._given_up) if self._world.plan.workloads.runs else ():
            if not self._hands.kubelets[node].alive:
                await self._remove_pods_of(node)

    async def delete_all(self) -> None:
        """Every pod, those that have finished too; those of dead nodes by force. And claims whose volumes were made for
        them.
        """
        await self.delete_workloads()
        for pod in list(self._laws.pods.values()):
            if "deletionTimestamp" not in pod["metadata"]:
                await self._delete(pod, None if self._hands.is_on_living(pod) else 0)
        self._ends = self._world.plan.provisions
        for namespace, name in [*self._laws.claims] if self._world.plan.provisions else ():
            await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, name, namespace)

    # -- pods

    async def make_pod(self) -> None:
        if len(self._single()) < PODS_MAX:
            volumes = [volume for volume in self._world.plan.volumes if self._randomness.happens(0.6)]
            await self._make_pod([volume.name for volume in volumes or self._world.plan.volumes[:1]])

    async def delete_pod(self) -> None:
        if pods := self._alive():
            await self._delete(self._one_of(pods))

    async def force_delete_pod(self) -> None:
        """Without waiting for its node."""
        if pods := list(self._laws.pods.values()):
            await self._delete(self._one_of(pods), grace_s=0)

    async def finish_pod(self) -> None:
        if pods := self._alive():
            pod = self._one_of(pods)
            status = {"status": {"phase": self._one_of(("Succeeded", "Failed")), "containerStatuses": None}}
            await self._hands.merge(
                PODS, pod["metadata"]["name"], status, pod["metadata"]["namespace"], subresource="status"
            )

    async def move_pod(self) -> None:
        """Deleted here, and made elsewhere with the same volumes, at once or when it is gone."""
        if pods := self._single():
            pod = self._one_of(pods)
            await self._delete(pod)
            await self._make_pod([name.removesuffix(SECOND) for name in _claims(pod)])

    async def recreate_pod(self) -> None:
        """Removed by force, and made anew under its name, here or there."""
        if pods := self._single():
            pod, node = self._one_of(pods), self._one_of(self._world.plan.nodes)
            await self._delete(pod, grace_s=0)
            await self._hands.make_pod(pod["metadata"]["name"], _claims(pod), node, pod["metadata"]["namespace"])

    async def _make_pod(self, names: list[str]) -> None:
        node = self._one_of(self._world.plan.nodes)
        shared = {volume.name for volume in self._world.plan.volumes if volume.shared}
        if shared & set(names) and self._randomness.happens(0.5):
            names = [f"{name}{SECOND}" for name in names if name in shared]
            await self._hands.make_pod(f"{OTHER}-pod{self._count}", names, node, OTHER)
        else:
            await self._hands.make_pod(f"pod{self._count}", names, node)

    async def _delete(self, pod: Json, grace_s: int | None = None) -> None:
        await self._hands.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s)

    def _alive(self) -> list[Json]:
        return [pod for pod in self._laws.pods.values() if is_alive(pod)]

    def _single(self) -> list[Json]:
        """Those that were never a workload's."""
        return [pod for pod in self._alive() if NOTE not in (pod["metadata"].get("annotations") or {})]

    # -- claims and volumes

    async def _make(self, volume: VolumePlan) -> None:
        """Whatever of a volume is not there."""
        for second in (False, True) if volume.shared else (False,):
            name, namespace = (f"{volume.name}{SECOND}", OTHER) if second else (volume.name, NAMESPACE)
            if (namespace, name) in self._laws.claims or name in self._laws.volumes:
                continue
            await self._hands.make_volume(volume, second=second)
            if self._world.plan.provisions:
                continue
            if volume.bound_late:
                self._unbound.append((volume, second))
            else:
                await self._hands.bind(volume, second=second)

    async def bind_claim(self) -> None:
        if self._unbound:
            volume, second = self._unbound.pop(0)
            await self._hands.bind(volume, second=second)

    async def drop_volume(self) -> None:
        """Claim and volume are deleted; mostly their pods first."""
        volume = self._one_of(self._world.plan.volumes)
        if self._randomness.happens(0.7):
            for pod in [pod for pod in self._alive() if volume.name in _claims(pod)]:
                await self._delete(pod)
        if (NAMESPACE, volume.name) in self._laws.claims:
            await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, volume.name, NAMESPACE)
        if volume.name in self._laws.volumes:
            await self._hands.delete(PERSISTENT_VOLUMES, volume.name)

    async def strip_volume(self) -> None:
        """An impatient administrator takes all finalizers off a volume that is being deleted."""
        if leaving := [pv for pv in self._laws.volumes.values() if "deletionTimestamp" in pv["metadata"]]:
            await self._hands.merge(
                PERSISTENT_VOLUMES, self._one_of(leaving)["metadata"]["name"], {"metadata": {"finalizers": None}}
            )

    async def restore_volume(self) -> None:
        await self._make(self._one_of(self._world.plan.volumes))

    # -- attachments

    async def delete_attachment(self) -> None:
        """By hand, whoever needs it."""
        if found := list(self._laws.attachments.values()):
            name = self._one_of(found).name
            self._laws.detached_by_hand(name)
            await self._hands.delete(VOLUME_ATTACHMENTS, name)

    async def tear_away(self) -> None:
        """An impatient administrator takes the finalizers off an attachment, too, and detaches by hand what was
        attached.
        """
        if found := [one for one in self._laws.attachments.values() if not one.name.startswith(FOREIGN)]:
            one = self._one_of(found)
            self._laws.detached_by_hand(one.name)
            await self._hands.delete(VOLUME_ATTACHMENTS, one.name)
            await self._hands.merge(VOLUME_ATTACHMENTS, one.name, {"metadata": {"finalizers": None}})
            self._laws.tears(one)

    async def make_foreign(self) -> None:
        """An attachment by another hand's name; for this driver's attacher, or another one's. Or its end."""
        if found := [one for one in self._laws.attachments.values() if one.name.startswith(FOREIGN)]:
            await self._hands.delete(VOLUME_ATTACHMENTS, found[0].name)
            return
        volume, node = self._one_of(self._world.plan.volumes), self._one_of(self._world.plan.nodes)
        if not any(one.volume.removesuffix(SECOND) == volume.name for one in self._laws.attachments.values()):
            attacher = self._one_of((DRIVER, "other.example.com"))
            body = a_va(f"{FOREIGN}{self._count}", volume.name, node, attacher=attacher)
            await self._hands.do(f"create VA {body}", self._world.cluster.create(VOLUME_ATTACHMENTS.whole(), body))


def _claims(pod: Json) -> list[str]:
    return [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"].get("volumes") or ()]
