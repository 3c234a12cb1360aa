"""The page's server: on loopback alone, its paths below a token that nobody can guess.

/TOKEN/              the page
/TOKEN/state/N       JSON: board, speed, and the story's lines after line N
/TOKEN/off/NODE      cuts a node's power; /on/NODE brings it back
/TOKEN/speed/10      time runs ten times as fast
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import importlib.resources
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from mooring.base.diagnostics import Diagnostics, Reply, Route
from mooring.base.errors import ConfigError
from mooring.dev.browser.feed import Feed
from mooring.dev.pace import SPEEDS, PacedLoop
from mooring.dev.power import OFF, ON, Switch

LOOPBACK: Final = "127.0.0.1:0"
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"


@contextlib.asynccontextmanager
async def serving(feed: Feed, switches: Mapping[str, Switch], token: str) -> AsyncGenerator[str, None]:
    """The page's address, for as long as the block runs. switches: by OFF and ON. Raises ConfigError."""
    server = Diagnostics(_Paths(feed, switches, token), any_method=True)
    host, port = await server.start(LOOPBACK)
    try:
        yield f"http://{host}:{port}/{token}/"
    finally:
        await server.close()


class _Paths(Mapping[str, Route]):
    """What answers a path."""

    def __init__(self, feed: Feed, switches: Mapping[str, Switch], token: str) -> None:
        self._feed, self._switches, self._token = feed, switches, token

    def __getitem__(self, path: str) -> Route:
        token, *words = path.removeprefix("/").split("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise KeyError(path)
        match words:
            case [""]:
                return _page
            case ["state", number] if number.isdecimal():
                return lambda: self._state(int(number))
            case [("off" | "on") as turn, node]:
                return lambda: self._turn(turn, unquote(node))
            case ["speed", speed] if speed.isdecimal() and int(speed) in SPEEDS:
                return lambda: _speed(int(speed))
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    async def _state(self, number: int) -> Reply:
        loop = asyncio.get_running_loop()
        speed = loop.speed if isinstance(loop, PacedLoop) else 1
        return _json({**await self._feed.since(number), "speed": speed, "speeds": SPEEDS})

    async def _turn(self, turn: str, node: str) -> Reply:
        try:
            return _json({"text": await self._switches[OFF if turn == "off" else ON](node)})
        except ConfigError as error:
            return _json({"error": str(error)})


async def _page() -> Reply:
    return Reply(200, importlib.resources.files("mooring.dev.browser").joinpath("page.html").read_bytes(), _HTML)


async def _speed(speed: int) -> Reply:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PacedLoop)
    loop.set_speed(speed)
    return _json({"text": f"time runs {speed} times as fast" if speed > 1 else "time runs as it does"})


def _json(value: Any) -> Reply:
    return Reply(200, json.dumps(value), _JSON)
