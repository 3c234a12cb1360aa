"""Load on an API server, in a process of its own: `python -m bench.apiload` reads one job (JSON) from stdin and prints
what it measured.

No client library stands between: requests are bytes made before the clock starts, answers are read as far as their end
and their status. TLS 1.3, HTTP/1.1, a connection per client, on uvloop where it is installed. One such process makes
more requests a second on one core than the servers under measurement answer; `cpu_us` in the result says how much of
its core it took.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

try:
    import uvloop
except ImportError:
    uvloop = None

RequestMaker = Callable[[int], bytes]


class Client(asyncio.Protocol):
    """One connection: one request at a time. Answers are counted, timed, and checked by their status."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._data = bytearray()
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # (uvloop's is none of asyncio's)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.lost(exc)

    def ask(self) -> None:
        request = self._run.next_request()
        if request is None or self._transport is None:
            self._run.finished()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = answer_end(self._data)
        if end < 0:
            return
        self._run.answered(
            int(self._data[9:12]), time.perf_counter() - self._sent_at, bytes(self._data) if self._run.keep else b""
        )
        del self._data[:end]
        self.ask()


def answer_end(data: bytearray) -> int:
    """Where the first answer ends; -1 while it is not all there."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return -1
    place = data.lower().find(b"\r\ncontent-length:", 0, head + 2) if head < 4096 else -1
    if place >= 0:
        stop = data.index(b"\r\n", place + 2)
        end = head + 4 + int(data[place + 17 : stop])
        return end if len(data) >= end else -1
    return head + 4 if data[9:12] == b"204" else _chunked_end(data, head)


def _chunked_end(data: bytearray, head: int) -> int:
    if not data.endswith(b"0\r\n\r\n"):  # one request at a time: the last chunk ends what is there
        return -1
    return len(data) if len(data) > head + 4 else -1


class Run:
    """One job: so many clients, requests from `maker`, until the count or the time is over."""

    def __init__(
        self, maker: RequestMaker, count: int, seconds: float, clients: int, good: tuple[int, ...], keep: bool = False
    ) -> None:
        self._maker, self._count, self._until = maker, count, time.perf_counter() + seconds
        self._good, self._left, self.keep = good, clients, keep
        self._number = 0
        self.times: list[float] = []
        self.bodies: list[bytes] = []
        self.done = asyncio.get_running_loop().create_future()

    def next_request(self) -> bytes | None:
        if self._number >= self._count or time.perf_counter() > self._until:
            return None
        self._number += 1
        return self._maker(self._number - 1)

    def answered(self, status: int, seconds: float, body: bytes) -> None:
        if status not in self._good and not self.done.done():
            self.done.set_exception(RuntimeError(f"an answer {status}, wanted {self._good}"))
        self.times.append(seconds)
        if body:
            self.bodies.append(body)

    def finished(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.done.done():
            self.done.set_result(None)

    def lost(self, error: Exception | None) -> None:
        if self._left and not self.done.done():
            self.done.set_exception(RuntimeError(f"a connection was lost: {error}"))


def tls(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca)
    context.check_hostname = False
    context.set_alpn_protocols(["http/1.1"])
    return context


def head(
    job: dict[str, Any],
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "application/json",
    accept: str = "application/json",
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {job['host']}:{job['port']}",
        f"Accept: {accept}",
        "User-Agent: mooring-bench",
    ]
    if "token" in job:
        lines += [f"Authorization: Bearer {job['token']}"]
    if body:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def a_volume(name: str, extra: str = "") -> dict[str, Any]:
    """A PersistentVolume as a CSI provisioner makes it, about 1 KB as stored."""
    attributes = {
        "pool": "gold",
        "backend": f"array-{name}",
        "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-bench",
    }
    source = {"driver": "bench.mooring.dev", "volumeHandle": name, "fsType": "ext4", "volumeAttributes": attributes}
    annotations = {"pv.kubernetes.io/provisioned-by": "bench.mooring.dev", "bench": extra}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {"app": "bench"}, "annotations": annotations},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "bench",
            "csi": source,
        },
    }


def _compact(value: Any) -> bytes:
    """JSON without blanks, as client-go and our programs write it."""
    return json.dumps(value, separators=(",", ":")).encode()


PVS = "/api/v1/persistentvolumes"


def maker_of(job: dict[str, Any]) -> RequestMaker:
    """The n-th request of a job. names: the objects that are there already."""
    tag, names, what = job["tag"], job.get("names", 1), job["what"]

    def made(number: int) -> bytes:
        name = f"{tag}-{number % names}"
        if what == "get":
            return head(job, "GET", f"{PVS}/{name}")
        if what == "list":
            return head(job, "GET", f"{PVS}?labelSelector=app%3Dbench&limit=1000")
        if what == "create":
            return head(job, "POST", PVS, _compact(a_volume(f"{tag}-{number}")))
        if what == "update":
            return head(job, "PUT", f"{PVS}/{name}", _compact(a_volume(name, str(number))))
        if what == "patch":
            change = _compact({"metadata": {"annotations": {"bench": str(time.monotonic_ns())}}})
            return head(job, "PATCH", f"{PVS}/{name}", change, "application/merge-patch+json")
        assert what == "delete"
        return head(job, "DELETE", f"{PVS}/{name}")

    return made


async def load(job: dict[str, Any]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    context = tls(job["ca"])
    run = Run(lambda _: b"", 0, 0, job["clients"], (200, 201))
    clients = []
    for _ in range(job["clients"]):
        _, client = await loop.create_connection(lambda: Client(run), job["host"], job["port"], ssl=context)
        clients.append(client)
    run._maker, run._count = maker_of(job), job.get("count", 10**9)
    cpu, begun = time.process_time(), time.perf_counter()
    run._until = begun + job.get("seconds", 600)
    for client in clients:
        client.ask()
    await run.done
    wall = time.perf_counter() - begun
    times = sorted(run.times)
    count = len(times)
    return {
        "count": count,
        "wall_s": wall,
        "rate": count / wall,
        "p50_ms": times[count // 2] * 1000,
        "p99_ms": times[min(count - 1, int(count * 0.99))] * 1000,
        "client_cpu_us": (time.process_time() - cpu) / count * 1e6,
    }


def main() -> None:
    job = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        print(json.dumps(runner.run(load(job))), flush=True)


if __name__ == "__main__":
    main()
