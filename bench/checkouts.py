"""What a request costs the embedded API server in two checkouts: `python -m bench.checkouts BEFORE NOW`, on a machine
that others use, too.

Processor time: both servers run, and have small blocks of requests by turns, so that what slows the machine slows both;
the ratio of each pair of blocks counts. Instructions: valgrind's callgrind counts them, whatever else the machine does;
the system's own work, such as sending, is not counted. Each of its jobs runs twice, with few requests and with many:
the difference leaves out connections and handshakes. Both trees run on this interpreter and with its libraries.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.apiload import maker_of
from tests.support.programs import Program, free_ports

_ROOT = Path(__file__).resolve().parents[1]
_BLOCKS = (("get", 1, 960), ("get", 32, 960), ("patch", 1, 256), ("patch", 32, 256))
"""What, over how many connections, and the requests of a block."""
_COUNTED = (
    ("get", 1, 300, 2300),
    ("get", 32, 300, 2300),
    ("list", 1, 20, 120),
    ("create", 1, 100, 600),
    ("create", 32, 100, 600),
    ("update", 1, 100, 600),
    ("patch", 1, 100, 600),
    ("patch", 32, 100, 600),
    ("delete", 1, 100, 600),
)
"""What, over how many connections, the few requests, and the many."""
_OBJECTS = 200
_START_S = 120.0
_COUNTING = ("valgrind", "--tool=callgrind", "--instr-atstart=no")


class _Server:
    """A checkout's. prefix: runs its interpreter."""

    def __init__(self, checkout: Path, prefix: Sequence[str] = ()) -> None:
        self.folder, self._port = Path(tempfile.mkdtemp(prefix="mooring-bench-")), free_ports(1)[0]
        kubeconfig = self.folder / "kubeconfig"
        command = [
            *prefix,
            *([f"--callgrind-out-file={self.folder}/counts"] if prefix else []),
            sys.executable,
            "-m",
            "mooring.cli.mooring",
        ]
        command += ["apiserver", f"--state={self.folder}/state", f"--kubeconfig={kubeconfig}", f"--port={self._port}"]
        env = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "PYTHONHASHSEED": "0"}
        self._program = Program(command, self.folder / "log", env)
        deadline = time.monotonic() + _START_S
        while not kubeconfig.exists() or not kubeconfig.stat().st_size:
            self._program.assert_alive()
            assert time.monotonic() < deadline, "the server does not come up"
            time.sleep(0.1)
        config = json.loads(kubeconfig.read_text())
        self._ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self._place = {
            "host": "127.0.0.1",
            "port": self._port,
            "ca": self._ca,
            "token": config["users"][0]["user"]["token"],
        }
        self._links: list[ssl.SSLSocket] = []
        self.load(what="create", tag="read", clients=4, count=_OBJECTS)

    def stop(self) -> None:
        for link in self._links:
            link.close()
        self._program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, **job: Any) -> None:
        """Has a process of its own send the requests."""
        command = [sys.executable, "-m", "bench.apiload"]
        done = subprocess.run(
            command, cwd=_ROOT, input=json.dumps(job | self._place) + "\n", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-200:]

    def connect(self, count: int) -> None:
        """Anew, instead of those that were there."""
        context = ssl.create_default_context(cadata=self._ca)
        for link in self._links:
            link.close()
        plain = [socket.create_connection(("127.0.0.1", self._port)) for _ in range(count)]
        self._links = [context.wrap_socket(one, server_hostname="127.0.0.1") for one in plain]

    def block(self, what: str, requests: int) -> float:
        """Microseconds of the server's processor time for each request; one is under way on each connection."""
        made, number, before_s = (
            maker_of({**self._place, "what": what, "tag": "read", "names": _OBJECTS}),
            0,
            _processor_us(self._program.pid),
        )
        while number < requests:
            for link in self._links:
                link.sendall(made(number))
                number += 1
            for link in self._links:
                _read(link)
        return (_processor_us(self._program.pid) - before_s) / number

    def begin_counting(self) -> None:
        """What the first request of a kind makes for all is there before."""
        for what in ("get", "list", "update", "patch"):
            self.load(what=what, tag="read", names=_OBJECTS, clients=4, count=_OBJECTS)
        for what in ("create", "delete"):
            self.load(what=what, tag="gone", names=_OBJECTS, clients=4, count=_OBJECTS)
        self._control("-i", "on")

    def instructions(self, **job: Any) -> int:
        """Those of the server from the job's begin to its end."""
        self._control("-z")
        self.load(**job)
        before = set(self.folder.glob("counts*"))
        self._control("-d")
        (dump,) = set(self.folder.glob("counts*")) - before
        (total,) = [int(line.split()[1]) for line in dump.read_text().splitlines() if line.startswith("totals:")]
        return total

    def _control(self, *flags: str) -> None:
        subprocess.run(["callgrind_control", *flags, str(self._program.pid)], capture_output=True, check=True)


