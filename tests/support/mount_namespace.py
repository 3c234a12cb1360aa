"""A mount namespace for the programs of one test: what they mount is never seen outside, and goes with the last of
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from mooring.mounts.mountinfo import MountTable, parse
from mooring.mounts.system import missing_tools
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.loop_devices import needs_loop_devices

_HOLDER: Final = "import sys; print('ready', flush=True); sys.stdin.read()"
_TOOLS: Final = ("unshare", "nsenter", "mount", "umount", "losetup")


class MountNamespace:
    """Held by a process of its own, which ends with the tests. Where the machine has no such thing, the test is not
    tested.
    """

    def __init__(self) -> None:
        missing = missing_tools(_TOOLS)
        if sys.platform != "linux" or os.geteuid() != 0 or missing:
            not_tested(REAL_MOUNTS, f"no {', '.join(missing)}" if missing else "not root on Linux")
        needs_loop_devices()
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-I", "-S", "-c", _HOLDER]
        self._holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != "ready\n":
            not_tested(REAL_MOUNTS, f"no mount namespace of its own: {self._holder.stderr.read().strip()}")

    def command(self, *words: str | Path) -> list[str]:
        """The words that run the program in here, under the same process id."""
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", f"--wdns={Path.cwd()}", *map(str, words)]

    def run(self, *words: str | Path) -> str:
        """The output of a program that ends at once. Raises CalledProcessError."""
        return subprocess.run(self.command(*words), check=True, capture_output=True, text=True, timeout=30).stdout

    def mounts(self) -> MountTable:
        """What is mounted in here now."""
        return MountTable(
            parse(Path(f"/proc/{self._holder.pid}/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
        )

    def points(self, folder: Path) -> list[str]:
        """The mount points below a folder, and on it."""
        return [mount.point for mount in self.mounts().below(str(folder))]

    def close(self) -> None:
        """Ends the holder. What is still mounted goes with the last program in here."""
        assert self._holder.stdin is not None
        self._holder.kill()
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if stream is not None:
                stream.close()
        self._holder.wait()
