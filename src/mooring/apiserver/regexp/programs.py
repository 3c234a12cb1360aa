"""Go's regular expressions, matched without backtracking: a text is read once, whatever the expression.

Python's own backtrack, so that `(a+)+$` may take for ever. Here all paths through the expression are followed at the
same time. The set of states after a letter is cached (a lazy DFA), so that most letters cost one look-up in a dict.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.apiserver import effort
from mooring.apiserver.effort import Effort
from mooring.apiserver.regexp.syntax import Anchor, Choice, Fits, Letter, Node, RegexpError, Repeat, Sequence, parse

_SIZE_MAX: Final = 10_000
_NODES_MAX: Final = 100_000
_REMEMBERED_MAX: Final = 1000
_REMEMBERED_STEPS_MAX: Final = 20_000
"""In the states that one expression remembers, so that what it keeps of the texts that it has read stays under a
megabyte.
"""
_PARSE: Final = 15
_NEW_STEP: Final = 6
_READ_STEPS: Final = 10
_KEPT_MAX: Final = 500
_KEPT_SIZE_MAX: Final = 100_000
_MATCH: Final = 0
"""The step at which everything has been found."""


class _Step(msgspec.Struct):
    """A letter to be read, a place to be at, or a choice of ways, the preferred one first."""

    fits: Fits | None = None
    place: str = ""
    ways: tuple[int, ...] = ()


class _State(msgspec.Struct):
    """Where all ways stand after a letter, before it is known which places they are at. after: the kind of that
    letter.
    """

    at: tuple[int, ...]
    after: str
    then: dict[str, tuple[_State | None, bool]]


class GoRegexp:
    """One expression. Its making and its matching are work of the request: they raise TooMuch."""

    def __init__(self, text: str) -> None:
        self._steps, self._nodes, self._remembered, self._remembered_steps = [_Step()], 0, 0, 0
        left = effort.current()
        left.spend(_PARSE * len(text))
        self._start = self._add(parse(text), _MATCH, left)
        self._has_places = any(step.place for step in self._steps)
        self._states: dict[tuple[tuple[int, ...], str, bool], _State] = {}

    @property
    def size(self) -> int:
        """In steps, of some 200 bytes each."""
        return len(self._steps)

    def search(self, text: str) -> bool:
        """True when the expression is found anywhere in the text."""
        left, state = effort.current(), self._state((self._start,), "", anywhere=True)
        left.spend(1 + len(text) // 2)
        for letter in (*text, ""):
            following, matched = state.then.get(letter) or self._read(state, letter, left, anywhere=True)
            if matched:
                return True
            assert following is not None, "the search begins anew with each letter"
            state = following
        return False

    def find_all(self, text: str) -> Iterator[str]:
        """All matches from left to right, each as the expression prefers it; they don't overlap."""
        left, begin, end = effort.current(), 0, -1
        while begin <= len(text):
            found = self._match_at(text, begin, left)
            if found is None or (found == begin == end):  # (nothing right after what was found is not found)
                begin += 1
                continue
            yield text[begin:found]
            begin, end = (found if found > begin else begin + 1), found

    def _match_at(self, text: str, begin: int, left: Effort) -> int | None:
        """Where the match that begins here ends."""
        state: _State | None = self._state((self._start,), _kind(text[begin - 1 : begin]), anywhere=False)
        end: int | None = None
        for at in range(begin, len(text) + 1):
            assert state is not None
            letter = text[at : at + 1]
            left.spend(1)
            state, matched = state.then.get(letter) or self._read(state, letter, left, anywhere=False)
            end = at if matched else end
            if state is None:
                break
        return end

    def _read(self, state: _State, letter: str, left: Effort, *, anywhere: bool) -> tuple[_State | None, bool]:
        """One letter more, "" for the end. Gives the state after it, None when no way is left, and whether there was a
        match before it.
        """
        reached = self._reached(state, letter)
        left.spend(_READ_STEPS + len(reached))
        self._remember(len(reached))
        at: dict[int, None] = {}
        matched = False
        for number in reached:
            if number == _MATCH:
                matched = True
                break  # (the ways after this one are not preferred)
            step = self._steps[number]
            if step.fits is not None and letter and step.fits(letter):
                at[step.ways[0]] = None
        if anywhere and not matched:
            at[self._start] = None
        after = (
            self._state(tuple(sorted(at) if anywhere else at), _kind(letter), anywhere=anywhere)
            if at and (letter or anywhere)
            else None
        )
        state.then[letter] = after, matched
        return after, matched

    def _remember(self, steps: int) -> None:
        self._remembered += 1
        self._remembered_steps += steps
        if self._remembered > _REMEMBERED_MAX or self._remembered_steps > _REMEMBERED_STEPS_MAX:
            self._states.clear()
            self._remembered = self._remembered_steps = 0

    def _reached(self, state: _State, letter: str) -> dict[int, None]:
        """The letters and matches that can come next, the preferred ones first."""
        seen: dict[int, None] = {}
        for start in state.at:
            waiting = [start]
            while waiting:
                number = waiting.pop()
                if number in seen:
                    continue
                seen[number] = None
                step = self._steps[number]
                if step.fits is None and (not step.place or _is_at(step.place, state.after, _kind(letter))):
                    waiting.extend(reversed(step.ways))
        return seen

    def _state(self, at: tuple[int, ...], after: str, *, anywhere: bool) -> _State:
        key = at, after if self._has_places else "", anywhere
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = _State(at, key[1], {})
        return found

    # the expression into steps, from its end to its beginning

    def _add(self, node: Node, then: int, left: Effort) -> int:
        """Gives the first step of a node. then: the one after it."""
        self._nodes += 1
        left.spend(_NEW_STEP)
        if self._nodes > _NODES_MAX:
            raise RegexpError("expression too large")
        match node:
            case Letter(fits):
                return self._new(_Step(fits=fits, ways=(then,)))
            case Anchor(kind):
                return self._new(_Step(place=kind, ways=(then,)))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._add(part, then, left)
                return then
            case Choice(ways):
                return self._new(_Step(ways=tuple(self._add(way, then, left) for way in ways)))
            case Repeat():
                return self._add_repeat(node, then, left)

    def _add_repeat(self, node: Repeat, then: int, left: Effort) -> int:
        """As Go has it: `x{2,4}` is `xx(x(x)?)?`, and where x may be nothing, `x*` is `(x+)?`."""
        if node.most is None and not node.least and _may_be_nothing(node.part):
            once = msgspec.structs.replace(node, least=1)
            return self._add(Repeat(once, 0, 1, node.greedy), then, left)
        end, copies = then, node.least
        if node.most is None:
            then = self._new(_Step())
            first = self._add(node.part, then, left)
            self._steps[then].ways = (first, end) if node.greedy else (end, first)
            then, copies = (first, copies - 1) if copies else (then, 0)
        for _ in range((node.most or node.least) - node.least):
            first = self._add(node.part, then, left)
            then = self._new(_Step(ways=(first, end) if node.greedy else (end, first)))
        for _ in range(copies):
            then = self._add(node.part, then, left)
        return then

    def _new(self, step: _Step) -> int:
        if len(self._steps) >= _SIZE_MAX:
            raise RegexpError("expression too large")
        self._steps.append(step)
        return len(self._steps) - 1


