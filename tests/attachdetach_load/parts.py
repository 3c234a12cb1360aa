"""The programs of a load run: the real control plane without its attach/detach controller; ours, an attacher and a
driver beside it.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.builders import DRIVER
from tests.support.control_plane import ControlPlane
from tests.support.programs import Program
from tests.support.unreliable_driver import Journal, start

CONTROLLERS = ("*", "-persistentvolume-attach-detach-controller")
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")
TROUBLE = 0.1
"""How often a call of the driver goes wrong."""


class Mortal:
    """A program that is killed and comes back. kills: so far."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name, self.kills = name, 0
        self._command, self._log = command, log
        self._program = Program(command, log)

    async def die(self, away_s: float) -> None:
        """By SIGKILL; it is started again after so many seconds."""
        self._program.assert_alive()
        self._program.kill()
        self.kills += 1
        await asyncio.sleep(away_s)
        self._program = Program(self._command, self._log)

    def assert_alive(self) -> None:
        self._program.assert_alive()

    def kill(self) -> None:
        self._program.kill()

    def log_tail(self) -> str:
        return self._program.log_tail()


class Parts:
    """Use `stop` at the end. plane: a control plane of its own, that nobody else works on."""

    def __init__(self, plane: ControlPlane, folder: Path, seed: int) -> None:
        self._plane, self.plane_parts = (
            plane,
            [plane.start_controllers(*CONTROLLERS, flags=QUICK), plane.start_scheduler()],
        )
        socket = folder / "csi.sock"
        self.driver, self._journal = start(folder, socket, DRIVER, seed=seed, trouble=TROUBLE)
        config = f"--kubeconfig={plane.kubeconfig('mooring')}"
        mooring = [sys.executable, "-m", "mooring.cli.mooring"]
        self.mortals = (
            Mortal(
                "controller",
                [*mooring, "attachdetach", config, "--leader-elect=false", "--v=2"],
                folder / "attachdetach.log",
            ),
            Mortal(
                "attacher",
                [
                    *mooring,
                    "attacher",
                    config,
                    f"--csi-address={socket}",
                    "--timeout=5s",
                    "--retry-interval-start=200ms",
                    "--v=2",
                ],
                folder / "attacher.log",
            ),
        )

    async def kill_at_random(self, dice: random.Random, every_s: float, seconds: float) -> None:
        """One or the other, again and again, for so long; all run in the end."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(dice.uniform(0.5, 1.5) * every_s)
            await dice.choice(self.mortals).die(dice.uniform(0, 2))

    @property
    def kills(self) -> int:
        return sum(one.kills for one in self.mortals)

    def assert_alive(self) -> None:
        for one in (*self.plane_parts, self.driver, *self.mortals):
            one.assert_alive()

    def journal(self) -> Journal:
        return Journal(self._journal)

    def logs(self) -> str:
        return "\n".join(f"-- {one.name}\n{one.log_tail()}" for one in self.mortals)

    def stop(self) -> None:
        for one in self.mortals:
            one.kill()
        self.driver.kill()
