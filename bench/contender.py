"""One program under measurement: started beside a driver of its own, its processor time and memory read from the
kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.programs import Program

ROOT = Path(__file__).resolve().parents[1]
NO_LIMIT = ("--kube-api-qps=-1", "--kube-api-burst=1")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Contender:
    """name: as the tables show it. command: before the flags."""

    name: str
    command: tuple[str, ...]

    @property
    def driver_name(self) -> str:
        return f"{re.sub('[^a-z]+', '-', self.name.lower())}.bench.mooring.dev"


@dataclasses.dataclass(frozen=True)
class Pair:
    """A controller that has no driver, and the sidecar beside one, under whose name they go."""

    controller: Contender
    sidecar: Contender

    @property
    def name(self) -> str:
        return self.sidecar.name


class LoadDriver:
    """The driver for load (bench/driver), which answers at once and counts its calls."""

    def __init__(self, program: Path, socket: Path, name: str, *words: str) -> None:
        self.socket = socket
        socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [program, socket, name, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 10
        while not socket.exists():
            assert time.monotonic() < deadline, "the driver for load does not come up"
            time.sleep(0.01)

    def counts(self) -> dict[str, int]:
        """Calls so far, by RPC."""
        return self.ask("")

    def ask(self, word: str) -> dict[str, int]:
        """What the driver answers to a word of bench/driver/main.go."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Running:
    """A contender at work. cpu_s, rss_mib: of its process, now. driver: None for one that has none. env: beside our
    own.
    """

    def __init__(
        self,
        contender: Contender,
        kubeconfig: Path,
        driver: LoadDriver | None,
        log: Path,
        flags: Sequence[str],
        env: Mapping[str, str] | None = None,
    ) -> None:
        address = () if driver is None else (f"--csi-address={driver.socket}",)
        command = [*contender.command, f"--kubeconfig={kubeconfig}", *address, *flags]
        self._program = Program(command, log, None if env is None else {**os.environ, **env})
        self.pid = self._program.pid

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    @property
    def rss_mib(self) -> float:
        return memory_mib(self.pid, "VmRSS")

    async def settled_rss_mib(self) -> float:
        """Resident memory once it grows no more, or after a minute."""
        before = -1.0
        for _ in range(30):
            await asyncio.sleep(2)
            now = self.rss_mib
            if abs(now - before) < 0.5:
                break
            before = now
        await asyncio.sleep(3)
        return self.rss_mib

    def stop(self) -> None:
        self._program.kill()


@contextlib.contextmanager
def running(
    contender: Contender,
    kubeconfig: Path,
    driver: LoadDriver | None,
    log: Path,
    flags: Sequence[str],
    env: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A contender at work; the end of its log is shown when what is measured fails. The driver ends with it."""
    made = Running(contender, kubeconfig, driver, log, flags, env)
    try:
        yield made
    except BaseException:
        print("\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
        raise
    finally:
        made.stop()
        if driver is not None:
            driver.stop()


def build_driver(folder: Path) -> Path:
    """Compiles bench/driver; takes seconds once Go has it cached."""
    out = folder / "bench-driver"
    subprocess.run(
        ["go", "build", "-o", out, "."],
        cwd=ROOT / "bench" / "driver",
        check=True,
        env={**os.environ, "CGO_ENABLED": "0"},
    )
    return out


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, in its own code and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def memory_mib(pid: int, field: str) -> float:
    """field: as in the kernel's status of a process: VmRSS for what is resident now, VmHWM for the most that ever
    was.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


class Strangers:
    """How many processors others keep busy, who are no part of the bench. pids: the processes that are."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = (os.getpid(), *pids)
        self._began = self._now()

    def busy(self) -> float:
        """Processors' worth since this was made; the bench's own short-lived helpers count as others."""
        return (self._now()[0] - self._began[0]) / (self._now()[1] - self._began[1])

    def _now(self) -> tuple[float, float]:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        ours = sum(cpu_s(pid) for pid in self._pids)
        return (sum(fields) - fields[3] - fields[4]) / _TICKS_PER_S - ours, time.monotonic()


class Shares:
    """Tells which part of a bench uses the processors. parts: the processes of each part."""

    def __init__(self, parts: Mapping[str, Iterable[int]]) -> None:
        self._parts = {name: tuple(pids) for name, pids in parts.items()}
        self._began = self._now()

    def ms_per(self, count: int) -> dict[str, float]:
        """Processor time of each since this was made, in milliseconds for one of so many objects."""
        return {name: (now - self._began[name]) / count * 1000 for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: sum(cpu_s(pid) for pid in pids) for name, pids in self._parts.items()}


def quantile(values: list[float], share: float) -> float:
    """The value below which this share (0 to 1) of the values lies, by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, Any]:
    """What this machine is, in words that name no host."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "memory_gib": round(int(total.split()[1]) / 2**20),
        "kernel": os.uname().release,
    }
