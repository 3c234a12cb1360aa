"""A plane shown in a browser: its page is served on loopback alone, with paths below a token that nobody can guess.

/TOKEN/              the page
/TOKEN/choices       JSON: the calls and codes that a fault may name, and the rules of CSI by number
/TOKEN/state/N       JSON: board, controllers, faults, speed, and the story's lines after line N
/TOKEN/off/NODE      presses a button; `buttons.py` has them all. Answers with JSON: a text, or an error
"""

from __future__ import annotations

import contextlib
import hmac
import importlib.resources
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from mooring.base.diagnostics import Diagnostics, Reply, Route
from mooring.base.errors import ConfigError
from mooring.dev.browser.buttons import CHOICES, RULES, Act, Buttons
from mooring.dev.browser.feed import Feed
from mooring.dev.options import Patience
from mooring.dev.plane import Plane
from mooring.dev.power import Switches
from mooring.dev.story import Story

_LOOPBACK: Final = "127.0.0.1:0"
_ANSWER_S_MAX: Final = 3600.0
"""Of time that may run sixty times as fast; a node that comes back, for instance, waits for its driver."""
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_TOKEN_BYTES: Final = 24


@contextlib.asynccontextmanager
async def in_browser(feed: Feed, plane: Plane, patience: Patience, story: Story) -> AsyncGenerator[None, None]:
    """Serves the page as long as the block runs, and says where. What its buttons have begun ends with it. Raises
    ConfigError.
    """
    assert plane.faults is not None, "a page has buttons for faults"
    switches = Switches(plane.nodes, plane.cluster, patience).by_turn
    buttons = Buttons(switches, plane.controllers, plane.faults, story)
    async with serving(feed, buttons.acts, buttons.state, secrets.token_urlsafe(_TOKEN_BYTES)) as url:
        story.title(f"In a browser, for you alone: {url}")
        try:
            yield
        finally:
            buttons.release()


@contextlib.asynccontextmanager
async def serving(
    feed: Feed, acts: Mapping[str, Act], state: Callable[[], Mapping[str, Any]], token: str
) -> AsyncGenerator[str, None]:
    """The page's address, for as long as the block runs. acts: by their names in paths. state: beside the feed's.
    Raises ConfigError.
    """
    server = Diagnostics(_Paths(feed, acts, state, token), any_method=True, connection_s=_ANSWER_S_MAX)
    host, port = await server.start(_LOOPBACK)
    try:
        yield f"http://{host}:{port}/{token}/"
    finally:
        await server.close()


class _Paths(Mapping[str, Route]):
    """What answers a path."""

    def __init__(self, feed: Feed, acts: Mapping[str, Act], state: Callable[[], Mapping[str, Any]], token: str) -> None:
        self._feed, self._acts, self._state, self._token = feed, acts, state, token

    def __getitem__(self, path: str) -> Route:
        token, *words = path.removeprefix("/").split("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise KeyError(path)
        match words:
            case [""]:
                return _page
            case ["choices"]:
                return _choices
            case ["state", number] if number.isdecimal():
                return lambda: self._since(int(number))
            case [act, what] if act in self._acts:
                return lambda: self._pressed(self._acts[act], unquote(what))
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    async def _since(self, number: int) -> Reply:
        news = await self._feed.since(number)
        return _json({**news, **self._state()})

    async def _pressed(self, act: Act, what: str) -> Reply:
        try:
            text = await act(what)
        except ConfigError as error:
            return _json({"error": str(error)})
        self._feed.changed()
        return _json({"text": text})


async def _page() -> Reply:
    return Reply(200, importlib.resources.files("mooring.dev.browser").joinpath("page.html").read_bytes(), _HTML)


async def _choices() -> Reply:
    return _json({**CHOICES, "rules": RULES})


def _json(value: Any) -> Reply:
    return Reply(200, json.dumps(value), _JSON)
