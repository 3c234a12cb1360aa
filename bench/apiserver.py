"""The embedded API server beside the real one: `make bench-apiserver`.

Both run on this machine, one after the other: `mooring apiserver --state FOLDER` (every write on disk before its
answer), and kube-apiserver on etcd with fsync. The load comes from processes of their own (bench/apiload.py,
bench/apiwatch.py), the same for both, over TLS with a bearer token. Measured are rates, latencies, processor time of
the server (of kube-apiserver and etcd together), memory, start to ready.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from bench import contender
from bench.tables import heading
from tests.support.control_plane import ADMIN_TOKEN, ControlPlane
from tests.support.programs import Program, free_ports
from tests.support.rest import Rest

_MOORING = Path(sys.executable).parent / "mooring"
ROOT = Path(__file__).resolve().parents[1]


class Server(Protocol):
    """One that runs. start_s: from its start to the first 200 of /readyz."""

    name: str
    url: str
    ca_file: Path
    token: str
    pids: tuple[int, ...]
    start_s: float

    def begin_again(self) -> bool:
        """Ends it, and starts it on what it has stored. False where that is not done."""

    def stop(self) -> None: ...


class Embedded:
    def __init__(self, flags: tuple[str, ...] = ()) -> None:
        self.name = "Mooring"
        self.folder = Path(tempfile.mkdtemp(prefix="mooring-bench-"))
        kubeconfig = self.folder / "kubeconfig"
        command = [
            _MOORING,
            "apiserver",
            "--state",
            self.folder / "state",
            "--kubeconfig",
            kubeconfig,
            "--port",
            str(free_ports(1)[0]),
            *flags,
        ]
        self._command, self._kubeconfig = command, kubeconfig
        self.ca_file = self.folder / "ca.crt"
        self._begin()  # makes the certificates
        self.first_start_s = self.start_s
        self.begin_again()

    def begin_again(self) -> bool:
        self._program.send(15)
        self._program.wait_exit()
        self._begin()
        return True

    def _begin(self) -> None:
        self._kubeconfig.unlink(missing_ok=True)
        begun = time.perf_counter()
        self._program = Program(self._command, self.folder / "log")
        self.pids = (self._program.pid,)
        _until(self._kubeconfig.exists, self._program)
        config = json.loads(self._kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        self.url, self.token = cluster["server"], config["users"][0]["user"]["token"]
        _until(lambda: _is_ready(self), self._program)
        self.start_s = time.perf_counter() - begun

    def stop(self) -> None:
        self._program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Real:
    def __init__(self) -> None:
        self.name = "kube-apiserver + etcd"
        begun = time.perf_counter()
        self._plane = ControlPlane.start(etcd_flags=["--unsafe-no-fsync=false"])
        self.start_s = self.first_start_s = time.perf_counter() - begun
        self.url, self.ca_file, self.token = self._plane.server, self._plane.ca_file, ADMIN_TOKEN
        self.pids = self._plane.pids()

    def begin_again(self) -> bool:
        return False

    def stop(self) -> None:
        self._plane.stop()


def _until(holds: Callable[[], bool], program: Program) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        program.assert_alive()
        assert time.monotonic() < deadline, "the server does not come up"
        time.sleep(0.005)


def _is_ready(server: Server) -> bool:
    rest = Rest(server.url, server.ca_file, server.token)
    try:
        return rest.get("/readyz").status == 200
    except OSError:
        return False
    finally:
        rest.close()


def rss_mib(pids: tuple[int, ...]) -> float:
    return sum(contender.memory_mib(pid, "VmRSS") for pid in pids)


def cpu_s(pids: tuple[int, ...]) -> float:
    return sum(contender.cpu_s(pid) for pid in pids)


@dataclasses.dataclass
class Figures:
    """Rows of the table, in order: title to text."""

    server: Server
    seconds: float
    rows: dict[str, str] = dataclasses.field(default_factory=dict)

    def job(self, **job: Any) -> dict[str, Any]:
        place = urlsplit(self.server.url)
        where = {
            "host": place.hostname,
            "port": place.port,
            "ca": self.server.ca_file.read_text(),
            "token": self.server.token,
        }
        return {**where, **job}

    def load(self, **job: Any) -> dict[str, Any]:
        """One job in a process of its own, and the server's processor time for each of its requests."""
        before = cpu_s(self.server.pids)
        done = subprocess.run(
            [sys.executable, "-m", "bench.apiload"],
            input=json.dumps(self.job(**job)) + "\n",
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        found["cpu_us"] = (cpu_s(self.server.pids) - before) / found["count"] * 1e6
        return found

    def measure(self, title: str, **job: Any) -> None:
        found = self.load(seconds=self.seconds, **job)
        text = "{rate:,.0f}/s; {p50_ms:.2f}, {p99_ms:.2f} ms; {cpu_us:,.0f} µs".format(**found)
        self.rows[title] = text
        print(f"{self.server.name}: {title}: {text} (client {found['client_cpu_us']:.0f} µs)", file=sys.stderr)

    def tell(self, title: str, text: str) -> None:
        self.rows[title] = text
        print(f"{self.server.name}: {title}: {text}", file=sys.stderr)


def requests(figures: Figures) -> None:
    figures.load(what="create", tag="read", clients=8, count=1000)
    for clients in (1, 32):
        figures.measure(f"GET, {_clients(clients)}", what="get", tag="read", names=1000, clients=clients)
    figures.measure("LIST of 1,000, 1 client", what="list", tag="read", clients=1)
    for clients in (1, 32):
        for what in ("create", "update", "patch"):
            tag = f"w{clients}"
            names = 1000 if what == "create" else min(1000, int(figures.rows[f"made-{tag}"]))
            if what == "create":
                figures.measure(f"create, {_clients(clients)}", what=what, tag=tag, clients=clients)
                figures.rows[f"made-{tag}"] = str(_count_of(figures, tag))
            else:
                figures.measure(f"{what}, {_clients(clients)}", what=what, tag=tag, names=names, clients=clients)


def _count_of(figures: Figures, tag: str) -> int:
    rest = Rest(figures.server.url, figures.server.ca_file, figures.server.token)
    names = [item["metadata"]["name"] for item in rest.get("/api/v1/persistentvolumes").ok()["items"]]
    rest.close()
    return sum(name.startswith(f"{tag}-") for name in names)


def _clients(count: int) -> str:
    return "1 client" if count == 1 else f"{count} clients"


@contextlib.contextmanager
def watching(figures: Figures, watchers: int) -> Iterator[subprocess.Popen[str]]:
    rest = Rest(figures.server.url, figures.server.ca_file, figures.server.token)
    version = rest.get("/api/v1/persistentvolumes", limit=1).ok()["metadata"]["resourceVersion"]
    rest.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.apiwatch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        _say(process, json.dumps(figures.job(what="watch", watchers=watchers, version=version)))
        assert _line(process) == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def fan_out(figures: Figures, events: int) -> None:
    """Every watcher gets each patch: one after the other, each sent alone; and as fast as 32 clients patch, so that
    they queue up.
    """
    for watchers in (1, 100, 1000):
        count = max(100, min(3000, events // watchers))
        for clients in (1, 32):
            with watching(figures, watchers) as process:
                _fan_out(figures, process, watchers, clients, count)
        if watchers == 1000:
            figures.tell("memory after 1,000 watches (MiB)", f"{rss_mib(figures.server.pids):.0f}")


def _fan_out(figures: Figures, process: subprocess.Popen[str], watchers: int, clients: int, count: int) -> None:
    spent, begun = cpu_s(figures.server.pids), time.monotonic()
    _say(process, str(count))
    figures.load(what="patch", tag="read", names=1000, clients=clients, count=count)
    result = json.loads(_line(process))
    wall, spent = result["ended_at"] - begun, cpu_s(figures.server.pids) - spent
    total = count * watchers
    title = f"{count} patches by {_clients(clients)} to {watchers:,} watcher{'s' if watchers > 1 else ''}"
    text = (
        f"{total / wall:,.0f} events/s; {result['p50_ms']:.1f}, {result['p99_ms']:.1f} ms; "
        f"{spent / total * 1e6:,.1f} µs"
    )
    figures.tell(title, text)


def measure(server: Server, options: argparse.Namespace) -> dict[str, str]:
    figures = Figures(server, options.seconds)
    first_s: float = getattr(server, "first_start_s", server.start_s)
    figures.tell("start to ready, the first time (s)", f"{first_s:.2f}")
    figures.tell("start to ready (s)", f"{server.start_s:.2f}")
    time.sleep(2)
    figures.tell("memory idle (MiB)", f"{rss_mib(server.pids):.0f}")
    if "watches" in options.parts:  # (first: later there is free memory that the watches could take)
        before = rss_mib(server.pids)
        with watching(figures, 1000):
            figures.tell("memory for 1,000 watches (MiB)", f"{rss_mib(server.pids) - before:.0f}")
    if "requests" in options.parts:
        requests(figures)
    else:
        figures.load(what="create", tag="read", clients=8, count=1000)
    if "watches" in options.parts:
        fan_out(figures, options.events)
    if options.objects:
        figures.load(what="create", tag="many", clients=32, count=options.objects)
        time.sleep(2)
        figures.tell(f"memory with {options.objects:,} more objects (MiB)", f"{rss_mib(server.pids):.0f}")
        if server.begin_again():
            figures.tell("start to ready with all of them (s)", f"{server.start_s:.2f}")
            figures.tell("memory after that start (MiB)", f"{rss_mib(server.pids):.0f}")
    return {title: text for title, text in figures.rows.items() if not title.startswith("made-")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each kind of request is made")
    parser.add_argument(
        "--events", type=int, default=60_000, help="watch events for each number of watchers, at least 60 a watcher"
    )
    parser.add_argument("--objects", type=int, default=20_000, help="objects for the memory figure, 0 leaves it out")
    parser.add_argument("--only", choices=["embedded", "real"], help="one server alone")
    parser.add_argument("--parts", nargs="*", default=["requests", "watches"], choices=["requests", "watches"])
    parser.add_argument(
        "--flag", action="append", default=[], help="a further flag for mooring apiserver, such as --flag=--memory"
    )
    options = parser.parse_args()
    found: dict[str, dict[str, str]] = {}
    makers: list[Callable[[], Server]] = [Real, lambda: Embedded(tuple(options.flag))]
    for make in makers[:1] if options.only == "real" else makers[1:] if options.only == "embedded" else makers:
        server = make()
        try:
            found[server.name] = measure(server, options)
        finally:
            server.stop()
    print(f"{heading('kube-apiserver 1.36 on etcd 3 with fsync')}\n")
    print(_table(found))


def _table(found: dict[str, dict[str, str]]) -> str:
    titles = dict.fromkeys(title for rows in found.values() for title in rows)
    lines = [f"| | {' | '.join(found)} |", f"|{'---|' * (len(found) + 1)}"]
    return "\n".join(
        [*lines, *(f"| {title} | {' | '.join(rows.get(title, '-') for rows in found.values())} |" for title in titles)]
    )


if __name__ == "__main__":
    main()
