"""Answers that no server should give, as two clients take them: ours and Go's.

    python -m bench.interop.strange [GO_CLIENT]

GO_CLIENT: what `go build ./strange` makes in bench/interop/go. Each answer is sent as the same bytes to each client, on
a connection of its own. Ours has to come to the code of Go's, but for what `OTHERWISE` names. Exit code 1 for any other
difference.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from tests.unit.csi import raw_server
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc import test_answers as answers
from tests.unit.wire.grpc import test_malformed as malformed

NEVER_BEGUN: Final = (
    "a frame of a stream that nobody began: HTTP/2 says that the connection is broken; Go's client ignores it"
)
SETTING: Final = "a setting that none may have: Go's client takes it"
ONCE: Final = "Go's client sends the call once more, on another connection; ours never does"

OTHERWISE: Final = {
    "status '-1'": "Go's client makes 4294967295 of it",
    "an error behind half a message": "Go's client says Internal; the driver's own code says more",
    "reset, REFUSED_STREAM": ONCE,
    "GOAWAY that leaves the call out": ONCE,
    "DATA for an idle stream": NEVER_BEGUN,
    "DATA for a stream of the server's": NEVER_BEGUN,
    "HEADERS for an idle stream": NEVER_BEGUN,
    "HEADERS for a stream of the server's": NEVER_BEGUN,
    "RST_STREAM for an idle stream": NEVER_BEGUN,
    "WINDOW_UPDATE for an idle stream": NEVER_BEGUN,
    "PUSH_PROMISE": "Go's client ignores it, and what it says about the table of headers with it",
    "HEADERS with more padding than payload": "Go's client ends the call alone; the table of headers is unknown then",
    "ENABLE_PUSH by a server": SETTING,
    "MAX_FRAME_SIZE below the least": SETTING,
    "MAX_FRAME_SIZE beyond 24 bits": SETTING,
    "a window beyond 31 bits": "Go's client lets it overflow",
    "a window beyond 31 bits, of a call": "Go's client lets it overflow",
    "another size of the table after a field": (
        "HPACK allows it at the beginning of a block alone; Go's decoder reads it"
    ),
    "DATA before HEADERS": "Go's client waits for the headers until the call's deadline",
    "a header of connections": "HTTP/2 forbids it; Go's client ignores it, and waits for the rest",
    "too many empty frames": "Go's client has no bound for them",
    "too many answers of HTTP status 100": "Go's client has no bound for them",
}
"""Where ours differs from Go's client, and why."""


def cases() -> dict[str, bytes]:
    """What a server answers to the first call of a connection, by a name."""
    ok, empty = answers.BEGUN, talk.data(1, talk.message(b""))
    found = {
        "all well": talk.answer(1),
        "HTTP status 103 first": talk.headers(1, [(":status", "103")]) + talk.answer(1),
    }
    for status in answers.STATUS:
        fields = [("grpc-status", status), ("grpc-message", "why")]
        found[f"status {status!r}"] = ok + empty + talk.headers(1, fields, end=True)
    for raw in answers.TEXTS:
        fields_2 = talk.block([*talk.OK_HEADERS, ("grpc-status", "2")]) + talk.literal(b"grpc-message", raw)
        found[f"text {raw!r}"] = talk.frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM, 1, fields_2)
    found |= {what: b"".join(frames) for what, (frames, _) in answers.UNREADABLE.items()}
    found |= {what: b"".join(frames) for what, (frames, _, _) in answers.CUT_SHORT.items()}
    found["no status"] = ok + empty + talk.headers(1, [("date", "today")], end=True)
    half = talk.data(1, talk.message(b"hello")[:7])
    found["an error behind half a message"] = (
        ok + half + talk.headers(1, [("grpc-status", "8"), ("grpc-message", "full")], end=True)
    )
    found["a message beyond 64 MiB"] = ok + talk.data(1, b"\0" + (2**26 + 1).to_bytes(4))
    for status in answers.HTTP:
        fields = [(":status", status), ("content-type", "text/html")]
        found[f"HTTP status {status}"] = talk.headers(1, fields) + talk.data(1, b"hello", end=True)
        found[f"HTTP status {status}, headers alone"] = talk.headers(1, fields, end=True)
    for kind in ("application/grpcx", "application/json", ""):
        found[f"content-type {kind!r}"] = talk.headers(
            1, [(":status", "200"), ("content-type", kind), ("grpc-status", "0")], end=True
        )
    found["no content-type, with a status"] = talk.headers(1, [(":status", "200"), ("grpc-status", "5")], end=True)
    found["HTTP status 503 with gRPC's status"] = talk.headers(
        1, [(":status", "503"), talk.OK_HEADERS[1], ("grpc-status", "5")], end=True
    )
    for error, (name, _) in answers.RESETS.items():
        found[f"reset, {name}"] = talk.reset(1, error)
        found[f"reset behind headers, {name}"] = ok + talk.reset(1, error)
    found["reset, REFUSED_STREAM"] = talk.reset(1, talk.REFUSED_STREAM)
    found["reset behind the answer"] = talk.answer(1) + talk.reset(1, talk.NO_ERROR)
    found["GOAWAY that leaves the call out"] = talk.goaway(0)
    found["GOAWAY before the answer"] = talk.goaway(1) + talk.answer(1)
    found |= {what: frames for what, (frames, _) in malformed.CONNECTION_ERRORS.items()}
    found |= {
        f"{what}, of a call" if what in found else what: frames
        for what, (frames, _, _) in malformed.STREAM_ERRORS.items()
    }
    return found | {
        what: frames + talk.answer(1) for what, frames in malformed.IGNORED.items() if "is over" not in what
    }


