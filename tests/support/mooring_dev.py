"""`mooring dev` as people start it: in the background of a test, or on a terminal of 80 columns."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.programs import Program
from tests.support.waiting import eventually

MOORING: Final = [sys.executable, "-m", "mooring.cli.mooring"]

# Becomes the program once the terminal on its input rules over it, as that of a shell does.
_ON_TERMINAL: Final = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"

_ASK: Final = "from mooring.mounts.namespace import enter_private_mounts; print(enter_private_mounts().obstacle)"


@functools.cache
def mount_obstacle() -> str:
    """Why programs can't mount here, "" where they can. Asked by a program of its own: this process stays where it is."""
    return subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=30, check=True).stdout.strip()


def needs_mounts() -> None:
    """Ends a test that mounts where nothing can be mounted."""
    if obstacle := mount_obstacle():
        not_tested(REAL_MOUNTS, obstacle)


Within = Callable[..., list[str]]


def as_it_is(*words: str) -> list[str]:
    return list(words)


@contextlib.contextmanager
def dev(folder: Path, *flags: str, within: Within = as_it_is) -> Iterator[tuple[Program, Path]]:
    """`mooring dev`, ready, with its kubeconfig; ended by Ctrl-C, as it should be. within: the words that run it elsewhere."""
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


class Screen:
    """A terminal of 80 columns and 24 lines, and a program in its foreground."""

    def __init__(self, *command: str) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
            env={**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, "TERM": "xterm-256color"},
        )
        os.close(there)
        self._seen = b""

    @property
    def lines(self) -> list[str]:
        """What has been shown, without colours."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._seen.decode(errors="replace"))
        return [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]

    def type(self, keys: str) -> None:
        os.write(self._here, keys.encode())

    def shows(self, pattern: str, times: int = 1, timeout_s: float = 20.0) -> bool:
        """True as soon as so many lines match."""
        deadline = time.monotonic() + timeout_s
        while len([line for line in self.lines if re.search(pattern, line)]) < times:
            if not select.select([self._here], [], [], max(0.0, deadline - time.monotonic()))[0] or not self._read():
                return False
        return True

    def _read(self) -> bool:
        try:
            data = os.read(self._here, 65536)
        except OSError:  # what Linux answers when the other side has closed
            return False
        self._seen += data
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self._here)
