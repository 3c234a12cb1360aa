"""The page of `mooring dev --browser`: what it is told, and what its paths do."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.control.result import Because
from mooring.dev.browser.feed import LINES_MAX, Feed, Listeners
from mooring.dev.browser.serving import serving
from mooring.dev.live.board import Board, NodeRow, VolumeRow
from mooring.dev.story import Story
from mooring.driver.guard import CallRecord

TOKEN = "nobody-guesses-this"
BOARD = Board((NodeRow("n1", "Ready", "", 1, None, 1),), (VolumeRow("data", "pv", "n1", "Published", "pod web"),))


class Quiet:
    """A screen that keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def title(self, text: str) -> None:
        self.shown.append(text)

    def step(self, at_s: float, text: str) -> None:
        self.shown.append(text)

    def happening(self, one: Any) -> None:
        self.shown.append(one.what)

    check = failure = end = step


async def test_lines_go_to_the_screen_and_to_the_page() -> None:
    feed, quiet = Feed(LoopClock()), Quiet()
    story = Story(feed.over(quiet), LoopClock())
    story.happened("n1", "NodeStageVolume", via="CSI", result="OK", seconds=0.1)
    state = await feed.since(0)
    assert quiet.shown == ["NodeStageVolume"]
    (line,) = state["lines"]
    assert {"who": "n1", "via": "CSI", "what": "NodeStageVolume", "result": "OK", "problem": ""}.items() <= line.items()
    assert state["last"] == 1


async def test_a_page_waits_for_news_and_gets_those_alone() -> None:
    feed = Feed(LoopClock())
    feed.add(at=0.0, what="first")
    waiting = asyncio.create_task(feed.since(1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    feed.add(at=1.0, what="second")
    state = await asyncio.wait_for(waiting, 5)
    assert [line["what"] for line in state["lines"]] == ["second"]


async def test_a_change_of_the_board_wakes_the_page_too() -> None:
    feed = Feed(LoopClock())
    feed.add(at=0.0, what="first")
    async with feed.viewing(lambda: BOARD, LoopClock()):
        waiting = asyncio.create_task(feed.since(1))
        await asyncio.sleep(0.01)
        feed.changed()
        state = await asyncio.wait_for(waiting, 5)
    assert [node["name"] for node in state["nodes"]] == ["n1"]
    assert [volume["stage"] for volume in state["volumes"]] == ["Published"]
    assert state["lines"] == []


async def test_a_page_of_an_earlier_run_begins_again() -> None:
    feed = Feed(LoopClock())
    feed.add(at=0.0, what="first")
    assert (await asyncio.wait_for(feed.since(500), 1))["last"] == 1


async def test_old_lines_are_dropped() -> None:
    feed = Feed(LoopClock())
    for number in range(LINES_MAX + 5):
        feed.add(at=float(number), what=str(number))
    assert [len((await feed.since(0))["lines"]), (await feed.since(0))["lines"][0]["what"]] == [LINES_MAX, "5"]


def test_each_listener_hears_everything() -> None:
    heard: list[str] = []

    class Hears:
        def called(self, record: CallRecord, who: str) -> None:
            heard.append(f"called {who}")

        def explained(self, who: str, queue: str, key: object, because: Because, now: float) -> None:
            heard.append(f"explained {who}")

        def lost(self, node: str) -> None:
            heard.append(f"lost {node}")

    both = Listeners(Hears(), None, Hears())
    both.called(CallRecord("Probe", "", "", None, 0.0), "driver")
    both.lost("n1")
    assert heard == ["called driver"] * 2 + ["lost n1"] * 2


def asked(url: str, *, method: str = "GET") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


async def off(node: str) -> str:
    if node != "n 1":
        raise ConfigError(f"there is no node {node!r}")
    return f"{node} is off"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("off/n%201", {"text": "n 1 is off"}),
        ("off/n2", {"error": "there is no node 'n2'"}),
    ],
)
async def test_the_buttons_turn_nodes(path: str, answer: dict[str, str]) -> None:
    async with serving(Feed(LoopClock()), {"off": off, "on": off}, TOKEN) as url:
        status, body = await asyncio.to_thread(asked, url + path, method="POST")
    assert (200, answer) == (status, json.loads(body))


async def test_the_page_and_its_state_are_there_for_who_has_the_token() -> None:
    async with serving(Feed(LoopClock()), {}, TOKEN) as url:
        status, page = await asyncio.to_thread(asked, url)
        _, state = await asyncio.to_thread(asked, f"{url}state/0")
    assert url.startswith("http://127.0.0.1:")
    assert (200, True) == (status, "<title>mooring dev</title>" in page)
    assert {"last": 0, "lines": [], "nodes": [], "volumes": [], "speed": 1}.items() <= json.loads(state).items()


@pytest.mark.parametrize("path", ["", "x/", f"{TOKEN}x/", "state/0", f"{TOKEN}/speed/7", f"{TOKEN}/off", f"{TOKEN}/state/-1", f"{TOKEN}"])
async def test_nothing_else_is_there(path: str) -> None:
    async with serving(Feed(LoopClock()), {"off": off, "on": off}, TOKEN) as url:
        status, _ = await asyncio.to_thread(asked, url.removesuffix(f"{TOKEN}/") + path)
    assert status == 404


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with serving(Feed(LoopClock()), {}, TOKEN) as url:
        _, page = await asyncio.to_thread(asked, url)
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
