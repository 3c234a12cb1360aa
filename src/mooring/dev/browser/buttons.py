"""The acts behind the page's buttons, and what the page has to know of them: nodes, controllers, faults of calls, and
the speed of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.base.errors import ConfigError
from mooring.conform.book.watcher import BOOK
from mooring.conform.call.names import BY_NAME
from mooring.conform.proxy.faults import Fault, Faults
from mooring.conform.proxy.script import FAILURES, fault_of
from mooring.dev.controllers import Controllers
from mooring.dev.pace import SPEEDS, PacedLoop
from mooring.dev.power import OFF, ON, Switch
from mooring.dev.story import Story

Act = Callable[[str], Awaitable[str]]
"""Does what a button says to the thing of this name; the text for whoever pressed it. Raises ConfigError."""

PLACE: Final = "the page"
"""Where the faults of buttons were asked for."""
PAGE: Final = "page"
"""In the story."""
CHOICES: Final = {"rpcs": tuple(BY_NAME), "codes": tuple(FAILURES)}
RULES: Final = {number: {**msgspec.structs.asdict(rule), "source": rule.source} for number, rule in BOOK.items()}
"""The book of CSI's rules, by number."""


class Buttons:
    """acts: by their names in the page's paths. switches: of nodes, by OFF and ON. faults: of the proxies before the
    driver.
    """

    def __init__(self, switches: Mapping[str, Switch], controllers: Controllers, faults: Faults, story: Story) -> None:
        self._controllers, self._faults, self._story = controllers, faults, story
        self.acts: Mapping[str, Act] = {
            "off": switches[OFF],
            "on": switches[ON],
            "pause": self._pause,
            "resume": self._resume,
            "restart": self._restart,
            "fault": self._fault,
            "lift": self._lift,
            "speed": _speed,
        }

    def state(self) -> dict[str, Any]:
        """JSON values."""
        asked = [
            {"number": number, "text": _told(course.fault), "happened": course.happened}
            for number, course in self._faults.asked.items()
            if not course.is_over
        ]
        paused = self._controllers.paused
        controllers = [{"name": who, "paused": who in paused} for who in self._controllers.names]
        loop = asyncio.get_running_loop()
        return {
            "controllers": controllers,
            "faults": asked,
            "speed": loop.speed if isinstance(loop, PacedLoop) else 1,
            "speeds": SPEEDS,
        }

    def release(self) -> None:
        """Ends what the buttons have begun: no fault is left, and no controller stands still."""
        self._faults.asked.clear()
        self._controllers.resume_all()

    async def _pause(self, who: str) -> str:
        done = self._controllers.pause(who)
        return f"{who} stands still until it goes on" if done else f"{who} stands still already"

    async def _resume(self, who: str) -> str:
        return f"{who} goes on" if self._controllers.resume(who) else f"{who} was not paused"

    async def _restart(self, who: str) -> str:
        await self._controllers.kill(who)
        await self._controllers.start(who)
        return f"{who} was killed in the middle of its work, and has started anew"

    async def _fault(self, text: str) -> str:
        """text: a fault in the words of a script."""
        fault = fault_of(text, PLACE)
        self._faults.add(fault)
        often = {0: "until it is lifted", 1: "once"}.get(fault.times, f"{fault.times} times")
        asked = f"{_told(fault)}, {often}"
        self._story.happened(PAGE, asked)
        return asked

    async def _lift(self, number: str) -> str:
        fault = self._faults.lift(int(number)) if number.isdecimal() else None
        if fault is None:
            raise ConfigError("that fault is over")
        lifted = f"no more of this: {_told(fault)}"
        self._story.happened(PAGE, lifted)
        return lifted


def _told(fault: Fault) -> str:
    rpcs = "any call" if fault.rpcs == ("*",) else ", ".join(fault.rpcs)
    return f"{rpcs}: {fault}"


async def _speed(text: str) -> str:
    loop = asyncio.get_running_loop()
    if text not in map(str, SPEEDS) or not isinstance(loop, PacedLoop):
        raise ConfigError(f"time can run {', '.join(map(str, SPEEDS))} times as fast, not {text!r}")
    loop.set_speed(int(text))
    return f"time runs {text} times as fast" if text != "1" else "time runs as it does"