def go_regexp(pattern: str) -> GoRegexp:
    """Raises RegexpError (a ValueError) for what is none, TooMuch."""
    found = _KEPT.get(pattern)
    if found is None:
        try:
            found = GoRegexp(pattern)
        except RegexpError as error:
            where = "" if "`" in str(error) else f": `{pattern}`"
            raise RegexpError(f"error parsing regexp: {error}{where}") from error
        _KEPT.put(pattern, found)
    return found


class _Kept:
    """The expressions that were used last, as many as have so many steps together. For the loop and the threads beside
    it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, GoRegexp] = OrderedDict()
        self._size = 0

    def get(self, pattern: str) -> GoRegexp | None:
        with self._lock:
            found = self._found.get(pattern)
            if found is not None:
                self._found.move_to_end(pattern)
            return found

    def put(self, pattern: str, found: GoRegexp) -> None:
        """Nothing, where another was quicker."""
        with self._lock:
            if pattern in self._found:
                return
            self._found[pattern] = found
            self._size += _size(pattern, found)
            while self._size > _KEPT_SIZE_MAX or len(self._found) > _KEPT_MAX:
                self._size -= _size(*self._found.popitem(last=False))


def _size(pattern: str, found: GoRegexp) -> int:
    return len(pattern) + found.size


_KEPT: Final = _Kept()


def _may_be_nothing(node: Node) -> bool:
    match node:
        case Letter():
            return False
        case Anchor():
            return True
        case Sequence(parts):
            return all(map(_may_be_nothing, parts))
        case Choice(ways):
            return any(map(_may_be_nothing, ways))
        case Repeat():
            return not node.least or _may_be_nothing(node.part)


def _kind(letter: str) -> str:
    """The kind of a letter, as far as places depend on it: "" for none, a line break, a letter of a word, or
    another.
    """
    if letter in ("", "\n"):
        return letter
    return "w" if letter.isascii() and (letter.isalnum() or letter == "_") else "."


def _is_at(place: str, before: str, after: str) -> bool:
    match place:
        case "A":
            return not before
        case "z":
            return not after
        case "^":
            return before in ("", "\n")
        case "$":
            return after in ("", "\n")
    return ((before == "w") != (after == "w")) == (place == "b")
