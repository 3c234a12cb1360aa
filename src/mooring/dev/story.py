"""The events of the plane in order: who did what to whom, how it ended, how long it took. A `Screen` shows them.

The log is a part of the story: one clock and one form for everything on the screen.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Protocol, TextIO

import msgspec

from mooring.base import log
from mooring.base.border import reason
from mooring.base.clock import Clock, Instant
from mooring.conform.book.rule import Breach
from mooring.control.result import Because
from mooring.dev.summary import message_summary
from mooring.driver.guard import CallRecord

KNOWN_MAX: Final = 1000
"""Things that are remembered; the one that has not come for the longest time is forgotten first, and told in full
again.
"""


class Again(msgspec.Struct, frozen=True):
    """name: its short name in repeats. words: the repeat's number, and the time of the full text."""

    name: str
    words: str


class _Known(msgspec.Struct):
    name: str
    first_s: float
    count: int = 1


class Repeats:
    """Counts how often each key has occurred, and since when."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def seen(self, key: Hashable, at_s: float, name: str) -> Again | None:
        """The earlier occurrences of the key; None the first time. name: its name from now on, "" for the one it
        had.
        """
        known = self._known.get(key)
        if known is None:
            self._known[key] = _Known(name, at_s)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            return None
        self._known.move_to_end(key)
        known.count += 1
        return Again(name or known.name, f"again, {_ordinal(known.count)} time, see {known.first_s:.3f}")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


class StoryLine(msgspec.Struct, frozen=True):
    """One line. at_s: since the start of the story. who: the caller over the API, or the called part over CSI; via:
    which of them, or "".

    problem: the error, "" for none. seconds: None when nobody waited for it. full: of a call, the whole request and the
    whole answer as JSON without secrets, or the error.
    """

    at_s: float
    who: str
    via: str
    what: str
    result: str = ""
    problem: str = ""
    seconds: float | None = None
    full: tuple[str, ...] = ()


class Screen(Protocol):
    """Where a story is shown."""

    def title(self, text: str) -> None: ...
    def step(self, at_s: float, text: str) -> None: ...
    def happening(self, one: StoryLine) -> None: ...
    def check(self, at_s: float, text: str) -> None:
        """Something was looked up and found as it should be."""

    def failure(self, at_s: float, text: str) -> None: ...
    def end(self, at_s: float, text: str) -> None: ...


class Model(Protocol):
    """Gets calls and reasons as they are, where a screen gets them as text: `live/model.py`."""

    def called(self, record: CallRecord, who: str) -> None: ...
    def explained(self, who: str, queue: str, key: Hashable, because: Because, now: Instant) -> None: ...
    def lost(self, node: str) -> None: ...


class Story:
    """The teller. calls: how often each CSI call succeeded; writes: how many writes each one made.

    model: of those who view the plane, None for nobody. page: gets each line beside the screen, None for nobody.
    """

    def __init__(
        self,
        screen: Screen,
        clock: Clock,
        model: Model | None = None,
        page: Callable[[StoryLine], None] | None = None,
    ) -> None:
        self._screen, self._model, self._page = screen, model, page
        self._clock = clock
        self._began = clock.now()
        self._repeats = Repeats()
        self.driver_log: TextIO | None = None
        """Takes what the driver prints, where that is not for the screen."""
        self.calls: Counter[str] = Counter()
        self.failed_calls: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    @property
    def elapsed_s(self) -> float:
        return self._clock.now() - self._began

    def title(self, text: str) -> None:
        self._screen.title(text)

    def step(self, text: str) -> None:
        self._screen.step(self.elapsed_s, text)

    def checked(self, text: str) -> None:
        self._screen.check(self.elapsed_s, text)

    def failed(self, text: str) -> None:
        self._screen.failure(self.elapsed_s, text)

    def ended(self, text: str) -> None:
        self._screen.end(self.elapsed_s, text)

    def printed(self, line: str) -> None:
        """By the driver's program."""
        if self.driver_log is not None:
            try:
                self.driver_log.write(f"{line}\n")
                return
            except OSError as error:  # no reason to end all that runs here
                self.driver_log = None
                self.happened(
                    "warning", f"driver-log can't be written: {reason(error)}; the driver's output goes on here"
                )
        self.happened("output", line)

    def broken(self, breach: Breach) -> None:
        """A rule of CSI, by the driver."""
        self.happened("breach", breach.line, problem=breach.rule.title)
        for text in breach.advice:
            self.happened("", text)

    def happened(
        self,
        who: str,
        what: str,
        *,
        via: str = "",
        result: str = "",
        problem: str = "",
        seconds: float | None = None,
        same: str = "",
        name: str = "",
        full: tuple[str, ...] = (),
    ) -> None:
        """same: what it is known by when it comes again, "" for what is always told in full. name: what it is called
        then. full: as in StoryLine.
        """
        at_s = self.elapsed_s
        again = self._repeats.seen((who, via, same), at_s, name) if same else None
        if again is None:
            one = StoryLine(at_s, who, via, what, result, problem, seconds, full)
        elif problem:
            one = StoryLine(at_s, who, via, again.name or what, problem=again.words, full=full)
        else:
            one = StoryLine(at_s, who, via, again.name or what, result=again.words, full=full)
        self._screen.happening(one)
        if self._page is not None:
            self._page(one)

    def wrote(self, who: str, what: str, seconds: float, problem: str = "", *, same: str = "", name: str = "") -> None:
        """A write to the API server has ended. same, name: as for `happened`; a failed one is known by how it
        failed.
        """
        if problem:
            same, name = f"{what} {problem}", what.partition(":")[0]
        else:
            self.writes[who] += 1
        self.happened(who, what, via="API", problem=problem, seconds=seconds, same=same, name=name)

    def called(self, record: CallRecord, who: str = "driver") -> None:
        """A call to the driver has ended. who: the part of it that was called; the node's, for calls of a node's
        agent.
        """
        if self._model is not None:
            self._model.called(record, who)
        failed = record.error is not None
        (self.failed_calls if failed else self.calls)[record.rpc] += 1
        what = f"{record.rpc} {message_summary(record.request)}".rstrip()
        result = "" if failed else message_summary(record.response) or "OK"
        problem = str(record.error or "")
        same = f"{what} {problem}" if failed else ""
        self.happened(
            who,
            what,
            via="CSI",
            result=result,
            problem=problem,
            seconds=record.seconds,
            same=same,
            name=record.rpc,
            full=(_indented(record.request), problem or _indented(record.response)) if self._page is not None else (),
        )

    def explained(self, who: str, queue: str, key: Hashable, because: Because) -> None:
        """A controller has decided about a key, for this reason. who: the part of the plane. queue: the controller's
        name.
        """
        if self._model is not None:
            self._model.explained(who, queue, key, because, self._clock.now())

    def lost(self, node: str) -> None:
        """The power of a node was cut: nothing is mounted there any more."""
        if self._model is not None:
            self._model.lost(node)


