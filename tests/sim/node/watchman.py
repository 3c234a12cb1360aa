"""Looks in lives where a driver hangs, or a claim, and nothing else goes wrong, who is held up: nobody who has nothing
to do with it.

A pod is held up that does not come to run, or does not go, for so long, though all that it needs is there; a volume,
whose driver is not asked any more how full it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.sim.node.acts import claims_in
from tests.sim.node.plan import RWX, DriverPlan, VolumePlan
from tests.sim.node.pod_words import FINISHED, Json, is_slow
from tests.sim.node.world import NodeWorld

LOOK_S: Final = 5.0
HELD_S: Final = 40.0
"""A healthy driver takes two seconds for a call, the controller three for a step, and a pod of several volumes has a
dozen of both.
"""
STATS_S: Final = 300.0
"""Twice the longest time between two questions."""


class Watchman:
    def __init__(self, world: NodeWorld) -> None:
        self._world, self._plan = world, world.plan
        self._since: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Until the faults end."""
        while self._world.faulty:
            now = self._world.clock.now()
            waiting = dict(self._waiting())
            self._since = {key: self._since.get(key, now) for key in waiting}
            for key, text in waiting.items():
                if now - self._since[key] > (STATS_S if key[0] == "stats" else HELD_S):
                    self._world.fail("held-up", text)
            await self._world.clock.sleep(LOOK_S)

    def _waiting(self) -> Iterator[tuple[tuple[str, str], str]]:
        for uid, pod in self._world.laws.pods.items():
            name = pod["metadata"]["name"]
            if not self._is_free(pod):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                yield ("goes", uid), f"pod {name} does not go, and no driver of its volumes hangs"
            elif pod["status"]["phase"] not in (*FINISHED, "Running") and self._has_all(pod):
                yield ("comes", uid), f"pod {name} does not come to run, and no driver of its volumes hangs"
        yield from self._unasked()

    def _unasked(self) -> Iterator[tuple[tuple[str, str], str]]:
        now, laws = self._world.clock.now(), self._world.laws
        for machine in self._world.backend.machines.values():
            for path, handle in machine.published.items():
                volume = self._plan.volume_of(handle)
                asked_s = laws.stats_at.get((machine.name, path), 0.0)
                if volume is not None and not volume.block and not self._hangs(volume) and now - asked_s > LOOK_S:
                    yield (
                        ("stats", f"{path} {asked_s}"),
                        f"nobody asks how full {volume.name} is at {machine.short(path)}",
                    )

    def _is_free(self, pod: Json) -> bool:
        """True where none of its claims is slow, and no driver of its volumes hangs; or one hangs for one pod, and not
        for this one.
        """
        if self._plan.habits.slow_claims and any(is_slow(name) for name in claims_in(pod)):
            return False
        volumes = self._volumes(pod)
        drivers = [self._plan.driver_of(volume.driver) for volume in volumes]
        drivers += [
            self._plan.driver_of(volume["csi"]["driver"])
            for volume in pod["spec"].get("volumes") or ()
            if "csi" in volume
        ]
        if any(driver.habits.hangs - {"stats", "info"} and not driver.habits.hangs_at_first for driver in drivers):
            return False
        uid = pod["metadata"]["uid"]
        return not any(uid in path for service in self._world.backend.services.values() for _, path in service.held)

    def _has_all(self, pod: Json) -> bool:
        """True where nobody else has to do something first: the volumes are attached, and free for it."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        return not any(name.startswith("nowhere") for name in claims_in(pod)) and all(
            self._is_ready(volume, node, uid) for volume in self._volumes(pod)
        )

    def _is_ready(self, volume: VolumePlan, node: str, uid: str) -> bool:
        driver, site = self._plan.driver_of(volume.driver), self._world.backend
        machines = site.machines.values() if volume.mode != RWX else ()
        elsewhere = any(volume.handle in machine.staged for machine in machines if machine.name != node)
        leaves = any(volume.handle == handle for service in site.services_of(node) for handle, _ in service.held)
        others = any(
            handle == volume.handle and uid not in path for path, handle in site.machines[node].published.items()
        )
        is_there = not driver.attaches or (volume.handle, node) in site.attached
        return (
            is_there and not volume.bound_late and not elsewhere and not leaves and not (others and volume.mode != RWX)
        )

    def _hangs(self, volume: VolumePlan) -> bool:
        return bool(self._driver(volume).habits.hangs)

    def _driver(self, volume: VolumePlan) -> DriverPlan:
        return self._plan.driver_of(volume.driver)

    def _volumes(self, pod: Json) -> list[VolumePlan]:
        names = claims_in(pod)
        return [volume for volume in self._plan.volumes if volume.name in names]
