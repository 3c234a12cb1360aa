"""What users make of volumes, claims, classes and Nodes beside what they should: acts, as in `acts.py`.

Peace sets right what no controller can: an import goes, and what two objects say of each other agrees again.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.identity import FORCE_AFTER
from mooring.kube.cluster import Request, Verb
from mooring.kube.errors import Forbidden, Invalid
from tests.sim.acting import Acting
from tests.sim.plane.habit_plan import WORDS
from tests.sim.plane.line import ATTACHDETACH, ATTACHER, HEALTH
from tests.sim.plane.plan import NAMESPACE, OTHER
from tests.sim.plane.stands import Json, node_of

OWN_TAINT: Final = "users.example.com/mine"
MEDDLES_S: Final = 0.05
DOWN_S_MAX: Final = 200.0
"""How long a node stays away at the least that was stranded."""

DENIED: Final = (
    (HEALTH, "patch", "nodes"),
    (HEALTH, "patch", "nodes/status"),
    (HEALTH, "patch", "pods/status"),
    (HEALTH, "delete", "pods"),
    (ATTACHER, "patch", "volumeattachments"),
    (ATTACHER, "patch", "volumeattachments/status"),
    (ATTACHER, "patch", "persistentvolumes"),
    (ATTACHDETACH, "create", "volumeattachments"),
    (ATTACHDETACH, "delete", "volumeattachments"),
    (ATTACHDETACH, "patch", "nodes/status"),
)
"""What a policy may keep from whom."""

ODD: Final = "odd"
"""How the names of claims and volumes begin that a user made beside those of the plan."""
BLANKS: Final[tuple[Json | None, ...]] = (
    *({"uid": ""}, {"uid": None}, {"namespace": ""}, {"name": ""}, {"name": "other"}, {"namespace": "other"}),
    *({"kind": None, "apiVersion": None}, None),
)
"""What a hand makes of a claimRef."""
_KEPT: Final = ("name", "namespace", "labels", "annotations", "finalizers")
"""Of an object's metadata, what a backup brings back."""


