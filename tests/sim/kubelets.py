"""The pods of the replicas that stand for one Lease, and what is said about them: by their kubelets, which know, and by others, who do not.

A process runs in a container of a pod; the next one in a run of the same container, or in another pod. Of one that is killed the kubelet
tells after a while; or it says that it has lost it; or nobody ever says anything. Of one that runs all is said that a cluster may say: its
pod's object is deleted by force, another of its name appears, it has failed by a controller's word, and the end of its container's former
run stands there all the time. Pods are in a store of their own, and all draws come from a source of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.pods import PODS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.randomness import Random
from mooring.control.lease.obituary import note_of
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from tests.sim.mortal import Mortal
from tests.support.builders import a_pod

NAMESPACE: Final = "default"
TOLD_S_MAX: Final = 2.0
MISCHIEF_S_MAX: Final = 15.0
_SEED: Final = 11_000_027

State = Mapping[str, Any]
_RUNS: Final[State] = {"running": {}}
_LOST: Final[State] = {
    "terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "could not be located"}
}


class Kubelets:
    """world: owns what goes on."""

    def __init__(self, world: Any, program: str) -> None:
        self._world, self._program = world, program
        self._randomness = Random(world.plan.seed + _SEED)
        self._store = new_store(Random(world.plan.seed), world.epoch_s)
        self.cluster = LocalCluster(self._store, clock=world.clock, randomness=Random(world.plan.seed))
        self._free: dict[str, State] = {}  # pods whose container may run again, with the end of its last run
        self._names = 0

    def begins(self, mortal: Mortal) -> str:
        """The identity of a new process."""
        again = sorted(self._free) if self._randomness.happens(0.5) else []
        pod = again[self._randomness.below(len(again))] if again else self._named()
        last = self._free.pop(pod, {})
        identity = f"{pod}_{self._randomness.uid()}"
        self._world.story.tell(mortal.who, f"is {identity}")
        self._world.group.create_task(self._told_of(mortal, pod, identity, last), name=f"sim/kubelet/{mortal.who}")
        return identity

    def ended(self, mortal: Mortal, identity: str) -> None:
        """The process is no more."""
        self._world.group.create_task(self._told_of_the_end(identity), name=f"sim/kubelet/{mortal.who}/end")

    async def _told_of(self, mortal: Mortal, pod: str, identity: str, last: State) -> None:
        """While it lives."""
        await self._tell(pod, _RUNS, last)
        while mortal.alive and self._world.faulty:
            await self._world.clock.sleep(self._randomness.uniform(0.0, MISCHIEF_S_MAX))
            if mortal.alive and self._world.faulty:
                await self._mischief(pod, last)

    async def _mischief(self, pod: str, last: State) -> None:
        """What is said of a pod whose process runs, and is no word about that."""
        match self._randomness.below(4):
            case 0:
                self._world.story.tell("cluster", f"pod {pod} is deleted by force")
                await self._remove(pod)
            case 1:
                self._world.story.tell("cluster", f"pod {pod} is another one of the name")
                await self._remove(pod)
                await self._tell(pod, _RUNS, {})
            case 2:
                self._world.story.tell("cluster", f"pod {pod} has failed, says a controller")
                await self._tell(pod, _RUNS, last, phase="Failed", reason="NodeLost")
            case _:
                await self._tell(pod, _LOST, last)

    async def _told_of_the_end(self, identity: str) -> None:
        """By its kubelet, or not."""
        pod, randomness = identity.rpartition("_")[0], self._randomness
        over = {"terminated": {"exitCode": 137, "reason": "Error", "message": note_of([identity])}}
        await self._world.clock.sleep(randomness.uniform(0.0, TOLD_S_MAX))
        if randomness.happens(0.6):
            await self._tell(pod, over)
            self._free[pod] = over
        elif randomness.happens(0.5):
            await self._tell(pod, _LOST)
            self._free[pod] = {}

    async def _tell(self, pod: str, state: State, last: State | None = None, **more: Any) -> None:
        one = {
            "name": "c",
            "image": "i",
            "imageID": "i",
            "ready": False,
            "restartCount": 0,
            "state": dict(state),
            "lastState": dict(last or {}),
        }
        status = {"phase": "Running", "reason": None, **more, "containerStatuses": [one]}
        with contextlib.suppress(ApiError):
            await self.cluster.create(PODS.whole(), a_pod(pod, node="n"), NAMESPACE)
        with contextlib.suppress(ApiError):  # deleted by force meanwhile
            await self.cluster.patch(
                PODS.whole(), pod, Patch(PatchType.MERGE, {"status": status}), NAMESPACE, subresource="status"
            )

    async def _remove(self, pod: str) -> None:
        with contextlib.suppress(ApiError):
            await self.cluster.delete(PODS, pod, NAMESPACE, grace_period_s=0)

    def _named(self) -> str:
        self._names += 1
        return f"{self._program}-{self._names}"
