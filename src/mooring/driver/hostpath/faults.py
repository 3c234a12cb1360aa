"""Faults that a driver commits on purpose, so that others can be tested: rules in a file, read again when it changes.

    [{"match": {"method": "NodeStageVolume", "volume": "vol-1", "call": 2}, "do": {"delay_s": 3, "error": "Unavailable",
    "text": "gone"}}]

match: what is left out matches any; call: the n-th of the matching calls since the file was read, counted from 1. The
first rule that matches a call is carried out:

| do | |
|---|---|
| `delay_s` | waits first |
| `error`, `text` | fails with this code before the driver hears of the call |
| `hang` | never answers |
| `drop` | cuts all connections to the socket |
| `lose_answer` | the call is carried out, and its caller told Unavailable |
| `crash` | the process kills itself: `before` the call, or `after` it was carried out and before it is answered |
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from google.protobuf.message import Message

from mooring.base.border import refused_as
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.json_text import JsonDecoder
from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import CODES, Code

_log = logger(__name__)


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """method: `NodeStageVolume`. volume: the id in the call, or the name of one that is created. call: which one, 0 for
    each.
    """

    method: str = ""
    volume: str = ""
    call: int = 0


class Deed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """error: a code by Go's name, `NotFound`."""

    delay_s: float = 0.0
    error: str = ""
    text: str = "a fault on purpose"
    hang: bool = False
    drop: bool = False
    lose_answer: bool = False
    crash: Literal["", "before", "after"] = ""

    def __post_init__(self) -> None:
        if self.error and self.error not in CODES:
            raise ValueError(f"there is no code {self.error!r}")


class FaultRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    do: Deed
    match: Match = Match()

    def is_for(self, method: str, volume: str) -> bool:
        return self.match.method in ("", method) and self.match.volume in ("", volume)


_rules: Final = JsonDecoder[list[FaultRule]](list[FaultRule])


class Faults:
    """path: the file; one that is not there has no rules. clock: for delays."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._read: tuple[int, int] | None = None
        self._rules: list[FaultRule] = []
        self._counts: list[int] = []
        self.load()

    def load(self) -> None:
        """Reads the file if it has changed. Raises ConfigError."""
        what = f"faults: {str(self._path)!r} can't be read"
        with refused_as(what):
            try:
                status = self._path.stat()
            except FileNotFoundError:
                self._read, self._rules = None, []
                return
            if self._read == (status.st_mtime_ns, status.st_ino):
                return
            text = self._path.read_bytes()
        try:
            rules = _rules.decode(text)
        except ValueError as error:
            raise ConfigError(f"{what}: {error}") from None
        self._read, self._rules, self._counts = (status.st_mtime_ns, status.st_ino), rules, [0] * len(rules)

    def of(self, method: str, volume: str) -> Deed:
        """The fault of this call, and a call more for each rule that it matches. A file that can't be read leaves the
        former rules.
        """
        try:
            self.load()
        except ConfigError as error:
            _log.error("The former faults stay", error=error)
        found = None
        for number, rule in enumerate(self._rules):
            if rule.is_for(method, volume):
                self._counts[number] += 1
                if found is None and rule.match.call in (0, self._counts[number]):
                    found = rule.do
        return found or Deed()

    async def carry_out(
        self, method: str, request: Message, call: Callable[[Any], Awaitable[Any]], drop: Callable[[], None]
    ) -> Any:
        """The answer of the call, or its fault. drop: cuts the connections. Raises DriverError."""
        deed = self.of(method, volume_of(request))
        if deed.delay_s:
            await self._clock.sleep(deed.delay_s)
        if deed.crash == "before":
            _crash()
        if deed.drop:
            drop()
        if deed.hang or deed.drop:
            await asyncio.Event().wait()
        if deed.error:
            raise DriverError(CODES[deed.error], deed.text)
        answer = await call(request)
        if deed.crash == "after":
            _crash()
        if deed.lose_answer:
            raise DriverError(Code.UNAVAILABLE, deed.text)
        return answer


def volume_of(request: Message) -> str:
    """The volume that a call is about: its id, or the name of one that is created."""
    fields = request.DESCRIPTOR.fields_by_name
    names = (getattr(request, field) for field in ("volume_id", "source_volume_id", "name") if field in fields)
    return next((name for name in names if name), "")


def _crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