class UserActs(Acting):
    """A part of `Acts`. saved: the last backup, by kind and name."""

    _world: Any
    _hands: Any
    _laws: Any
    _meddled_at = -MEDDLES_S
    _randomness: Random
    _count: int

    def __init__(self) -> None:
        super().__init__()
        self._saved: list[tuple[Any, Json]] = []
        self._lost_count = 0

    # -- volumes and claims

    async def import_volume(self) -> None:
        """A second PersistentVolume of a handle, which may be in use, by another class's rules, and for nobody yet; or
        its end.
        """
        odd = sorted(name for name in self._laws.volumes if name.startswith(ODD))
        if odd and self._randomness.happens(0.5):
            await self._hands.delete(PERSISTENT_VOLUMES, self._one_of(odd))
            return
        volume = self._one_of(self._world.plan.volumes)
        await self._hands.make_pv(
            f"{ODD}-pv{self._count}", volume, volume.handle, self._one_of((None, {}, {"uid": "", "name": "none"}))
        )

    async def rebind_volume(self) -> None:
        """The claimRef is removed, and the volume given to another claim, whoever uses it."""
        volume = self._one_of(self._world.plan.volumes)
        pv, name = self._laws.volumes.get(volume.name), f"{ODD}-claim{self._count}"
        if pv is None or "deletionTimestamp" in pv["metadata"]:
            return
        await self._hands.merge(PERSISTENT_VOLUMES, volume.name, {"spec": {"claimRef": None}})
        if (made := await self._hands.make_claim(name, volume, volume.name)) is not None:
            await self._hands.merge(PERSISTENT_VOLUMES, volume.name, {"spec": {"claimRef": _reference(made)}})
            await self._hands.bind_claim(name, volume)
            await self._hands.make_pod(f"pod{self._count}", [name], self._one_of(self._world.plan.nodes))

    async def force_claim(self) -> None:
        """A claim is torn away under its pods, and made anew under its name on another volume."""
        volume = self._one_of(self._world.plan.volumes)
        if (NAMESPACE, volume.name) not in self._laws.claims:
            return
        await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, volume.name, NAMESPACE)
        await self._hands.merge(PERSISTENT_VOLUME_CLAIMS, volume.name, {"metadata": {"finalizers": None}}, NAMESPACE)
        name = f"{ODD}-pv{self._count}"
        if (made := await self._hands.make_claim(volume.name, volume, name)) is not None:
            await self._hands.make_pv(name, volume, f"{volume.handle}-{ODD}{self._count}", _reference(made))
            await self._hands.bind_claim(volume.name, volume)

    async def blank_reference(self) -> None:
        """Somebody edits a claimRef, and leaves fields empty."""
        if bound := [pv for pv in self._laws.volumes.values() if pv["spec"].get("claimRef")]:
            name = self._one_of(bound)["metadata"]["name"]
            self._world.claims.laws.damaged_ever = True
            await self._hands.merge(PERSISTENT_VOLUMES, name, {"spec": {"claimRef": self._one_of(BLANKS)}})

    async def restore_backup(self) -> None:
        """All volumes, claims and attachments as they were once, in any order; what stands there is left alone. Or a
        backup is made.
        """
        if not self._saved or self._randomness.happens(0.4):
            self._hands.tell("makes a backup")
            kinds = (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, VOLUME_ATTACHMENTS)
            self._saved = [(kind, copy.deepcopy(obj)) for kind in kinds for obj in self._world.truth.all(kind.whole())]
            return
        left = list(self._saved)
        while left:
            kind, obj = left.pop(self._randomness.below(len(left)))
            await self._hands.make_again(
                kind, {**obj, "metadata": {key: obj["metadata"][key] for key in _KEPT if key in obj["metadata"]}}
            )
            if kind is VOLUME_ATTACHMENTS:
                self._laws.is_restored(obj["metadata"]["name"])

    # -- classes

    async def say_in_class(self) -> None:
        """When a detach is forced, or that it never is, or something that can't be read."""
        noted = {FORCE_AFTER: self._one_of(list(WORDS)) or None}
        await self._hands.merge(STORAGE_CLASSES, self._class(), {"metadata": {"annotations": noted}})

    async def drop_class(self) -> None:
        await self._hands.delete(STORAGE_CLASSES, self._class())

    async def remake_class(self) -> None:
        """Another class under the name."""
        name = self._class()
        await self._hands.delete(STORAGE_CLASSES, name)
        await self._hands.make_class(name, self._one_of(list(WORDS)))

    async def deny_classes(self) -> None:
        """The right to read classes is taken from the controllers, for a while or for good."""
        seconds = self._one_of((10.0, 100.0, 10_000.0))
        for program in (ATTACHDETACH, f"{ATTACHDETACH}-2"):
            self._world.server.refuse(
                (program, "get", "storageclasses"), lambda: Forbidden("is forbidden", reason="Forbidden"), seconds
            )

    def _class(self) -> str:
        return str(self._one_of(self._hands.classes))

    async def deny_write(self) -> None:
        """A policy, or a right that is gone, keeps one program from one kind of write, for a while or for good."""
        right = self._one_of(DENIED)
        kind = self._one_of((Invalid, Forbidden))
        seconds = self._one_of((30.0, 400.0, 10_000.0))
        self._world.server.refuse(right, lambda: kind("denied by a policy", reason=kind.__name__), seconds)

    async def lose_request(self) -> None:
        """The controller is killed with a request on its way, or gives it up, and users want the opposite by then."""
        self._world.loses, self._world.loses_process = self._changes_mind, self._randomness.happens(0.5)
        if not self._world.plan.provisions:
            await self.move_pod()  # type: ignore[attr-defined]

    def _changes_mind(self, request: Request) -> None:
        """After a POST the pods of its node want their volumes elsewhere; after a DELETE a pod wants the volume where
        it was, and a node that was cut off is back with what it has mounted.
        """
        name = request.name or request.body["metadata"]["name"]
        kubelet = self._hands.kubelets[self._laws.pair_of(name)[1]]
        if request.verb is Verb.DELETE and kubelet.powered and not kubelet.alive:
            self._hands.tell(f"{kubelet.name} is back")
            kubelet.returns()
        self._world.group.create_task(
            self._wants_otherwise(name), name=f"sim/otherwise/{name}/{self._world.clock.now()}"
        )

    async def _wants_otherwise(self, name: str) -> None:
        handle, node = self._laws.pair_of(name)
        claims = [key for key in self._laws.claims if self._laws.handle_of(key) == handle]
        pods = [pod for pods in self._laws.wanted().values() for pod in pods if node_of(pod) == node]
        for pod in pods:
            await self._delete(pod, grace_s=0)  # type: ignore[attr-defined]
        others = [other for other in self._world.plan.nodes if other != node]
        for namespace, claim in claims[:1]:
            self._lost_count += 1
            where = others[self._lost_count % len(others)] if pods else node
            await self._hands.make_pod(
                f"{namespace if namespace == OTHER else 'lost'}-pod{self._lost_count}", [claim], where, namespace
            )

    # -- nodes

    async def strand_volume(self) -> None:
        """A node that has something mounted loses its power, and its pods are removed by force: only force gets the
        volume off it.
        """
        busy = [node for node, kubelet in self._hands.kubelets.items() if kubelet.alive and kubelet.mounted]
        if not busy:
            await self.make_pod()  # type: ignore[attr-defined]
        else:
            node = self._one_of(busy)
            self._hands.tell(f"strands the volumes of {node}")
            self._hands.kubelets[node].is_cut()
            self._hands.kubelets[node].down_until = self._world.clock.now() + self._randomness.uniform(0.0, DOWN_S_MAX)
            await self._hands.set_ready(node, "Unknown")
            for pod in [pod for pod in self._laws.pods.values() if node_of(pod) == node]:
                await self._delete(pod, grace_s=0)  # type: ignore[attr-defined]
            if self._world.plan.manners.by_hand:
                await self._confuse(self._one_of(sorted(self._hands.kubelets[node].mounted)))

    async def _confuse(self, handle: str) -> None:
        """A volume that waits for force gets a second PersistentVolume, or loses its own one, finalizers and all; or
        neither.
        """
        of_handle = [
            pv["metadata"]["name"] for pv in self._laws.volumes.values() if pv["spec"]["csi"]["volumeHandle"] == handle
        ]
        way = self._randomness.below(4)
        if way == 0 and of_handle:
            volume = next(volume for volume in self._world.plan.volumes if handle.startswith(volume.handle))
            await self._hands.make_pv(f"{ODD}-pv{self._count}", volume, handle, None)
        elif way == 1:
            for name in of_handle:
                await self._hands.delete(PERSISTENT_VOLUMES, name)
                await self._hands.merge(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})

    async def own_taint(self) -> None:
        """A user's taint comes first in the Node's list, or goes; also while node health is about to write there, from
        now on.
        """
        self._world.meddles = self._meddle
        await self._change_taint(self._one_of(self._world.plan.nodes))

    async def _meddle(self, node: str) -> None:
        """Nobody is always quicker than node health, that it can never write."""
        now = self._world.clock.now()
        if now >= self._meddled_at + MEDDLES_S:
            self._meddled_at = now
            await self._change_taint(node)

    async def _change_taint(self, node: str) -> None:
        found = self._world.truth.get(NODES.whole(), node)
        if found is not None:
            taints = found["spec"].get("taints") or ()
            others = [one for one in taints if one["key"] != OWN_TAINT]
            own = [{"key": OWN_TAINT, "effect": "PreferNoSchedule"}] if len(others) == len(taints) else []
            await self._hands.merge(NODES, node, {"spec": {"taints": [*own, *others] or None}})

    async def blink_node(self) -> None:
        """A silent Node that says when it fell silent is heard for a moment."""
        silent = [
            node
            for node, kubelet in self._hands.kubelets.items()
            if not kubelet.alive and kubelet.stamps and self._laws.is_silent(node)
        ]
        if silent:
            node = self._one_of(silent)
            for status in ("True", "Unknown"):
                await self._hands.set_ready(node, status)

    async def remake_node(self) -> None:
        """The Node of a living kubelet that has something mounted is deleted; it registers anew. And one of its pods
        goes.
        """
        busy = [node for node, kubelet in self._hands.kubelets.items() if kubelet.alive and kubelet.mounted]
        if not busy:
            return
        node = self._one_of(busy)
        if pods := [pod for pod in self._laws.pods.values() if pod["spec"].get("nodeName") == node]:
            await self._delete(self._one_of(pods), grace_s=0 if self._randomness.happens(0.5) else None)  # type: ignore[attr-defined]
        await self._hands.delete(NODES, node)

    # -- peace

    async def set_right(self) -> None:
        """Classes say nothing, and each claim and its volume agree, or both go and are made anew."""
        self._world.loses = self._world.meddles = None
        if self._world.plan.manners.classes:
            for name in self._hands.classes:
                await self._hands.delete(STORAGE_CLASSES, name)
                await self._hands.make_class(name, "")
        if self._world.plan.manners.acts and not self._world.plan.provisions:
            await self._part_odd()
        if self._world.plan.provisions:
            await self._mend_references()

    async def _mend_references(self) -> None:
        """Who has edited a claimRef, bit by bit, until it means no claim, or another one, gives the volume back to its
        own.
        """
        for claim in list(self._laws.claims.values()):
            meta = claim["metadata"]
            pv = self._laws.volumes.get(f"pvc-{meta['uid']}")
            if pv is None or "deletionTimestamp" in pv["metadata"] or claim["status"].get("phase") == "Bound":
                continue
            ref = pv["spec"].get("claimRef")
            names = (meta["namespace"], meta["name"])
            if ref and ref.get("uid") != meta["uid"] and (ref.get("namespace"), ref.get("name")) != names:
                await self._hands.merge(
                    PERSISTENT_VOLUMES, pv["metadata"]["name"], {"spec": {"claimRef": _reference(claim)}}
                )

    async def _part_odd(self) -> None:
        """A claim agrees with the volume of its name alone; what was made beside those goes."""
        agreed = {
            key
            for key, claim in self._laws.claims.items()
            if self._laws.handle_of(key) and claim["spec"]["volumeName"] == key[1]
        }
        for key in [key for key in self._laws.claims if key not in agreed]:
            await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
        for name in [name for name in self._laws.volumes if name not in {name for _, name in agreed}]:
            await self._hands.delete(PERSISTENT_VOLUMES, name)
        for one in [
            one
            for one in self._laws.attachments.values()
            if one.volume not in self._laws.volumes and one.volume.startswith(ODD)
        ]:
            handle = self._laws.pair_of(one.name)[0]  # without its object no attacher can detach it, and it says so
            volume = next(volume for volume in self._world.plan.volumes if handle.startswith(volume.handle))
            await self._hands.make_pv(one.volume, volume, handle, None)


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    return {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
