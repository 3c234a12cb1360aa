"""What a seed chooses for the agents of the plane's nodes, and the plane's plan as the parts of the nodes' simulation
read it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from mooring.base.randomness import Random
from mooring.node.drivers import CALL_S
from tests.sim.node.habits import Habits
from tests.sim.node.plan import DiskFaults, DriverPlan, VolumePlan
from tests.sim.plan import DRIVER, DriverFaults, perhaps

SHARE: Final = 0.3
"""Of the seeds, those whose nodes run the real agent."""
ACTS: Final = ("kill_agent",) * 3 + ("roll_agent",) + ("restart_node_driver",) + ("replug_driver",)
"""What else can happen to a node with an agent."""
_OWN: Final = 1 << 40
"""So that seeds without agents live as if there were none, the choice is drawn from a randomness of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class AgentPlan:
    """runs: the nodes run the real agent. failed, lost, hung: of calls to the node's driver, as in DriverFaults;
    disk_failed, disk_hung: as in DiskFaults; half, lies: as in the plan of nodes. stages, leaves_folders, pod_info: as
    in DriverPlan.
    """

    runs: bool = False
    failed: float = 0.0
    lost: float = 0.0
    hung: float = 0.0
    disk_failed: float = 0.0
    disk_hung: float = 0.0
    half: float = 0.0
    lies: float = 0.0
    stages: bool = False
    leaves_folders: bool = False
    pod_info: bool = False
    latency_s: float = 0.0


def agents_of(seed: int) -> AgentPlan:
    randomness = Random(_OWN + seed)
    if not randomness.happens(SHARE):
        return AgentPlan()
    return AgentPlan(
        runs=True,
        failed=perhaps(randomness, 0.4, 0.05, 0.4),
        lost=perhaps(randomness, 0.5, 0.05, 0.4),
        hung=perhaps(randomness, 0.25, 0.03, 0.2),
        disk_failed=perhaps(randomness, 0.2, 0.005, 0.05),
        disk_hung=perhaps(randomness, 0.2, 0.01, 0.1),
        half=perhaps(randomness, 0.5, 0.1, 0.6),
        lies=perhaps(randomness, 0.3, 0.1, 0.6),
        stages=randomness.happens(0.8),
        leaves_folders=randomness.happens(0.3),
        pod_info=randomness.happens(0.5),
        latency_s=randomness.uniform(0.0, 2.0),
    )


class NodeView:
    """The plane's plan as one of nodes. volumes: those that are known by now."""

    def __init__(self, plan: Any) -> None:
        self._plan, own = plan, plan.agents
        self.habits = Habits()
        driver = DriverPlan(DRIVER, True, own.stages, False, False, own.pod_info, own.leaves_folders)
        self.drivers = (driver,)
        self.driver = DriverFaults(own.failed, own.lost, own.hung, own.latency_s)
        self.disk = DiskFaults(own.disk_failed, own.disk_hung)
        self.half, self.lies, self.timeout_s = own.half, own.lies, CALL_S
        self._known: dict[str, VolumePlan] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    @property
    def volumes(self) -> tuple[VolumePlan, ...]:
        return tuple(self._known.values())

    def learn(self, pv: dict[str, Any]) -> None:
        """A PersistentVolume is there, or has changed."""
        handle, mode = pv["spec"]["csi"]["volumeHandle"], pv["spec"]["accessModes"][0]
        self._known[handle] = VolumePlan(pv["metadata"]["name"], handle, DRIVER, mode, False, False, "", "")

    def driver_of(self, name: str) -> DriverPlan:
        return self.drivers[0]

    def volume_of(self, handle: str) -> VolumePlan | None:
        return self._known.get(handle)
