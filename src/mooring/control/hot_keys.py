"""Keys that go round: they do what they did a moment ago, with nothing done in between. Each is held back, longer each
time.

A room that judges its work "to be done" after it was done would write, or call the driver, at full speed; so would one
whose writes undo each other in turns, and one that wakes itself when it fails. What a reconcile has done
(`base/effects.py`) is compared with the key's last ROUND reconciles, whatever versions and times its writes have. A
failure counts as something done, and so does the reason of one that asks to come again at once, or waits for what was
told meanwhile. A key that does at once what it did before goes round; from the second time in a row on it is held, and
an add meanwhile waits. If it was wanted sooner, and goes round once more, it is held twice as long: the first two runs
are free, the third holds it for 0.1 s, the fourth for 0.2 s. A key that comes back later than 0.1 s after it ended, as
a poll or a back-off does, does not go round; nor does one that has done nothing in between: once the world was as the
room wants it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from mooring.base.backoff import BackOff
from mooring.base.clock import Clock, Instant
from mooring.kube.cluster import Patch, Request

K = TypeVar("K", bound=Hashable)

ROUND: Final = 4
HELD: Final = BackOff(0.1, 10.0)
FORGOTTEN_S: Final = 2 * HELD.cap_s
"""What a key has done is forgotten after this: twice the longest time that it may be held."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
"""RFC 3339, as objects have it."""

Effects: TypeAlias = tuple[object, ...]


class _Round(msgspec.Struct):
    #: What the last ROUND reconciles have done, and when the last of them ended.
    done: tuple[Effects, ...]
    at: Instant
    #: How often in a row the key went round, and until when it is held.
    times: int = 0
    until: Instant = 0.0
    #: Whether somebody added the key while it was held.
    is_wanted: bool = False


class HotKeys(Generic[K]):
    """The keys of one controller that have done something in the last FORGOTTEN_S seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: OrderedDict[K, _Round] = OrderedDict()

    def ended(self, key: K, began: Instant, effects: Effects) -> int:
        """Note what a reconcile has done. Return how often in a row the key has been held, 0 where it is not."""
        before = self._rounds.pop(key, None)
        if not effects:
            return 0
        now = self._clock.now()
        while self._rounds and now - next(iter(self._rounds.values())).at > FORGOTTEN_S:
            self._rounds.popitem(last=False)
        if before is None or now - before.at > FORGOTTEN_S:
            self._rounds[key] = _Round((effects,), now)
            return 0
        after = _Round((*before.done[1 - ROUND :], effects), now)
        is_soon = before.is_wanted or began - before.at < HELD.base_s
        if is_soon and any(_is_same(effects, other) for other in before.done):
            after.times = before.times + 1
        held = max(0, after.times - 1)
        if held:
            after.until = now + HELD.delay_s(held)
        self._rounds[key] = after
        return held

    def left_s(self, key: K) -> float:
        """Seconds until the key, which is wanted, may be worked on; 0 for at once."""
        found = self._rounds.get(key)
        if found is None or (left_s := found.until - self._clock.now()) <= 0.0:
            return 0.0
        found.is_wanted = True
        return left_s

    def forget(self, key: K) -> None:
        """The object is gone: another of its name has done nothing yet."""
        self._rounds.pop(key, None)


def _is_same(one: Effects, other: Effects) -> bool:
    return len(one) == len(other) and all(_shape(left) == _shape(right) for left, right in zip(one, other, strict=True))


def _shape(effect: object) -> object:
    """A write without the version that it was meant for, and without times: each answer gives the next write another
    version, and each second gives a condition another time.
    """
    if not isinstance(effect, Request):
        return effect
    body = effect.body.body if isinstance(effect.body, Patch) else effect.body
    return effect.verb, effect.place, effect.namespace, _without(body, _version_in(body))


def _version_in(body: Any) -> str:
    """The version that a write is meant for, "" for any."""
    if isinstance(body, list):
        return next((step.get("value", "") for step in body if step.get("path") == "/metadata/resourceVersion"), "")
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return metadata.get("resourceVersion", "") if isinstance(metadata, Mapping) else ""


def _without(value: Any, version: str) -> Any:
    """The value with "" in place of each time, and of the version: a fence notes it in an annotation, too."""
    if isinstance(value, Mapping):
        return {name: _without(one, version) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without(one, version) for one in value]
    return "" if isinstance(value, str) and (value == version or _TIME.fullmatch(value)) else value
