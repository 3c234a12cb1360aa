"""The requests of a flow without a controller: `python -m bench.bounds.load` reads one job (JSON) from stdin and prints
what it measured.

A chain is the requests for one object, in their order (bench/bounds/requests.py). A connection makes one request at a
time. There are four ways to run the chains:

  steps   the first request of all chains, then the second of all, and so on: the server's processor time for each
  flow    the loader makes objects on connections of its own, workers do what is awaited, and at the very
          end what nobody waits for
  backlog the same, but all objects are there when the clock starts
  alone   one chain after the other, nothing else: how long each request takes, and until a watch shows it
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from bench.apiload import answer_end, head, tls
from bench.contender import cpu_s, quantile
from mooring.base.loops import loop_factory

Json = dict[str, Any]

LOADERS = 32
PAUSE_S = 0.02
STAGES = ("prepare", "load", "wait", "later")
_UID = re.compile(rb'"uid":"([^"]+)"')
_VERSION = re.compile(rb'"resourceVersion":"([^"]+)"')


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RuntimeError(f"a connection was lost: {exc}"))

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._answer is not None and not self._answer.done() and answer_end(self._data) >= 0:
            self._answer.set_result(bytes(self._data))
            self._data.clear()


class Watch(asyncio.Protocol):
    """Reads a watch, and tells when it shows a name."""

    def __init__(self, shown: Callable[[bytes], None], request: bytes) -> None:
        self._shown, self._request = shown, request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._request)  # type: ignore[attr-defined]  # (uvloop's is none of asyncio's)

    def data_received(self, data: bytes) -> None:
        self._shown(data)


class Chain:
    """The requests of one object, and what its answers have said. common: what all chains keep together."""

    def __init__(self, requests: Sequence[Json], common: dict[bytes, bytes]) -> None:
        self.by_stage = {stage: [one for one in requests if one["stage"] == stage] for stage in STAGES}
        self.kept: dict[bytes, bytes] = {}
        self.common = common
        self.made_at = self.done_at = 0.0

    def filled(self, text: bytes) -> bytes:
        if b"@" in text:
            for key, value in (*self.kept.items(), *self.common.items()):
                text = text.replace(key, value)
        return text

    def keep(self, request: Json, answer: bytes) -> None:
        name, kept = request["keeps"], self.common if request["serial"] else self.kept
        found = answer[answer.index(b"\r\n\r\n") :]
        uid, version = (
            _UID.search(found, found.index(b'"metadata":')),
            _VERSION.search(found, found.index(b'"metadata":')),
        )
        assert uid is not None, found[:500]
        assert version is not None, found[:500]
        kept[f"@{name}.uid@".encode()], kept[f"@{name}.rv@".encode()] = uid[1], version[1]


class Load:
    """The chains of one job, and the connections that make their requests. times: of each kind of request, in
    seconds.
    """

    def __init__(self, job: Json) -> None:
        self._job, self._context = job, tls(job["ca"])
        self._context.load_cert_chain(
            job["certificate"]
        )  # the server checks it with every request, as it does for the programs
        common: dict[bytes, bytes] = {}
        self.chains = [Chain(requests, common) for requests in job["chains"]]
        self.times: dict[str, list[float]] = {}
        self.shown: dict[str, list[float]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._awaited: tuple[bytes, asyncio.Future[float]] | None = None

    async def connections(self, count: int) -> list[Connection]:
        return [await self._connect(Connection) for _ in range(count)]

    async def watch(self) -> None:
        """What is there already is not shown."""
        asking = (await self.connections(1))[0]
        for path, accept in self._job["watches"]:
            found = _VERSION.search(await asking.ask(head(self._job, "GET", f"{path}?limit=1")))
            assert found is not None, path
            request = head(self._job, "GET", f"{path}?watch=true&resourceVersion={found[1].decode()}", accept=accept)
            await self._connect(lambda request=request: Watch(self._note, request))  # type: ignore[misc]

    async def _connect(self, made: Callable[[], Any]) -> Any:
        job = self._job
        return (await asyncio.get_running_loop().create_connection(made, job["host"], job["port"], ssl=self._context))[
            1
        ]

    def _note(self, data: bytes) -> None:
        if self._awaited is not None and self._awaited[0] in data and not self._awaited[1].done():
            self._awaited[1].set_result(time.perf_counter())

    async def run(self, connection: Connection, chain: Chain, request: Json, *, looks: bool = False) -> None:
        """Makes the request. looks: waits for the watch, too."""
        async with self._locks[request["serial"]] if request["serial"] else contextlib.nullcontext():
            if not (looks and request["shows"]):
                await self._ask(connection, chain, request)
                return
            name = chain.filled(request["shows"].encode())
            self._awaited = name, asyncio.get_running_loop().create_future()
            began = await self._ask(connection, chain, request)
            self.shown.setdefault(request["name"], []).append(await asyncio.wait_for(self._awaited[1], 10) - began)

    async def _ask(self, connection: Connection, chain: Chain, request: Json) -> float:
        path, body = chain.filled(request["path"].encode()).decode(), chain.filled(request["body"].encode("latin-1"))
        data = head(self._job, request["method"], path, body, request["content_type"], request["accept"])
        began = time.perf_counter()
        answer = await connection.ask(data)
        self.times.setdefault(request["name"], []).append(time.perf_counter() - began)
        if answer[9:12] not in (b"200", b"201"):
            raise RuntimeError(f"{request['name']} {path}: {answer[:1500].decode(errors='replace')}")
        if request["keeps"]:
            chain.keep(request, answer)
        return began


async def each(
    connections: Sequence[Connection], chains: Iterable[Chain], work: Callable[[Connection, Chain], Awaitable[None]]
) -> None:
    """The work for each chain, on as many connections at once as there are."""
    left = iter(chains)

    async def worker(connection: Connection) -> None:
        for chain in left:
            await work(connection, chain)

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(worker(connection))


class Server:
    """Processor time of the server since this was made, and our own. In seconds."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids, self._client = pids, time.process_time()
        self._server = self._now()

    def spent_s(self) -> float:
        return self._now() - self._server

    def own_s(self) -> float:
        return time.process_time() - self._client

    def _now(self) -> float:
        return sum(cpu_s(pid) for pid in self._pids)


