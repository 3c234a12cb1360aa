"""What a request costs the API client: `make bench-apiclient`, on its own HTTP and on aiohttp in turns.

The server is a process of its own that answers each request with the same bytes over TLS 1.3, as soon as its end has
come; only the client's processor time is counted. One line for each transport and load: µs of processor time for a
request, µs until its answer (median and 99 of 100), requests a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trustme

from bench.interpreter import interpreter
from mooring.base.clock import LoopClock
from mooring.base.loops import loop_factory
from mooring.kube.client.config import ClusterConfig, Pem, Tls
from mooring.kube.client.retrying import Transport
from mooring.kube.client.tls import TlsContexts
from mooring.kube.client.transport import HttpTransport
from mooring.wire.http1.tls_transport import READ_BYTES, TlsTransport
from tests.support.aiohttp_transport import AiohttpTransport

_OBJECT = {
    "kind": "VolumeAttachment",
    "apiVersion": "storage.k8s.io/v1",
    "metadata": {
        "name": f"csi-{'0123456789abcdef' * 4}",
        "uid": "11111111-2222-3333-4444-555555555555",
        "resourceVersion": "123456",
    },
    "spec": {"attacher": "csi.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "pvc-1"}},
    "status": {"attached": True, "attachmentMetadata": {f"key-{n}": "x" * 60 for n in range(10)}},
}
_BODY = json.dumps(_OBJECT).encode()
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nAudit-Id: 3c5ed7cd-9f6c-4f6a-a1c0-0f5a0f1a2b3c\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 11111111-2222-3333-4444-555555555555\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 11111111-2222-3333-4444-555555555555\r\nDate: Fri, 20 Nov 2026 "
    b"10:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_PATCH = json.dumps(
    [{"op": "replace", "path": "/metadata/finalizers", "value": ["external-attacher/csi-example-com"] * 5}]
).encode()
_PATH = f"/apis/storage.k8s.io/v1/volumeattachments/csi-{'0123456789abcdef' * 4}"
_HEADERS = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),
    ("User-Agent", "bench/1"),
    ("Authorization", f"Bearer {'x' * 900}"),
)
_TYPED = (*_HEADERS, ("Content-Type", "application/json-patch+json"))
TRANSPORTS: dict[str, Any] = {"own": HttpTransport, "aiohttp": AiohttpTransport}


class _Answering:
    """A connection of the server: the same answer to each request, told by its empty line and its length."""

    def __init__(self) -> None:
        self._data = b""
        self._link: Any = None

    def connected(self, link: TlsTransport) -> None:
        self._link = link

    def secured(self) -> None: ...

    def received(self, data: bytes) -> None:
        data = self._data + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            at = data.find(b"Content-Length: ", 0, end)
            length = int(data[at + 16 : data.find(b"\r", at)]) if at >= 0 else 0
            if len(data) < end + 4 + length:
                break
            data = data[end + 4 + length :]
            self._link.write(_ANSWER)
        self._data = data

    def writable(self, yes: bool) -> None: ...

    def lost(self) -> None: ...


async def _serve(folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    buffer = memoryview(bytearray(READ_BYTES))
    server = await asyncio.get_running_loop().create_server(
        lambda: TlsTransport(context, _Answering(), buffer), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _measure(transport: Transport, method: str, clients: int, count: int) -> tuple[float, float, float, float]:
    latencies: list[float] = []
    left = [count]

    async def ask() -> None:
        while left[0] > 0:
            left[0] -= 1
            begun = time.perf_counter()
            if method == "GET":
                response = await transport.request("GET", _PATH, _HEADERS, None, 30.0)
            else:
                response = await transport.request("PATCH", _PATH, _TYPED, _PATCH, 30.0)
            assert len(response.body) == len(_BODY)
            latencies.append(time.perf_counter() - begun)

    begun, used = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(ask(), name=f"client/{number}")
    used, taken = time.process_time() - used, time.perf_counter() - begun
    latencies.sort()
    n = len(latencies)
    return used / n * 1e6, latencies[n // 2] * 1e6, latencies[n * 99 // 100] * 1e6, n / taken


async def _client(port: int, authority: bytes, options: argparse.Namespace) -> None:
    config = ClusterConfig(f"https://127.0.0.1:{port}", tls=Tls(Pem("authority", data=authority)))
    for number in range(options.rounds):
        for name in options.transports if number % 2 == 0 else reversed(options.transports):
            transport: Transport = TRANSPORTS[name](config, TlsContexts(config.tls, LoopClock()))
            for method in ("GET", "PATCH"):
                for clients in (1, 16):
                    await _measure(transport, method, clients, options.requests // 10)
                    found = await _measure(transport, method, clients, options.requests)
                    told = "{:7.1f} us cpu {:8.1f} us median {:9.1f} us p99 {:7.0f} /s".format(*found)
                    print(f"{name:8} {method:6}{clients:3} at a time {told}", flush=True)
            await transport.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transports", nargs="+", choices=TRANSPORTS, default=list(TRANSPORTS))
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="uvloop")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve(options.serve))
        return
    print(interpreter())
    authority = trustme.CA()
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(f"{folder}/server.pem")
        with subprocess.Popen(
            [sys.executable, "-m", "bench.apiclient", "--serve", folder], stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            try:
                port = int(server.stdout.readline())
                with asyncio.Runner(loop_factory=loop_factory() if options.loop == "uvloop" else None) as runner:
                    runner.run(_client(port, authority.cert_pem.bytes(), options))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
