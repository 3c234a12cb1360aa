"""Kills at random moments: one round is fifty pods on all nodes, from the first to the last."""

from __future__ import annotations

import random
import time

from tests.support.node_cluster import NodeCluster, NodePlace

PAUSE_S_MAX = 0.4
FATE_S_MAX = 3.0
COMING, GOING = ("NodeStageVolume", "NodePublishVolume"), ("NodeUnpublishVolume", "NodeUnstageVolume")


class Round:
    """number: of the round on this cluster; its objects' names have it."""

    def __init__(self, cluster: NodeCluster, number: int, seed: int) -> None:
        self._cluster, self._tag, self._random = cluster, f"r{number}", random.Random(seed)
        self._pods: list[str] = []
        self.kills = 0

    def run(self, *, pods: int = 50, kills: int = 12) -> None:
        """Half of the kills fall while the pods come, half while they go. Raises AssertionError for what is left, or
        does not come.
        """
        self._make(pods)
        self._strike(kills // 2, COMING, deletes=pods // 5)
        self._cluster.until_running(*self._pods, timeout_s=90)
        for name in self._random.sample(self._pods, len(self._pods)):
            self._cluster.delete_pod(name)
        self._strike(kills - kills // 2, GOING, deletes=0)
        self._cluster.until_clean()

    def _make(self, count: int) -> None:
        """A tenth have raw devices or inline volumes; of the others, some pods of one node share a volume."""
        shared: dict[str, str] = {}
        for number in range(count):
            name, node = f"{self._tag}-{number}", self._cluster.nodes[number % len(self._cluster.nodes)].name
            self._pods.append(name)
            if number % 20 == 3:
                self._cluster.add_volume(name, block=True)
                self._cluster.add_pod(name, node, name, devices=True)
            elif number % 20 == 13:
                self._cluster.add_pod(name, node, inline=["scratch"])
            elif node in shared and self._random.random() < 0.2:
                self._cluster.add_pod(name, node, shared[node])
            else:
                self._cluster.add_volume(name)
                shared[node] = name
                self._cluster.add_pod(name, node, name)

    def _strike(self, kills: int, methods: tuple[str, ...], deletes: int) -> None:
        """Kills and, in between, deletions; everybody lives again afterwards."""
        acts = ["agent"] * (kills - kills // 3) + ["driver"] * (kills // 3) + ["delete"] * deletes
        self._random.shuffle(acts)
        for act in acts:
            if act == "delete":
                name = self._pods.pop(self._random.randrange(len(self._pods)))
                self._cluster.delete_pod(name)
            else:
                self._kill(act, self._random.choice(self._cluster.nodes), self._random.choice(methods))

    def _kill(self, who: str, node: NodePlace, method: str) -> None:
        """In the middle of one of the driver's calls, or anywhere; mostly once the agent is at work."""
        self.kills += 1
        if self._random.random() < 0.8:
            self._cluster.until_up(node)
        if self._random.random() < 0.5:
            self._cluster.kill_in(node, who, method, self._random.choice(("before", "after")), FATE_S_MAX)
        else:
            time.sleep(self._random.uniform(0, PAUSE_S_MAX))
        if who == "agent":
            node.kill_agent()
            node.start_agent()
        else:
            node.kill_driver()
            node.start_driver()
