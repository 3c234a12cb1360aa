"""Lets clients of other implementations of gRPC call a driver of the SDK in every way that drivers are called.

    python -m bench.interop.served NAME=PROGRAM ...

PROGRAM gets the path of the socket of `driver.py`, and prints a line for each check: its name, a tab, `ok` or what went
otherwise. Before its last check it prints `end`, with a call under way: the driver is ended in good order, the call
must be answered, and the next one must be Unavailable. The checks, on one connection, by the methods of `check.py`:

    small          300 calls, one after the other
    thousand       1,000 calls at once, of 0.3 s each
    large          messages of 0, 1, 16,370, 16,384, 16,390, 65,535, 65,536, 5,000,000 bytes and of 64 MiB,
                   both ways; eight of 3 MB at once
    errors         codes and texts, one of 5,000 characters, and of a method that nobody has
    deadlines      the driver is told 15 s; a late call is DeadlineExceeded, and given up at the driver
    cancellations  three calls at once are given up at the driver

Exit code 1 when anything went otherwise.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CHECKS: Final = ("small", "thousand", "large", "errors", "deadlines", "cancellations", "end")
ROUND_S_MAX: Final = 300


@contextmanager
def a_driver(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.interop.driver", str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n", "the driver is not ready"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def passed(name: str, command: list[str]) -> bool:
    """True when the client has made every check, and each went well."""
    well = []
    with tempfile.TemporaryDirectory(prefix="interop-") as folder, a_driver(Path(folder) / "s.sock") as driver:
        client = subprocess.Popen(
            ["timeout", str(ROUND_S_MAX), *command, f"{folder}/s.sock"], stdout=subprocess.PIPE, text=True
        )
        assert client.stdout is not None
        for line in client.stdout:
            if line == "end\n":
                driver.send_signal(signal.SIGTERM)
                continue
            check, _, result = line.rstrip("\n").partition("\t")
            print(f"{name:10} {check:14} {result}", flush=True)
            if result == "ok":
                well.append(check)
        client.stdout.close()
        ended = client.wait() == 0 and driver.wait(timeout=20) == 0
    return ended and tuple(well) == CHECKS


if __name__ == "__main__":
    named = [word.partition("=") for word in sys.argv[1:]]
    failed = [name for name, _, command in named if not passed(name, shlex.split(command))]
    sys.exit(f"not well: {', '.join(failed)}" if failed else 0)
