"""Mooring's registrar and liveness probe beside the Go ones: `make bench-sidecars`.

A node has one of each for every driver, idle nearly always. Measured are the time from the start to the first 200 of
/healthz, memory after five idle seconds, and the processor time of one probe. Driver: bench/driver, which answers at
once.

Python has its bytecode, as in the image, whose pip writes it: a start without, which compiles, takes several times as
long and leaves 8 MiB more behind. The Go programs are those of --peers: the Go module proxy has neither (their tags are
v2, their module paths are not), so hack/kube/build can't build them.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.contender import LoadDriver, build_driver, cpu_s
from bench.tables import Table, heading
from tests.support.programs import free_ports

SCRIPTS = Path(sys.executable).parent
IDLE_S = 5.0
START_S_MAX = 30.0
VERSIONS = "node-driver-registrar v2.17 and livenessprobe v2.19"
TITLES = {"csi-node-driver-registrar": "Registrar", "livenessprobe": "Liveness probe"}


@dataclasses.dataclass(frozen=True)
class Run:
    """One program in one round. Memory in MiB; private_mib: what no other process can share."""

    start_s: float
    rss_mib: float
    private_mib: float
    probe_cpu_ms: float


class Bench:
    """The rounds beside one driver. folder: short, sockets are in it. probes: of /healthz, for the processor time of
    one.
    """

    def __init__(self, folder: Path, driver: LoadDriver, probes: int) -> None:
        self._folder, self._driver, self._probes = folder, driver, probes
        bytecode = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        self._env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | bytecode

    def round(self, program: Path) -> Run:
        """Starts it, leaves it alone, asks it, ends it."""
        with self._running(program) as (pid, port, start_s):
            time.sleep(IDLE_S)
            rss_mib, private_mib = memory_mib(pid)
            before_s = cpu_s(pid)
            for _ in range(self._probes):
                assert is_healthy(port)
            return Run(start_s, rss_mib, private_mib, (cpu_s(pid) - before_s) * 1000 / self._probes)

    @contextlib.contextmanager
    def _running(self, program: Path) -> Iterator[tuple[int, int, float]]:
        """Its process, the port of its /healthz, and how long that took to answer 200."""
        (port,) = free_ports(1)
        command = [program, f"--csi-address={self._driver.socket}", f"--http-endpoint=127.0.0.1:{port}"]
        if program.name == "csi-node-driver-registrar":
            command += ["--kubelet-registration-path=/k/csi.sock", f"--plugin-registration-path={self._folder}"]
        log = self._folder / "log"
        began = time.perf_counter()
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output, env=self._env) as process:
            try:
                while not is_healthy(port):
                    assert process.poll() is None, log.read_text()
                    assert time.perf_counter() - began < START_S_MAX, log.read_text()
                    time.sleep(0.002)
                yield process.pid, port, time.perf_counter() - began
            finally:
                process.terminate()


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident memory of a process, and the part of it that belongs to no file."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = {words[0]: int(words[1]) for line in lines if len(words := line.split()) == 3}
    return kib["Rss:"] / 1024, kib["Anonymous:"] / 1024


def table(title: str, runs: Mapping[str, Sequence[Run]]) -> str:
    made = Table(title, runs)
    made.row("start to the first 200 of /healthz (ms)", "{:.0f}", lambda run: run.start_s * 1000, each_round=True)
    made.row("memory idle (MiB)", "{:.0f}", lambda run: run.rss_mib, each_round=True)
    made.row("… of that private (MiB)", "{:.0f}", lambda run: run.private_mib)
    made.row("processor time per GET /healthz (ms)", "{:.2f}", lambda run: run.probe_cpu_ms)
    return str(made)


def measure(options: argparse.Namespace, folder: Path) -> str:
    driver = LoadDriver(build_driver(folder), folder / "csi.sock", "bench.mooring.dev")
    contenders = {"Go": options.peers, "Mooring": SCRIPTS}
    runs: dict[str, dict[str, list[Run]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    try:
        bench = Bench(folder, driver, options.probes)
        for name in TITLES:
            programs = {who: where / name for who, where in contenders.items() if where and (where / name).exists()}
            for program in programs.values():
                bench.round(program)  # writes bytecode, and does not count
            for _ in range(options.rounds):
                for who, program in programs.items():
                    runs[name][who].append(bench.round(program))
    finally:
        driver.stop()
    missing = (
        []
        if all("Go" in found for found in runs.values())
        else ["NOT MEASURED: the Go programs, which --peers has to name"]
    )
    return "\n\n".join([heading(VERSIONS), *(table(TITLES[name], found) for name, found in runs.items()), *missing])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="folder with the Go programs of these names")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--probes", type=int, default=500, help="GETs of /healthz in each round")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(measure(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