def at_stage(load: Load, stage: str, *, looks: bool = False) -> Callable[[Connection, Chain], Awaitable[None]]:
    async def work(connection: Connection, chain: Chain) -> None:
        for request in chain.by_stage[stage]:
            await load.run(connection, chain, request, looks=looks)
            if request["ends"]:
                chain.done_at = time.perf_counter()
        if stage == "load":
            chain.made_at = time.perf_counter()

    return work


async def steps(load: Load, workers: list[Connection], pids: Sequence[int]) -> Json:
    """cpu_ms: of the server, for each kind of request. counts: how many there were for one object."""
    cpu_ms: dict[str, float] = {}
    counts: dict[str, float] = {}
    stages = [[request for stage in STAGES[1:] for request in chain.by_stage[stage]] for chain in load.chains]
    names = dict.fromkeys(request["name"] for requests in sorted(stages, key=len, reverse=True) for request in requests)
    at = dict.fromkeys(map(id, load.chains), 0)
    left = {id(chain): requests for chain, requests in zip(load.chains, stages, strict=True)}
    while any(at[key] < len(requests) for key, requests in left.items()):
        # Chains differ only in requests that some of them lack, so all that are at this one are done before any of them
        # goes on.
        name = next(
            name
            for name in names
            if any(at[key] < len(many) and many[at[key]]["name"] == name for key, many in left.items())
        )
        due = [
            chain
            for chain in load.chains
            if at[id(chain)] < len(left[id(chain)]) and left[id(chain)][at[id(chain)]]["name"] == name
        ]

        async def one(connection: Connection, chain: Chain) -> None:
            await load.run(connection, chain, left[id(chain)][at[id(chain)]])
            at[id(chain)] += 1

        server = Server(pids)
        await each(workers, due, one)
        cpu_ms[name] = cpu_ms.get(name, 0.0) + server.spent_s() * 1000
        counts[name] = counts.get(name, 0.0) + len(due)
    objects = len(load.chains)
    return {
        "cpu_ms": {name: cpu_ms[name] / counts[name] for name in names},
        "counts": {name: counts[name] / objects for name in names},
        "p50_ms": {name: quantile(load.times[name], 0.5) * 1000 for name in names},
    }


async def flow(load: Load, workers: list[Connection], pids: Sequence[int], *, waiting: bool) -> Json:
    """waiting: all objects are there when the clock starts. cpu_ms: of the server for one object, until the last was
    done, and in all.
    """
    loaders = await load.connections(LOADERS)
    made: asyncio.Queue[Chain] = asyncio.Queue()

    async def make(connection: Connection, chain: Chain) -> None:
        await at_stage(load, "load")(connection, chain)
        made.put_nowait(chain)

    if waiting:
        await each(loaders, load.chains, make)
    server, began = Server(pids), time.perf_counter()

    async def in_order(connection: Connection, _: Chain) -> None:
        await at_stage(load, "wait")(connection, await made.get())

    async with asyncio.TaskGroup() as group:
        if not waiting:
            group.create_task(each(loaders, load.chains, make))
        group.create_task(each(workers, load.chains, in_order))
    done_s, cpu_done, own = time.perf_counter() - began, server.spent_s(), server.own_s()
    await each(workers, load.chains, at_stage(load, "later"))
    count = len(load.chains)
    waits = [chain.done_at - (began if waiting else chain.made_at) for chain in load.chains]
    return {
        "rate": count / done_s,
        "p50_ms": quantile(waits, 0.5) * 1000,
        "cpu_ms": cpu_done / count * 1000,
        "cpu_all_ms": server.spent_s() / count * 1000,
        "own_ms": own / count * 1000,
    }


async def alone(load: Load, workers: list[Connection], pids: Sequence[int]) -> Json:
    """p50_ms: of each kind of request until its answer; shown_ms: until a watch shows what it wrote."""
    server = Server(pids)
    for chain in load.chains:
        for stage in STAGES[1:]:
            await at_stage(load, stage, looks=True)(workers[0], chain)
        await asyncio.sleep(PAUSE_S)
    return {
        "p50_ms": {name: quantile(times, 0.5) * 1000 for name, times in load.times.items()},
        "shown_ms": {name: quantile(times, 0.5) * 1000 for name, times in load.shown.items()},
        "cpu_ms": server.spent_s() / len(load.chains) * 1000,
    }


async def measure(job: Json) -> Json:
    load = Load(job)
    workers = await load.connections(job["workers"])
    await each(workers, load.chains, at_stage(load, "prepare"))
    await load.watch()
    await asyncio.sleep(0.5)
    load.times.clear()
    match job["way"]:
        case "steps":
            return await steps(load, workers, job["pids"])
        case "alone":
            return await alone(load, workers, job["pids"])
    return await flow(load, workers, job["pids"], waiting=job["way"] == "backlog")


def main() -> None:
    job = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(measure(job))), flush=True)
    sys.stdin.read()  # who asked may look at this process until then


if __name__ == "__main__":
    main()
