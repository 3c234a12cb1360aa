"""Moments that the flight record of one of Mooring's programs tells: its decisions, and the answers of the driver. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mooring.control.flight import entries
from mooring.control.flight.entries import Entry
from mooring.csi.driver import RPCS
from mooring.inspect.replay.record import Record
from mooring.inspect.timeline.traces import Lane, Moment, Source
from mooring.wire.grpc.codes import go_name

_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "csi-attacher-va": ("volumeattachment",),
    "csi-attacher-pv": ("pv",),
    "claims": ("pvc",),
    "volumes": ("pv",),
    "attachdetach-volumes": ("pv",),
    "attachdetach-nodes": ("node",),
    "attachdetach-pods": ("pod",),
    "scheduler": ("pod",),
    "pvcprotection": ("pvc",),
    "pvprotection": ("pv",),
    "snapshot-controller-claim": ("pvc",),
    "snapshot-controller-content": ("volumesnapshotcontent",),
}
"""The kinds of the keys of a queue, where other kinds may have objects of the same names."""


def recorded(record: Record, lanes: Iterable[Lane], others: Mapping[str, str]) -> Iterator[Moment]:
    """others: further names of lanes, as a volume's in a Node's status, with their labels. A decision that is made again is left out."""
    names: dict[tuple[str, str], str] = {(lane.kind, lane.name): lane.label for lane in lanes}
    program, began_s = record.header.program, record.header.began_s
    in_hand: dict[str, str] = {}  # lanes by task
    last: dict[tuple[str, str], str] = {}
    for entry in record.entries:
        at_s = began_s + entry.t
        match entry.kind:
            case entries.BEGUN | entries.DECIDED:
                label = others.get(key := _key_of(entry)) or _label(names, entry.what, key)
                in_hand[entry.who] = label
                if entry.kind == entries.DECIDED and label and last.get((entry.what, key)) != entry.because:
                    last[entry.what, key] = entry.because
                    yield Moment(at_s, label, Source.RECORD, f"decided: {entry.because}", program)
            case entries.CALL if label := in_hand.get(entry.who, ""):
                yield Moment(at_s, label, Source.RECORD, _answer(entry), program, is_bad=entry.fault is not None)


def _key_of(entry: Entry) -> str:
    """As a lane names its object. "" for a key that is none."""
    try:
        value = ast.literal_eval(entry.key)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value):
        return "/".join(filter(None, value))
    return value if isinstance(value, str) else ""


def _label(names: Mapping[tuple[str, str], str], queue: str, key: str) -> str:
    """The lane of a key; "" for an object that is not of the chain."""
    found = ((kind, label) for (kind, name), label in names.items() if name == key)
    return next((label for kind, label in found if queue not in _KINDS or kind in _KINDS[queue]), "")


def _answer(entry: Entry) -> str:
    call = RPCS[entry.asked.resource].name if entry.asked is not None and entry.asked.resource in RPCS else "a call"
    if entry.fault is None:
        return f"heard from the driver that {call} is done"
    return f"heard from the driver that {call} failed: {go_name(entry.fault.code)}: {entry.fault.text}"
