"""Kills at every step of a volume's life: after each change that the agent makes on its disk, and around each of the
driver's calls.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

from tests.node_crash.rounds import COMING, GOING
from tests.support.node_cluster import NodeCluster, NodePlace
from tests.support.programs import Program

CALLS = [
    (who, method, when) for method in (*COMING, *GOING) for when in ("before", "after") for who in ("agent", "driver")
]


class Points:
    """One node's. Every life is that of two pods: one with a file system and an inline volume, one with a raw
    device.
    """

    def __init__(self, cluster: NodeCluster, node: NodePlace) -> None:
        self._cluster, self._node, self._lives = cluster, node, itertools.count(1)

    def trace(self) -> list[str]:
        """The changes on the disk of a life in which nobody dies."""
        pods, trace = self._pods(), self._node.folder / "trace-0"
        self._start_dying(0)
        self._cluster.until_running(*pods)
        self._end(pods)
        return trace.read_text().splitlines()

    def die_at_change(self, number: int) -> str:
        """A life in which the agent dies after this change, and another one takes over. Gives the change, "" where
        there were less.
        """
        pods, trace = self._pods(), self._node.folder / f"trace-{number}"
        trace.unlink(missing_ok=True)
        agent = self._start_dying(number)
        is_deleted = self._until_running_or_dead(pods, agent)
        if is_deleted:
            self._cluster.until(
                lambda: agent.exit_code is not None or not self._cluster.left_over(),
                "the agent dies, or the life is over",
            )
        change = trace.read_text().splitlines()[number - 1] if agent.exit_code is not None else ""
        self._take_over(pods, is_deleted=is_deleted)
        return change.replace(str(self._node.root), "")

    def die_in_call(self, who: str, method: str, when: str) -> bool:
        """A life in which one of the two dies in the call, and another one takes over. False: nobody died."""
        self._restart_agent()
        assert self._node.agent is not None
        self._cluster.until_up(self._node)
        pods = [] if method in COMING else self._running_pods()
        self._cluster.backend.set_fate(self._node.name, method, when, self._node.agent.pid if who == "agent" else 0)
        pods = pods or self._pods()
        if method in GOING:
            self._delete(pods)
        died = self._cluster.until(lambda: not self._cluster.backend.has_fate(self._node.name), f"{method} is called")
        if who == "driver":
            self._node.kill_driver()
            self._node.start_driver()
        self._take_over(pods, is_deleted=method in GOING)
        return bool(died)

    # -- the parts of a life

    def _pods(self) -> list[str]:
        life, node, cluster = next(self._lives), self._node.name, self._cluster
        mounted, raw = f"{node}-fs-{life}", f"{node}-raw-{life}"
        cluster.add_volume(mounted)
        cluster.add_volume(raw, block=True)
        cluster.add_pod(mounted, node, mounted, inline=["scratch"])
        cluster.add_pod(raw, node, raw, devices=True)
        return [mounted, raw]

    def _running_pods(self) -> list[str]:
        pods = self._pods()
        self._cluster.until_running(*pods)
        return pods

    def _start_dying(self, number: int) -> Program:
        node = self._node
        node.kill_agent()
        command = [
            sys.executable,
            "-m",
            "tests.support.dying_agent",
            str(number),
            node.folder / f"trace-{number}",
            node.root,
        ]
        return node.start_agent(command)

    def _until_running_or_dead(self, pods: Sequence[str], agent: Program) -> bool:
        """True when the pods run, and are deleted therefore."""

        def looked() -> str:
            if agent.exit_code is not None:
                return "dead"
            phases = self._cluster.pods()
            return "running" if all(phases.get(pod) == "Running" for pod in pods) else ""

        if self._cluster.until(looked, "the pods run, or the agent is dead") == "dead":
            return False
        self._delete(pods)
        return True

    def _take_over(self, pods: Sequence[str], *, is_deleted: bool) -> None:
        """By an agent that does not die."""
        self._restart_agent()
        if not is_deleted:
            self._cluster.until_running(*pods)
        self._end(pods)

    def _restart_agent(self) -> None:
        self._node.kill_agent()
        self._node.start_agent()

    def _end(self, pods: Sequence[str]) -> None:
        self._delete(pods)
        self._cluster.until_clean()

    def _delete(self, pods: Sequence[str]) -> None:
        for pod in pods:
            self._cluster.delete_pod(pod)
