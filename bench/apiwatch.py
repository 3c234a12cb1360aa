"""Many watchers in one process: blocking handshakes first, then epoll over raw TLS sockets; events are counted, one
watcher is timed.

Speaks to whoever started it by lines: prints `ready` when all watches stand, reads how many events each is to get,
prints the result.
"""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import sys
import time
from typing import Any

from bench.apiload import PVS, head, tls

_WRITTEN = re.compile(rb'"bench":"(\d+)"')
_PATIENCE_S = 120.0


class Watcher:
    """One watch. events: lines so far. A line ends in } and a line feed, which Go may put into a chunk of HTTP of its
    own.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection
        self.events = 0
        self._last = b""

    def read(self, buffer: bytearray, view: memoryview, waits: list[float] | None) -> int:
        """Takes what is there; gives the number of new events. waits: gets the time since each event was written."""
        found = 0
        while True:
            try:
                count = self.connection.recv_into(buffer)
            except ssl.SSLWantReadError:
                break
            if count == 0:
                raise RuntimeError("a watch has ended")
            found += buffer.count(b"}\n", 0, count) + buffer.count(b"\r\n\n", 0, count)
            seam = self._last + bytes(view[: min(count, 2)])  # what a line's end may have been cut in by the read
            found += (self._last[-1:] + seam[len(self._last) : len(self._last) + 1] == b"}\n") + (b"\r\n\n" in seam)
            self._last = (self._last + bytes(view[max(0, count - 2) : count]))[-2:]
            if waits is not None:
                now = time.monotonic_ns()
                waits += [(now - int(match[1])) / 1e9 for match in _WRITTEN.finditer(buffer, 0, count)]
        self.events += found
        return found


def connect(job: dict[str, Any], context: ssl.SSLContext, version: str) -> Watcher:
    plain = socket.create_connection((job["host"], job["port"]))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = context.wrap_socket(plain, server_hostname=job["host"])
    connection.sendall(head(job, "GET", f"{PVS}?watch=1&resourceVersion={version}&timeoutSeconds=3000"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    connection.setblocking(False)
    return Watcher(connection)


def watch(job: dict[str, Any]) -> None:
    context = tls(job["ca"])
    watchers = [connect(job, context, job["version"]) for _ in range(job["watchers"])]
    print("ready", flush=True)
    wanted = int(sys.stdin.readline())
    poll = select.epoll()
    by_number = {watcher.connection.fileno(): watcher for watcher in watchers}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    buffer = bytearray(1 << 18)
    view = memoryview(buffer)
    waits: list[float] = []
    left = wanted * len(watchers)
    cpu, deadline = time.process_time(), time.monotonic() + _PATIENCE_S
    while left > 0:
        assert time.monotonic() < deadline, f"{left} of {wanted * len(watchers)} events never came"
        for number, _ in poll.poll(1.0):
            watcher = by_number[number]
            left -= watcher.read(buffer, view, waits if watcher is watchers[-1] else None)
    waits.sort()
    result = {
        "ended_at": time.monotonic(),
        "client_cpu_us": (time.process_time() - cpu) / (wanted * len(watchers)) * 1e6,
    }
    result["p50_ms"] = waits[len(waits) // 2] * 1000
    result["p99_ms"] = waits[min(len(waits) - 1, int(len(waits) * 0.99))] * 1000
    print(json.dumps(result), flush=True)
    sys.stdin.readline()  # the watches stand until memory has been read


if __name__ == "__main__":
    watch(json.loads(sys.stdin.readline()))
