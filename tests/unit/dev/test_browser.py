"""The page of `mooring dev --browser`: what it is told, and what its paths do."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any, cast
from urllib.parse import quote

import msgspec
import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.conform.book.watcher import BOOK
from mooring.conform.proxy.faults import Fault, Faults, Kind
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.dev.browser.buttons import Act, Buttons
from mooring.dev.browser.feed import FULL_BYTES_MAX, LINES_MAX, Feed
from mooring.dev.browser.shown import serving
from mooring.dev.controllers import Controllers
from mooring.dev.live.board import Board, NodeRow, VolumeRow
from mooring.dev.power import OFF, ON
from mooring.dev.story import Story, StoryLine
from mooring.driver.guard import CallRecord
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row

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


def a_line(what: str) -> StoryLine:
    return StoryLine(0.0, "", "", what)


async def test_lines_go_to_the_screen_and_to_the_page() -> None:
    feed, quiet = Feed(LoopClock()), Quiet()
    story = Story(quiet, LoopClock(), page=feed.add)
    story.happened("n1", "NodeStageVolume", via="CSI", result="OK", seconds=0.1)
    state = await feed.since(0)
    assert quiet.shown == ["NodeStageVolume"]
    (line,) = state["lines"]
    assert {"who": "n1", "via": "CSI", "what": "NodeStageVolume", "result": "OK", "problem": ""}.items() <= line.items()
    assert state["last"] == 1


async def test_a_call_has_its_whole_request_and_answer_also_when_it_comes_again() -> None:
    feed = Feed(LoopClock())
    story = Story(Quiet(), LoopClock(), page=feed.add)
    long = "x" * 500
    failed = DriverError(Code.INTERNAL, "no room")
    story.called(
        CallRecord("CreateVolume", f'{{"name":"{long}"}}', '{"volume":{"capacity_bytes":9007199254740993}}', None, 0.1)
    )
    for _ in range(2):
        story.called(CallRecord("CreateVolume", '{"name":"a"}', "", failed, 0.1))
    made, *refused = (await feed.since(0))["lines"]
    assert [f'{{\n  "name": "{long}"\n}}', '{\n  "volume": {\n    "capacity_bytes": 9007199254740993\n  }\n}'] == [
        *made["full"]
    ]
    assert [['{\n  "name": "a"\n}', str(failed)]] * 2 == [[*line["full"]] for line in refused]
    assert "again" in refused[1]["problem"], "its line is short"


async def test_of_a_long_answer_the_page_keeps_the_beginning() -> None:
    feed = Feed(LoopClock())
    feed.add(msgspec.structs.replace(a_line("ListVolumes"), full=("{}", "x" * 2 * FULL_BYTES_MAX)))
    (line,) = (await feed.since(0))["lines"]
    assert (FULL_BYTES_MAX, "...") == (len(line["full"][1]), line["full"][1][-3:])


async def test_a_page_waits_for_news_and_gets_those_alone() -> None:
    feed = Feed(LoopClock())
    feed.add(a_line("first"))
    waiting = asyncio.create_task(feed.since(1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    feed.add(a_line("second"))
    state = await asyncio.wait_for(waiting, 5)
    assert [line["what"] for line in state["lines"]] == ["second"]


async def test_a_change_of_the_board_wakes_the_page_too() -> None:
    feed = Feed(LoopClock())
    feed.add(a_line("first"))
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
    feed.add(a_line("first"))
    assert (await asyncio.wait_for(feed.since(500), 1))["last"] == 1


async def test_old_lines_are_dropped() -> None:
    feed = Feed(LoopClock())
    for number in range(LINES_MAX + 5):
        feed.add(a_line(str(number)))
    assert [len((await feed.since(0))["lines"]), (await feed.since(0))["lines"][0]["what"]] == [LINES_MAX, "5"]


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


class Runs:
    """Controllers that note what is done to them."""

    names = ("attacher", "binder")

    def __init__(self) -> None:
        self.paused = frozenset[str]()
        self.done: list[str] = []

    def pause(self, who: str) -> bool:
        if who not in self.names:
            raise ConfigError(f"there is no controller {who!r}")
        is_new, self.paused = who not in self.paused, self.paused | {who}
        return is_new

    def resume(self, who: str) -> bool:
        was, self.paused = who in self.paused, self.paused - {who}
        return was

    def resume_all(self) -> None:
        self.paused = frozenset()

    async def kill(self, who: str) -> bool:
        self.done.append(f"kill {who}")
        return True

    async def start(self, who: str) -> bool:
        self.done.append(f"start {who}")
        return True


class Panel:
    """The buttons of a page, and what is behind them."""

    def __init__(self) -> None:
        self.controllers, self.faults, self.screen = Runs(), Faults((), 0), Quiet()
        story = Story(self.screen, LoopClock())
        self.buttons = Buttons({OFF: off, ON: off}, cast("Controllers", self.controllers), self.faults, story)

    async def press(self, act: str, what: str) -> str:
        return await self.buttons.acts[act](what)

    def asked(self) -> list[str]:
        return [fault["text"] for fault in self.buttons.state()["faults"]]

    def struck(self, *rpcs: Any) -> list[str]:
        """The faults of calls in turn, "" for none."""
        return [str(self.faults.pick(rpc.path, None) or "") for rpc in rpcs]


async def test_a_fault_that_a_button_orders_strikes_once_and_is_shown_until_then() -> None:
    panel = Panel()
    said = await panel.press("fault", '{"do":"drop","rpc":"CreateVolume","times":1}')
    assert said == "CreateVolume: the answer is dropped, after the effect, once"
    assert panel.asked() == ["CreateVolume: the answer is dropped, after the effect"]
    struck = panel.struck(Driver.delete_volume, Driver.create_volume, Driver.create_volume)
    assert struck == ["", "the answer is dropped, after the effect", ""]
    assert panel.asked() == []
    assert panel.screen.shown == [said]


async def test_the_latest_fault_goes_first_and_one_that_stays_is_lifted() -> None:
    panel = Panel()
    await panel.press("fault", '{"do":"delay","for":"2s","rpc":"*"}')
    await panel.press("fault", '{"do":"fail","code":"NotFound","rpc":"*","times":1}')
    assert panel.struck(Driver.probe, Driver.probe) == [
        "it fails with NotFound before the effect",
        "a delay of 2s before the effect",
    ]
    (left,) = panel.buttons.state()["faults"]
    assert ("any call: a delay of 2s before the effect", 1) == (left["text"], left["happened"])
    assert "no more of this: any call: a delay of 2s before the effect" == await panel.press(
        "lift", str(left["number"])
    )
    assert [panel.asked(), panel.struck(Driver.probe)] == [[], [""]]
    with pytest.raises(ConfigError, match="that fault is over"):
        await panel.press("lift", str(left["number"]))


async def test_faults_that_are_over_are_forgotten() -> None:
    panel = Panel()
    for _ in range(3):
        await panel.press("fault", "{do: cut, rpc: Probe, times: 1}")
        panel.struck(Driver.probe)
    assert len(panel.faults.asked) == 1


async def test_a_script_s_faults_come_after_those_of_the_page() -> None:
    panel = Panel()
    panel.faults = Faults([Fault(Kind.CUT)], 0)
    panel.faults.add(Fault(Kind.HANG, times=1))
    assert panel.struck(Driver.probe, Driver.probe) == [str(Fault(Kind.HANG)), str(Fault(Kind.CUT))]
    assert [1] == [happened for _, happened in panel.faults.counts()]


@each_row(
    ("text", "said"),
    [
        ("", "say what it does, as in `{do: drop, rpc: CreateVolume}`"),
        ("{do: dropp}", "do has no 'dropp' (did you mean drop?)"),
        ("{do: fail, rpc: Probe}", "the fault fail needs `code`"),
        ("{do: drop", "is no YAML"),
    ],
)
async def test_a_fault_that_nobody_understands_is_refused_with_the_next_step(text: str, said: str) -> None:
    panel = Panel()
    with pytest.raises(ConfigError) as refused:
        await panel.press("fault", text)
    assert str(refused.value).startswith(said)
    assert panel.asked() == []


async def test_a_controller_is_paused_goes_on_and_starts_anew() -> None:
    panel = Panel()
    assert "attacher stands still until it goes on" == await panel.press("pause", "attacher")
    assert "attacher stands still already" == await panel.press("pause", "attacher")
    assert [("attacher", True), ("binder", False)] == [
        (one["name"], one["paused"]) for one in panel.buttons.state()["controllers"]
    ]
    assert "attacher goes on" == await panel.press("resume", "attacher")
    assert "attacher was not paused" == await panel.press("resume", "attacher")
    await panel.press("restart", "binder")
    assert ["kill binder", "start binder"] == panel.controllers.done
    with pytest.raises(ConfigError, match="there is no controller 'x'"):
        await panel.press("pause", "x")


async def test_the_end_of_the_page_ends_what_its_buttons_have_begun() -> None:
    panel = Panel()
    await panel.press("pause", "binder")
    await panel.press("fault", "{do: hang}")
    panel.buttons.release()
    assert [frozenset(), ""] == [panel.controllers.paused, *panel.struck(Driver.probe)]


async def test_a_loop_without_a_pace_refuses_another_speed() -> None:
    with pytest.raises(ConfigError, match="time can run 1, 10, 60 times as fast, not '7'"):
        await Panel().press("speed", "7")


ACTS: dict[str, Act] = {"off": off, "on": off}


@each_row(
    ("path", "answer"),
    [
        ("off/n%201", {"text": "n 1 is off"}),
        ("off/n2", {"error": "there is no node 'n2'"}),
    ],
)
async def test_a_button_s_path_does_what_it_says(path: str, answer: dict[str, str]) -> None:
    async with serving(Feed(LoopClock()), ACTS, dict, TOKEN) as url:
        status, body = await asyncio.to_thread(asked, url + path, method="POST")
    assert (200, answer) == (status, json.loads(body))


async def test_a_fault_goes_through_the_path_as_it_was_written() -> None:
    panel = Panel()
    text = '{"do":"drop","rpc":"/csi.v1.Controller/*","request":{"name":"a b"}}'
    async with serving(Feed(LoopClock()), panel.buttons.acts, panel.buttons.state, TOKEN) as url:
        _, body = await asyncio.to_thread(asked, f"{url}fault/{quote(text, safe='')}", method="POST")
        _, state = await asyncio.to_thread(asked, f"{url}state/0")
    assert (
        "/csi.v1.Controller/*: the answer is dropped, after the effect, until it is lifted" == json.loads(body)["text"]
    )
    assert ["/csi.v1.Controller/*: the answer is dropped, after the effect"] == [
        one["text"] for one in json.loads(state)["faults"]
    ]


async def test_the_page_and_its_state_are_there_for_who_has_the_token() -> None:
    async with serving(Feed(LoopClock()), {}, lambda: {"speed": 1}, TOKEN) as url:
        status, page = await asyncio.to_thread(asked, url)
        _, state = await asyncio.to_thread(asked, f"{url}state/0")
        _, choices = await asyncio.to_thread(asked, f"{url}choices")
    assert url.startswith("http://127.0.0.1:")
    assert (200, True) == (status, "<title>mooring dev</title>" in page)
    assert {"last": 0, "lines": [], "nodes": [], "volumes": [], "speed": 1}.items() <= json.loads(state).items()
    assert "CreateVolume" in json.loads(choices)["rpcs"]
    rule = json.loads(choices)["rules"]["CSI516"]
    assert (BOOK["CSI516"].asks, BOOK["CSI516"].source) == (rule["asks"], rule["source"])
    assert {"Unavailable", "OK"} & set(json.loads(choices)["codes"]) == {"Unavailable"}


@each_row(
    "path", ["", "x/", f"{TOKEN}x/", "state/0", "off/n1", f"{TOKEN}/fly/n1", f"{TOKEN}/off", f"{TOKEN}/state/-1", TOKEN]
)
async def test_nothing_else_is_there(path: str) -> None:
    async with serving(Feed(LoopClock()), ACTS, dict, TOKEN) as url:
        status, _ = await asyncio.to_thread(asked, url.removesuffix(f"{TOKEN}/") + path)
    assert status == 404


async def test_the_page_loads_nothing_from_elsewhere() -> None:
    async with serving(Feed(LoopClock()), {}, dict, TOKEN) as url:
        _, page = await asyncio.to_thread(asked, url)
    assert "default-src 'none'" in page
    assert "http://" not in page
    assert "https://" not in page
