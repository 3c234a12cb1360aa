"""`mooring dev` as people start it: in the background of a test, or on a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.pods import PODS
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client import kubeconfig
from mooring.kube.client.http import HttpCluster
from tests.support.builders import Json
from tests.support.emulator import Emulator
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.loop_devices import needs_loop_devices
from tests.support.programs import Program
from tests.support.waiting import eventually

MOORING: Final = [sys.executable, "-m", "mooring.cli.mooring"]

# Becomes the program once the terminal on its input rules over it, as that of a shell does.
_ON_TERMINAL: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)

SAYS_OTHERWISE: Final = ("COLUMNS", "LINES", "NO_COLOR")
"""Variables that would tell programs of another terminal."""

_ASK: Final = "from mooring.mounts.namespace import enter_private_mounts; print(enter_private_mounts().obstacle)"


@functools.cache
def mount_obstacle() -> str:
    """Why programs can't mount here, "" where they can. Asked by a program of its own: this process stays where it
    is.
    """
    return subprocess.run(
        [sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
    ).stdout.strip()


def needs_mounts() -> None:
    """Ends a test that mounts where nothing can be mounted."""
    if obstacle := mount_obstacle():
        not_tested(REAL_MOUNTS, obstacle)


def needs_root() -> None:
    """Ends a test that needs loop devices, or a mount namespace without one of users."""
    needs_mounts()
    if os.geteuid() != 0:
        not_tested(REAL_MOUNTS, "only root has loop devices and mount namespaces of its own")
    needs_loop_devices()


Within = Callable[..., list[str]]


def as_it_is(*words: str) -> list[str]:
    return list(words)


@contextlib.contextmanager
def dev(folder: Path, *flags: str, within: Within = as_it_is) -> Iterator[tuple[Program, Path]]:
    """`mooring dev`, ready, with its kubeconfig; ended by Ctrl-C, as it should be. within: the words that run it
    elsewhere.
    """
    with dev_to_kill(folder, *flags, within=within) as (program, config):
        yield program, config
        program.send(signal.SIGINT)
        assert 0 == program.wait_exit(), program.log_tail()
        assert "ended in good order" in program.output()


@contextlib.contextmanager
def dev_to_kill(folder: Path, *flags: str, within: Within = as_it_is) -> Iterator[tuple[Program, Path]]:
    """The same, ended by SIGKILL."""
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "log").unlink(missing_ok=True)  # of the run before, which was ready, too
    program = Program(within(*MOORING, "dev", *flags), folder / "log", {**os.environ, "TMPDIR": str(folder / "tmp")})
    try:
        eventually(lambda: re.search("export KUBECONFIG=.*\n", program.output_alive()), 40, "mooring dev is ready")
        yield program, Path(re.findall("export KUBECONFIG=(.*)", program.output())[-1])
    finally:
        program.kill()


def page_address(program: Program) -> str:
    """Of the page of `mooring dev --browser`, which comes right after it is ready."""
    found: list[str] = []

    def look() -> bool:
        found[:] = re.findall(r"http://127\.0\.0\.1:\d+/\S+/", program.output_alive())
        return bool(found)

    eventually(look, 20, "the page's address is printed")
    return found[0]


class Screen(Emulator):
    """A terminal, of 80 columns and 24 lines if not told otherwise, and a program in its foreground."""

    def __init__(self, *command: str, columns: int = 80, lines: int = 24) -> None:
        super().__init__(columns, lines)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            stdin=self.out,
            stdout=self.out,
            stderr=self.out,
            start_new_session=True,
            env={
                **{name: value for name, value in os.environ.items() if name not in SAYS_OTHERWISE},
                "TERM": "xterm-256color",
            },
        )
        self.out.close()

    @property
    def lines(self) -> list[str]:
        """All that has been written, without colours, and not broken where the terminal ends."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.written.decode(errors="replace"))
        return [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]

    def wrote(self, pattern: str, times: int = 1, timeout_s: float = 20.0) -> bool:
        """True as soon as so many lines match."""
        return self.until(lambda: len([line for line in self.lines if re.search(pattern, line)]) >= times, timeout_s)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        super().close()


async def create(config: Path, *bodies: Json) -> None:
    """In the namespace `default`: claims and pods."""
    clock, kinds = LoopClock(), {"PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS, "Pod": PODS}
    async with HttpCluster(
        kubeconfig.load(str(config), {}), clock=clock, randomness=Random(1), user_agent="tests"
    ) as cluster:
        for body in bodies:
            await cluster.create(kinds[str(body["kind"])], body, "default")


def turned(word: str, *words: str, config: Path | None = None, tmp: Path | None = None) -> tuple[int, str]:
    """`mooring dev kill-node` or `revive-node` in another terminal: its exit code, and its words."""
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environment |= {"KUBECONFIG": str(config)} if config is not None else {}
    environment |= {"TMPDIR": str(tmp)} if tmp is not None else {}
    done = subprocess.run(
        [*MOORING, "dev", word, *words], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    return done.returncode, done.stdout + done.stderr