def _processor_us(pid: int) -> float:
    """Of all threads that there are, as the scheduler counts it: in nanoseconds, not in ticks."""
    counts = (
        Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split() for thread in os.listdir(f"/proc/{pid}/task")
    )
    return sum(int(count[0]) for count in counts) / 1000


def _read(link: ssl.SSLSocket) -> None:
    """One answer, whose length is said."""
    data = b""
    while b"\r\n\r\n" not in data:
        came = link.recv(65536)
        assert came, "the server has closed the connection"
        data += came
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    (length,) = [
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    ]
    left = length - len(body)
    while left:
        left -= len(link.recv(left))


@contextlib.contextmanager
def _running(checkouts: Sequence[Path], prefix: Sequence[str] = ()) -> Iterator[list[_Server]]:
    servers: list[_Server] = []
    try:
        servers.extend(
            _Server(checkout, prefix) for checkout in checkouts
        )  # (with an error, those before it are stopped)
        yield servers
    finally:
        for server in servers:
            server.stop()


def processor_time(checkouts: Sequence[Path], pairs: int) -> None:
    print(
        f"Processor time of a request, {pairs} pairs of blocks: medians in µs, and of the ratios the quartiles",
        flush=True,
    )
    with _running(checkouts) as servers:
        for what, clients, requests in _BLOCKS:
            found: list[list[float]] = [[], []]
            for server in servers:
                server.connect(clients)
                server.block(what, requests)
            for number in range(pairs):
                for place in (0, 1) if number % 2 else (1, 0):
                    found[place].append(servers[place].block(what, requests))
            quartiles = statistics.quantiles([now / before for before, now in zip(*found, strict=True)])
            medians = " ".join(f"{statistics.median(times):7.1f}" for times in found)
            print(
                f"{what + ',':8} {clients:2}: {medians}   {' '.join(f'{ratio:.3f}' for ratio in quartiles)}", flush=True
            )


def instructions(checkouts: Sequence[Path]) -> None:
    print("Instructions of a request, and their ratio", flush=True)
    with _running(checkouts, _COUNTING) as servers:
        for server in servers:
            server.begin_counting()
        for what, clients, few, many in _COUNTED:
            costs = [_cost(server, what, clients, few, many) for server in servers]
            print(
                f"{what + ',':8} {clients:2}: {' '.join(f'{cost:>10,}' for cost in costs)}   {costs[1] / costs[0]:.3f}",
                flush=True,
            )


def _cost(server: _Server, what: str, clients: int, few: int, many: int) -> int:
    counts = []
    for requests in (few, many):
        tag, names = (
            ("read", _OBJECTS) if what not in ("create", "delete") else (f"{what}-{clients}-{requests}", requests)
        )
        if what == "delete":
            server.load(what="create", tag=tag, clients=4, count=requests)
        counts.append(server.instructions(what=what, tag=tag, clients=clients, names=names, count=requests))
    return round((counts[1] - counts[0]) / (many - few))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.checkouts", description=__doc__, allow_abbrev=False)
    parser.add_argument("before", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument(
        "--without-instructions", action="store_true", help="measure processor time alone: there is no valgrind"
    )
    options = parser.parse_args()
    checkouts = (options.before, options.now)
    processor_time(checkouts, options.pairs)
    if not options.without_instructions:
        instructions(checkouts)


if __name__ == "__main__":
    main()
