"""One world of nodes: as the attacher's, with machines and their drivers in place of publications."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from tests.sim.node.driver import NodeService
from tests.sim.node.laws import Laws
from tests.sim.node.machine import Machine
from tests.sim.node.plan import SECRET_MARK, Plan
from tests.sim.node.told import is_at_once
from tests.sim.world import SimWorld

MEMORY: Final = Path("/dev/shm")
"""Where disks are fastest."""


class Site:
    """machines: by node. services: by node and driver. attached: (handle, node) → the number of its attachment.
    secrets: what a driver wants to see, by the secret's name.
    """

    def __init__(self, plan: Plan, root: Path, group: asyncio.TaskGroup) -> None:
        self.group = group
        self.machines = {node: Machine(node, root / node) for node in plan.nodes}
        if plan.habits.one_host:
            for machine in self.machines.values():
                machine.neighbours = [other for other in self.machines.values() if other is not machine]
        self.services: dict[tuple[str, str], NodeService] = {}
        self.attached: dict[tuple[str, str], int] = {}
        self.secrets = {
            name: f"{SECRET_MARK}0"
            for volume in plan.volumes
            for name in (volume.stage_secret, volume.publish_secret)
            if name
        }
        self._attachments_count = 0

    def attach(self, handle: str, node: str) -> dict[str, str]:
        """Returns the attachment's metadata."""
        self._attachments_count += 1
        self.attached.setdefault((handle, node), self._attachments_count)
        return self.metadata(handle, node)

    def metadata(self, handle: str, node: str) -> dict[str, str]:
        return {"device": f"{handle} at {node}, attachment {self.attached[handle, node]}"}

    def services_of(self, node: str) -> list[NodeService]:
        return [service for (name, _), service in self.services.items() if name == node]

    def heal(self) -> None:
        for service in self.services.values():
            service.heal()
        for machine in self.machines.values():
            machine.mend()
            machine.full_until_s = 0.0
            machine.protected.clear()


class NodeWorld(SimWorld):
    """root: the folder of all machines."""

    plan: Plan  # type: ignore[assignment]
    backend: Site  # type: ignore[assignment]
    laws: Laws  # type: ignore[assignment]

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[Site, Laws]:  # type: ignore[override]
        where = MEMORY if MEMORY.is_dir() else None
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-sim-", dir=where)
        site = Site(plan, Path(self._folder.name), group)
        for name, machine in site.machines.items():
            for own in plan.drivers:
                site.services[name, own.name] = NodeService(self, machine, own, plan, self.clock, self.story, group)
        laws = Laws(self.truth, site, plan, self.fail, self.clock.now)
        laws.told.is_at_once = is_at_once(plan)
        laws.is_late = lambda name: name in self.server.late_names
        return site, laws

    def log_line(self, line: str) -> None:
        self.laws.log_line(line)

    def close(self) -> None:
        """The disks are given back."""
        self._folder.cleanup()
