"""A replay as text: each decision with its reason, and the state at one of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mooring.base.clock import rfc3339
from mooring.control.flight.entries import Header
from mooring.inspect.replay.course import Replayed
from mooring.inspect.replay.director import Decided, Director
from mooring.inspect.replay.free import FreeDirector
from mooring.inspect.replay.record import Record

OBJECTS_MAX = 20
"""Of one kind, that the state shows."""


def heading(record: Record) -> str:
    """What the record is of."""
    header = record.header
    began, ended = (record.entries[0].t, record.entries[-1].t) if record.entries else (0.0, 0.0)
    lines = [
        f"{header.program} v{header.version}, recorded until {header.written_at}: {header.why}",
        f"{len(record.entries)} lines, from {rfc3339(header.began_s + began)}, over {ended - began:.1f} s; "
        + ("from the start of its work." if header.whole else _beginning(header)),
    ]
    return "\n".join([*lines, *_waiting(header.in_flight)])


def _beginning(header: Header) -> str:
    """Of a record that begins with what the caches held."""
    if header.left_out:
        return f"cut: {header.left_out} lines before it were left out."
    return "from the start of its work, with caches that had been filled while it stood by."


def _waiting(in_flight: Iterable[str]) -> Iterator[str]:
    for what in in_flight:
        yield f"Unanswered when it was written: {what}"


def line(decided: Decided, began: float, width: int) -> str:
    """One decision. began: the record's first moment."""
    head = f"{decided.number:>5} {decided.t - began:>9.3f} s  "
    text = f"{decided.controller} {decided.key.strip(chr(39))}: {decided.because or decided.shown}"
    return textwrap.fill(
        text, max(40, width), initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False
    )


def ending(record: Record, found: Replayed) -> str:
    """What the replay came to."""
    count = len(found.decisions)
    if found.departure:
        return f"The replay departs from the record after {count} decisions:\n{found.departure}"
    if not record.header.whole:
        same = f"{count} decisions, {found.same_count} of them as they were recorded."
        why = "The program was started anew on what its caches held where the record begins, so that the others may differ."
        return "\n".join([same, why, *(f"The record has no answer to: {one}" for one in found.unanswered)])
    return f"{count} decisions, the same as recorded."


def state(decided: Decided, director: Director | FreeDirector, began: float, width: int) -> str:
    """Everything about one decision: itself, what was known, and what was asked and not answered."""
    lines = [
        f"Decision {decided.number}, at {decided.t - began:.3f} s, of {decided.controller} about {decided.key}",
        f"  {decided.because}",
        "",
    ]
    lines += textwrap.wrap(
        decided.shown, max(40, width), initial_indent="  ", subsequent_indent="    ", break_long_words=False
    )
    for informer in director.informers:
        kind, _ = informer.scope
        named = [
            obj
            for obj in informer.store.values()
            if obj.metadata.name and obj.metadata.name in decided.shown + decided.key
        ]
        lines += ["", f"{kind.plural}: {len(informer.store.values())} known, at version {informer.store.version}"]
        lines += [f"  {_object(obj)}" for obj in named[:OBJECTS_MAX]]
    asked = director.unanswered()
    lines += ["", f"Unanswered: {'; '.join(asked) or 'nothing'}"]
    return "\n".join(lines)


def as_line(told: dict[str, Any]) -> str:
    """JSON on one line."""
    return msgspec.json.encode(told).decode()


def values(decided: Decided, began: float) -> dict[str, Any]:
    """One decision as JSON values. began: as for a line."""
    told = {name: getattr(decided, name) for name in ("number", "t", "controller", "key", "because", "shown")}
    return {**told, "t": round(decided.t - began, 6), "key": decided.key.strip(chr(39))}


def _object(obj: Any) -> str:
    return msgspec.json.encode(obj).decode()
