"""A real program's flight record, and its replay by `mooring replay`."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.programs import Program
from tests.support.waiting import eventually

MOORING = Path(sys.executable).with_name("mooring")


async def written(program: Program, log: Path, count: int = 1) -> Path:
    """The file of the record that SIGUSR1 asks for. log: of the program. count: which one."""
    program.send(signal.SIGUSR1)
    line = await asyncio.to_thread(wait_for_line, log, "Wrote the flight record", f"-{count}.gz")
    return Path(line.split('file="')[1].split('"')[0])


def wait_for_line(log: Path, *texts: str) -> str:
    """The line of a log that has all the texts, once it is there."""

    def found() -> str | None:
        return next((line for line in log.read_text().splitlines() if all(text in line for text in texts)), None)

    return eventually(found, 30.0, " ".join(texts))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def replay(path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MOORING, "replay", str(path), *flags], capture_output=True, text=True, timeout=120, check=False
    )


def assert_same(path: Path, *, decisions: int, calls: int = 0) -> None:
    """The replay of a whole record comes to its very decisions. decisions, calls: the least of each that it has."""
    header, *lines = lines_of(path)
    assert header["whole"]
    told = [line["shown"] for line in lines if line["kind"] == "decided"]
    found = replay(path)
    assert (0, f"{len(told)} decisions, the same as recorded.") == (found.returncode, found.stdout.splitlines()[-1]), (
        found.stdout + found.stderr
    )
    again = [json.loads(line)["shown"] for line in replay(path, "--output=json").stdout.splitlines()]
    assert told == again
    assert len(told) >= decisions
    assert sum(line["kind"] == "call" for line in lines) >= calls


def assert_cut(path: Path) -> None:
    """The replay of a record that was cut comes to its end, and to most of the recorded decisions."""
    header, *lines = lines_of(path)
    assert not header["whole"]
    told = sum(line["kind"] == "decided" for line in lines)
    found = replay(path)
    assert 0 == found.returncode, found.stdout + found.stderr
    line = next(line for line in found.stdout.splitlines() if line.endswith("of them as they were recorded."))
    _, same = (int(word) for word in line.split() if word.isdecimal())
    assert told > 2
    assert same > 0.5 * told, f"of {told}: {found.stdout}"
