"""The time that volumes have waited on a dead node, written down on the Node, so that a restart goes on with it. Pure.

It is written in quarters of the wait: a restart may lose one, and never shortens the wait. The controller compares no clocks: the
annotation holds for one silence of the node, which the lastTransitionTime of its Ready condition identifies. Without that time nothing is
written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.core import Node
from mooring.api.nodes import is_ready
from mooring.base.clock import Instant
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import WAITED
from mooring.cluster.attachdetach.release import Rules, hold_of, may_be_forced

QUARTERS: Final = 4
LEAST_S: Final = 0.001
"""Between two looks, so that a quarter that is over but for a rounding error brings no second look at the same instant."""


class _Note(msgspec.Struct, frozen=True):
    """silent_since: the transition. seconds: by the volume's name in a Node's status."""

    silent_since: str
    seconds: dict[str, float]


def written_on(node: Node | None) -> str:
    return "" if node is None else (node.metadata.annotations or {}).get(WAITED, "")


def waited_before(node: Node | None) -> Mapping[str, float]:
    """Seconds by volume, as far as they were in the silence that lasts. Nothing for a note that can't be read."""
    if node is None or not written_on(node):
        return {}
    try:
        note = msgspec.json.decode(written_on(node), type=_Note)
    except msgspec.MsgspecError:
        return {}
    is_this_silence = not is_ready(node) and note.silent_since != "" and note.silent_since == silent_since(node)
    return note.seconds if is_this_silence and all(seconds >= 0 for seconds in note.seconds.values()) else {}


def quarters_s(volume: Volume, place: Place, rules: Rules, now: Instant) -> tuple[float, float | None]:
    """The quarters of its wait that are over, in seconds, and seconds until one more is. (0.0, None) where no forced detach is to come."""
    hold, wait_s = hold_of(volume, place, rules, now), rules.wait_s(volume)
    if place.is_wanted or not volume.handle or not place.node.is_marked or not may_be_forced(hold) or not wait_s:
        return 0.0, None
    waited_s = wait_s - hold.in_s
    over = math.floor(QUARTERS * waited_s / wait_s)
    return round(over * wait_s / QUARTERS, 3), max(LEAST_S, (over + 1) * wait_s / QUARTERS - waited_s)


def note_of(
    node: Node, volumes: Iterable[Volume], rules: Rules, now: Instant, stale: Collection[str] | None = None
) -> str:
    """The annotation's text, "" for none. stale: the volumes that are looked at anew; the others stay as they are. None for all."""
    places = ((volume, volume.places[node.metadata.name]) for volume in volumes if node.metadata.name in volume.places)
    found = {volume.unique: quarters_s(volume, place, rules, now)[0] for volume, place in places}
    kept = (
        {}
        if stale is None
        else {unique: over_s for unique, over_s in waited_before(node).items() if unique not in stale}
    )
    seconds = kept | {unique: over_s for unique, over_s in found.items() if over_s}
    since = silent_since(node)
    return msgspec.json.encode(_Note(since, seconds), order="sorted").decode() if seconds else ""


def silent_since(node: Node) -> str:
    """The last transition of a Ready condition that is not True."""
    found = (one for one in node.status.conditions or () if one.type == "Ready" and one.status != "True")
    return next((one.last_transition_time or "" for one in found), "")