def _indented(text: str) -> str:
    """JSON over several lines; "" stays so."""
    return msgspec.json.format(text, indent=2) if text else ""


_LINE: Final = re.compile(r'(?P<letter>[IWE])\d{4} \S+ +\d+ [^\]]+\] "(?P<message>(?:[^"\\]|\\.)*)"(?P<values>.*)')
_ESCAPED: Final = re.compile(r'\\(["\\])')
"""Escapes of the log in quoted text that are undone for people; line ends stay escaped."""
_WAITS: Final = re.compile(r" retry_in_s=\S+")
_WHO: Final = {"I": "log", "W": "warning", "E": "error"}


class LogLines(io.StringIO):
    """A stream for the log's text form: each record is told, without its own time and place; what else it has of lines,
    after it.
    """

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def write(self, text: str, /) -> int:
        line, *more = text.rstrip("\n").split("\n")
        found = _LINE.fullmatch(line)
        if found is None:
            self._story.happened("log", line)
        else:
            self._report(found)
        for one in more:
            self._story.happened("", one.expandtabs(4))
        return len(text)

    def _report(self, found: re.Match[str]) -> None:
        """A warning or an error that comes again is the same, however long it waits for its next try."""
        message, values = _ESCAPED.sub(r"\1", found["message"]), _ESCAPED.sub(r"\1", found["values"])
        waits = "".join(_WAITS.findall(values))
        same = "" if found["letter"] == "I" else f"{message}{_WAITS.sub('', values)}"
        name = f"{message.partition(':')[0]}{waits}"
        self._story.happened(_WHO[found["letter"]], f"{message}{values}", same=same, name=name)


@contextlib.contextmanager
def log_told_in(story: Story, *, verbosity: int, vmodule: str) -> Iterator[None]:
    """Log lines go to the story as long as the block runs, then to stderr again."""
    log.configure(verbosity=verbosity, vmodule=vmodule, stream=LogLines(story))
    try:
        yield
    finally:
        log.configure(verbosity=verbosity, vmodule=vmodule)
