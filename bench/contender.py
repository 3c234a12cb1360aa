"""One program under measurement: started beside a driver of its own, its processor time and memory read from the kernel."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.support.programs import Program

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Contender:
    """name: as the tables show it. command: before the flags."""

    name: str
    command: tuple[str, ...]

    @property
    def driver_name(self) -> str:
        return f"{self.name.lower().replace(' ', '-')}.bench.mooring.dev"


class LoadDriver:
    """The driver for load (bench/driver), which answers at once and counts its calls."""

    def __init__(self, program: Path, socket: Path, name: str) -> None:
        self.socket = socket
        socket.unlink(missing_ok=True)
        self._process = subprocess.Popen([program, socket, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 10
        while not socket.exists():
            assert time.monotonic() < deadline, "the driver for load does not come up"
            time.sleep(0.01)

    def counts(self) -> dict[str, int]:
        """Calls so far, by RPC."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Running:
    """A contender at work. cpu_s, rss_mib: of its process, now."""

    def __init__(self, contender: Contender, kubeconfig: Path, driver: LoadDriver, log: Path, flags: tuple[str, ...]) -> None:
        command = [*contender.command, f"--kubeconfig={kubeconfig}", f"--csi-address={driver.socket}", *flags]
        self._program = Program(command, log)
        self._proc = Path("/proc") / str(self._program.pid)

    @property
    def cpu_s(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    @property
    def rss_mib(self) -> float:
        lines = (self._proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def stop(self) -> None:
        self._program.kill()


def quantile(values: list[float], share: float) -> float:
    """The value below which this share (0 to 1) of the values lies, by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, Any]:
    """What this machine is, in words that name no host."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    return {
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "memory_gib": round(int(total.split()[1]) / 2**20),
        "kernel": os.uname().release,
    }