@asynccontextmanager
async def served(folder: Path, replies: list[bytes]) -> AsyncIterator[None]:
    """One socket for each; a second call has no answer."""
    async with AsyncExitStack() as stack:
        for number, reply in enumerate(replies):
            server = await stack.enter_async_context(raw_server.raw_server(folder / f"{number}.sock"))
            left = [reply]
            server.reply = lambda stream, left=left: left.pop() if left else None  # type: ignore[misc]
        yield


async def by_ours(folder: Path, count: int) -> list[tuple[int, str]]:
    """The codes and texts that our client has for each socket."""
    found = []
    for number in range(count):
        driver = WireDriver(str(folder / f"{number}.sock"), clock=LoopClock())
        await driver.connect(10)
        try:
            await driver.probe(csi.ProbeRequest(), Call(1.0))
            found.append((0, ""))
        except DriverError as error:
            found.append((int(error.code), error.message))
        await driver.close()
    return found


def by_go(program: str) -> Callable[[Path, int], Awaitable[list[tuple[int, str]]]]:
    """The same of Go's client."""

    async def ends(folder: Path, count: int) -> list[tuple[int, str]]:
        process = await asyncio.create_subprocess_exec(program, str(folder), str(count), stdout=asyncio.subprocess.PIPE)
        lines = (await process.communicate())[0].decode().splitlines()
        assert len(lines) == count, lines[-1:]
        return [(int(code), json.loads(text)) for _, code, text in (line.split("\t", 2) for line in lines)]

    return ends


async def main(go_client: str | None) -> int:
    logging.disable()
    named = cases()
    clients = {"mooring": by_ours} | ({"go": by_go(go_client)} if go_client else {})
    ends: dict[str, list[tuple[int, str]]] = {}
    for name, client in clients.items():
        with tempfile.TemporaryDirectory() as folder:
            async with served(Path(folder), list(named.values())):
                ends[name] = await client(Path(folder), len(named))
    return report(list(named), ends)


def report(names: list[str], ends: dict[str, list[tuple[int, str]]]) -> int:
    """Says where the clients differ. Returns how many differences from Go's client have no name, or a name and no
    difference.
    """
    wrong = 0
    for what, *found in zip(names, *ends.values(), strict=True):
        codes = {name: code for name, (code, _) in zip(ends, found, strict=True)}
        if len(set(codes.values())) == 1 and what not in OTHERWISE:
            continue
        print(
            f"{what}: "
            + ", ".join(f"{name} {code} {text[:60]!r}" for name, (code, text) in zip(ends, found, strict=True))
        )
        if "go" in codes and (codes["go"] == codes["mooring"]) == (what in OTHERWISE):
            print("    NOT AS EXPECTED")
            wrong += 1
    for other in [name for name in ends if name != "mooring"]:
        same = sum(mine[0] == theirs[0] for mine, theirs in zip(ends["mooring"], ends[other], strict=True))
        print(f"{same} of {len(names)} codes are as {other}'s")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None)) else 0)
