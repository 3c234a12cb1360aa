"""`mooring node-agent` that dies by its own hand at a certain change of its disk: after the n-th call that changes
something.

    python -m tests.support.dying_agent N TRACE ROOT [FLAG ...]

Counted are the calls of os that make, sync, rename or remove something below ROOT. Each is written to the file TRACE
before it happens, so that the last line is what the agent died after. N = 0: it lives, and the trace shows how many
there are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.cli.mooring import run

CHANGES = ("mkdir", "rmdir", "rename", "unlink", "symlink", "fsync")


class Counter:
    """The changes so far."""

    def __init__(self, last: int, trace: Path, root: str) -> None:
        self._last, self._root, self._count = last, root, 0
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def wrapped(self, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **options: Any) -> Any:
            if not (path := self._path(args)).startswith(self._root):
                return change(*args, **options)
            self._count += 1
            os.write(self._trace, f"{name} {path}\n".encode())
            is_last = self._count == self._last
            try:
                return change(*args, **options)
            finally:
                if is_last:
                    os.kill(os.getpid(), signal.SIGKILL)

        return changed

    def _path(self, args: tuple[Any, ...]) -> str:
        """Of the call's last path; a descriptor's is looked up."""
        paths = [arg for arg in args if isinstance(arg, str | os.PathLike)]
        return os.fspath(paths[-1]) if paths else os.readlink(f"/proc/self/fd/{args[0]}")


def main() -> int:
    last, trace, root, *flags = sys.argv[1:]
    counter = Counter(int(last), Path(trace), root)
    for name in CHANGES:
        setattr(os, name, counter.wrapped(name, getattr(os, name)))
    return run(["node-agent", f"--root-dir={root}", *flags])


if __name__ == "__main__":
    sys.exit(main())
