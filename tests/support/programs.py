"""Programs that tests start: their output in a file, and never alive after the tests."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PYTHON: Final = shlex.quote(sys.executable)
"""As a word of a shell's line: its path may have blanks."""

# Becomes the program after asking the kernel to kill it when the parent is gone, even by SIGKILL. A program of its own
# rather than a preexec_fn, which is unsafe once there are threads. The parent may have died before the request: then it
# ends at once.
_TETHER: Final = """
import ctypes, os, signal, sys
parent, program = int(sys.argv[1]), sys.argv[2:]
if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0) != 0: sys.exit("prctl failed")
if os.getppid() != parent: sys.exit("the tests are gone")
os.execvp(program[0], program)
"""


class Program:
    """A running program of its own process group. Start it from the thread that lives as long as the tests: the tether
    is to it.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        tethered = [sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), *self.command]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                tethered,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=None if env is None else dict(env),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As a shell gives it (143 after SIGTERM), None while the program runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def send(self, sig: int) -> None:
        """Sends a signal to the program alone."""
        self._process.send_signal(sig)

    def wait_exit(self, timeout_s: float = 10.0) -> int:
        """The exit code, once it ends by itself. Raises AssertionError with the log's end when it does not."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.command[0]} still runs after {timeout_s:g} s\n{self.log_tail()}") from None
        code = self.exit_code
        assert code is not None
        return code

    def stop(self, timeout_s: float = 10.0) -> int:
        """SIGTERM, then SIGKILL for the whole group. The exit code."""
        if self.exit_code is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        return self.kill()

    def kill(self) -> int:
        """SIGKILL for the program and all that it started. The exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        code = self.exit_code
        assert code is not None
        return code

    def assert_alive(self) -> None:
        """Raises AssertionError with the log's end when the program has ended."""
        assert self.exit_code is None, f"{self.command[0]} ended with {self.exit_code}\n{self.log_tail()}"

    def output(self) -> str:
        """All that it has written."""
        return self.log.read_text(errors="replace")

    def output_alive(self) -> str:
        """All that it has written. Raises AssertionError with the log's end when the program has ended."""
        self.assert_alive()
        return self.output()

    def log_tail(self, lines_max: int = 40) -> str:
        """The last lines of its output."""
        return "\n".join(self.output().splitlines()[-lines_max:])


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
