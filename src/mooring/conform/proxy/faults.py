"""The faults of a script, and those that somebody asks for meanwhile; and the choice of one for a call. Pure: the same
calls in the same order get the same faults.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from google.protobuf.message import Message

from mooring.base.randomness import Random
from mooring.base.units import format_duration
from mooring.conform.call.names import is_ours
from mooring.csi.redact import is_map
from mooring.wire.grpc.codes import Code, go_name


class Kind(enum.StrEnum):
    DELAY = "delay"
    DROP = "drop"
    FAIL = "fail"
    TWICE = "twice"
    HANG = "hang"
    CUT = "cut"


class When(enum.StrEnum):
    """On which side of the call's effect."""

    BEFORE = "before"
    AFTER = "after"


class Fault(msgspec.Struct, frozen=True):
    """What happens to a call, and to which one.

    place: `faults.yaml:4`. rpcs: names or paths of calls, as patterns. request: patterns of its fields' values, by
    path. nth: which of the calls that fit, from 1; empty for each. every: each so many-th of them. times: at most so
    often; 0 for no limit.
    """

    kind: Kind
    place: str = ""
    rpcs: tuple[str, ...] = ("*",)
    request: tuple[tuple[str, str], ...] = ()
    nth: tuple[int, ...] = ()
    every: int = 1
    times: int = 0
    probability: float = 1.0
    when: When = When.BEFORE
    seconds: float = 0.0
    code: int = Code.INTERNAL
    message: str = "made up by the proxy"
    at_once: bool = False

    def __str__(self) -> str:
        """What happens, for people."""
        match self.kind:
            case Kind.DELAY:
                return f"a delay of {format_duration(self.seconds)} {self.when} the effect"
            case Kind.DROP:
                return "the answer is dropped, after the effect"
            case Kind.FAIL:
                return f"it fails with {go_name(self.code)} {self.when} the effect"
            case Kind.TWICE:
                return "it is sent twice, at once" if self.at_once else "it is sent twice, one after the other"
            case Kind.HANG:
                return "it hangs, and does not reach the driver"
        return f"the connection is cut {self.when} the effect"


class Course(msgspec.Struct):
    """How a fault has fared. fits: calls that it was for, so far; happened: how often it was taken."""

    fault: Fault
    random: Random
    fits: int = 0
    happened: int = 0

    @property
    def is_over(self) -> bool:
        """It never happens again."""
        return 0 < self.fault.times <= self.happened


class Faults:
    """A script at work. asked: the faults that were asked for meanwhile, by their numbers."""

    def __init__(self, faults: Sequence[Fault], seed: int) -> None:
        self._seed, self._count = seed, len(faults)
        self._script = [Course(fault, self._random(number)) for number, fault in enumerate(faults)]
        self.asked: dict[int, Course] = {}

    def _random(self, number: int) -> Random:
        return Random(self._seed * 1_000_003 + number)

    def add(self, fault: Fault) -> int:
        """Asks for one more, which goes before all others. Gives its number. Those that are over are forgotten."""
        number, self._count = self._count, self._count + 1
        left = {other: course for other, course in self.asked.items() if not course.is_over}
        self.asked = {number: Course(fault, self._random(number)), **left}
        return number

    def lift(self, number: int) -> Fault | None:
        """Ends a fault that was asked for; None for one that is not there any more."""
        course = self.asked.pop(number, None)
        return course.fault if course is not None else None

    def pick(self, path: str, request: Message | None) -> Fault | None:
        """The first fault that is for this call. request: None where nobody can read it. Every fault counts the
        call.
        """
        found = None
        for course in (*self.asked.values(), *self._script):
            if _fits(course.fault, path, request) and self._is_due(course) and found is None:
                course.happened += 1
                found = course.fault
        return found

    def _is_due(self, course: Course) -> bool:
        fault = course.fault
        course.fits += 1
        drawn = course.random.happens(fault.probability)
        if fault.nth and course.fits not in fault.nth:
            return False
        return drawn and course.fits % fault.every == 0 and not course.is_over

    def counts(self) -> Iterator[tuple[Fault, int]]:
        """Each fault of the script, and how often it happened."""
        yield from ((course.fault, course.happened) for course in self._script)


def is_for(pattern: str, path: str) -> bool:
    """pattern: of a call's name, or of its path, which begins with a slash."""
    return fnmatchcase(path if pattern.startswith("/") else path.rpartition("/")[2], pattern)


def _fits(fault: Fault, path: str, request: Message | None) -> bool:
    if not any(is_for(pattern, path) for pattern in fault.rpcs):
        return False
    if not fault.request:
        return True
    return request is not None and all(
        any(fnmatchcase(text, pattern) for text in texts_at(request, field)) for field, pattern in fault.request
    )


def texts_at(message: Message, path: str) -> Iterator[str]:
    """The values at a path, as texts; those of all elements where it leads through lists."""
    name, _, below = path.partition(".")
    field: Any = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return
    value: Any = getattr(message, name)
    if is_map(field):
        if below in value:
            yield str(value[below])
        return
    for one in value if field.is_repeated else (value,):
        if field.message_type is not None and is_ours(field.message_type):
            yield from texts_at(one, below)
        elif field.message_type is not None:
            yield str(getattr(one, "value", one))
        elif field.enum_type is not None:
            known = field.enum_type.values_by_number.get(one)
            yield known.name if known is not None else str(one)
        else:
            yield str(one).lower() if isinstance(one, bool) else str(one)
