"""The power switch of the nodes: a unix socket in the plane's folder, for `mooring dev kill-node` in another terminal.

`run/power`, for this user alone. A line of JSON each way: {"turn": "off", "node": "n2"}, answered by {"text": "..."},
or {"error": "..."}. The turn `where` turns nothing: it tells `mooring call` the plane's places (`by_hand.py`). It is no
API object, since a cluster would not have one either: cutting a machine's power needs no API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from mooring.api.core import NODES
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, is_out_of_service
from mooring.base.border import reason
from mooring.base.errors import ConfigError
from mooring.base.folders import refusal
from mooring.base.json_text import from_json
from mooring.base.units import format_duration
from mooring.dev.nodes import Nodes
from mooring.dev.options import Patience
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

OFF: Final = "off"
ON: Final = "on"
Switch = Callable[[str], Awaitable[str]]
"""Turns a node, by its name; the text for whoever asked. Raises ConfigError."""

_PLACE: Final = ("run", "power")
_LINE_MAX: Final = 65536
_ASK_S_MAX: Final = 60.0
_READ_S_MAX: Final = 5.0


def socket_in(folder: Path) -> Path:
    return folder.joinpath(*_PLACE)


@contextlib.asynccontextmanager
async def answering(folder: Path, switches: Mapping[str, Switch]) -> AsyncGenerator[None, None]:
    """Turns nodes for whoever asks, as long as the block runs. switches: by OFF and ON."""
    path, loop = socket_in(folder), asyncio.get_running_loop()
    with _bound(path) as listening:
        try:
            async with asyncio.TaskGroup() as group:
                answers: set[asyncio.Task[None]] = set()

                def welcome() -> None:
                    with contextlib.suppress(OSError):  # whoever it was is gone
                        client, _ = listening.accept()
                        task = group.create_task(_serve(client, switches), name="dev/power")
                        answers.add(task)
                        task.add_done_callback(answers.discard)
                        task.add_done_callback(
                            lambda _: client.close()
                        )  # also of one that was cancelled before it began

                loop.add_reader(listening, welcome)
                try:
                    yield
                finally:
                    loop.remove_reader(listening)
                    for task in answers:
                        task.cancel()
        finally:
            path.unlink(missing_ok=True)


async def _serve(client: socket.socket, switches: Mapping[str, Switch]) -> None:
    client.setblocking(False)
    with contextlib.suppress(OSError):  # nobody waits for the answer any more
        answer = await _answer(client, switches)
        await asyncio.get_running_loop().sock_sendall(client, json.dumps(answer).encode() + b"\n")


def _bound(path: Path) -> socket.socket:
    """In the place of a socket that an earlier process left. The folder is held by this one."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    others = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen()
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise refusal(path, error) from None
    finally:
        os.umask(others)
    return bound


async def _answer(client: socket.socket, switches: Mapping[str, Switch]) -> dict[str, str]:
    try:
        async with asyncio.timeout(_READ_S_MAX):
            asked = from_json(await _line(client))
        turn, node = switches[asked["turn"]], str(asked["node"])
    except (TimeoutError, ValueError, KeyError, TypeError):
        return {"error": 'this takes a line of JSON, as {"turn": "off", "node": "n2"}'}
    try:
        return {"text": await turn(node)}
    except ConfigError as error:
        return {"error": str(error)}


async def _line(client: socket.socket) -> bytes:
    line = b""
    while (
        not line.endswith(b"\n")
        and len(line) < _LINE_MAX
        and (more := await asyncio.get_running_loop().sock_recv(client, _LINE_MAX))
    ):
        line += more
    return line


def is_answering(folder: Path) -> bool:
    """Whether a `mooring dev` runs on this folder."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            _connect(client, folder)
        except OSError:
            return False
        return True


def ask(folder: Path, turn: str, node: str) -> str:
    """The answer of the `mooring dev` in this folder. Raises ConfigError."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            _connect(client, folder)
            client.sendall(json.dumps({"turn": turn, "node": node}).encode() + b"\n")
            with client.makefile("rb") as answer:
                found = from_json(answer.readline())
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise ConfigError(f"no mooring dev runs on {str(folder)!r}: give the folder of one that runs") from None
    except TimeoutError:
        raise ConfigError(f"the mooring dev on {str(folder)!r} has not answered within {_ASK_S_MAX:g} s") from None
    except OSError as error:
        raise ConfigError(f"the mooring dev on {str(folder)!r} gives no answer: {reason(error)}") from None
    except ValueError:
        raise ConfigError(f"the mooring dev on {str(folder)!r} gives no answer: it has ended") from None
    if "error" in found:
        raise ConfigError(found["error"])
    return str(found["text"])


def _connect(client: socket.socket, folder: Path) -> None:
    client.settimeout(_ASK_S_MAX)
    with contextlib.chdir(folder):  # a path relative to it is never too long
        client.connect(os.path.join(*_PLACE))


WIDTH: Final = 80
COMMAND: Final = "kubectl "
"""Begins a line to type, which stays whole."""


def paragraphs(*texts: str) -> str:
    """Each on lines of its own, which fit a terminal."""
    return "\n".join(
        one if one.startswith(COMMAND) else textwrap.fill(one, WIDTH - 1, break_long_words=False) for one in texts
    )


TAINTED: Final = f"{OUT_OF_SERVICE_TAINT}=nodeshutdown:NoExecute"


class Switches:
    """nodes: None for a driver without a node service."""

    def __init__(self, nodes: Nodes | None, cluster: Cluster, patience: Patience) -> None:
        self._nodes, self._cluster, self._patience = nodes, cluster, patience
        self.by_turn: Mapping[str, Switch] = {OFF: self.off, ON: self.on}

    async def off(self, name: str) -> str:
        nodes = self._there()
        gone = await nodes.kill(name)
        return paragraphs(*self._after_a_kill(nodes, name, gone)) if gone else f"{name} is off already"

    def _after_a_kill(self, nodes: Nodes, name: str, gone: str) -> Iterator[str]:
        grace = format_duration(self._patience.grace_s)
        yield f"{name} is off: {gone}."
        yield f"{grace} after its last sign of life its Node is not ready, and no new pod goes there."
        if nodes.on:
            yield (
                "Its pods are deleted after the time for which they tolerate that (300 s, unless they say "
                "otherwise), and stay in "
                "Terminating: only somebody who knows that the machine is off may let go of their volumes. That is you:"
            )
            yield f"kubectl taint nodes {name} {TAINTED}"
        else:
            yield "No node is on: no pod leaves, since that is taken for a broken network."

    async def on(self, name: str) -> str:
        lines = [
            f"{name} is on: its agent runs, and the driver is registered."
            if await self._there().revive(name)
            else f"{name} is on already"
        ]
        if await self._is_out_of_service(name):
            lines += ["It is still tainted as out of service, so no pod stays there. To take it back into service:"]
            lines += [f"kubectl taint nodes {name} {OUT_OF_SERVICE_TAINT}-"]
        return paragraphs(*lines)

    async def _is_out_of_service(self, name: str) -> bool:
        try:
            node = await self._cluster.get(NODES, name)
        except ApiError:  # somebody has deleted it
            return False
        return is_out_of_service(node)

    def _there(self) -> Nodes:
        if self._nodes is None:
            raise ConfigError("the driver has no node service, so its nodes have no agents that could be ended")
        return self._nodes
