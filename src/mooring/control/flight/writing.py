"""A recorder's ring as a file: a header and one line of JSON for each entry, gzipped. It leaves out all secrets that are left."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

import mooring
from mooring.base.clock import rfc3339
from mooring.control.flight import entries
from mooring.control.flight.entries import CachedKind, Entry, Header, asked_of, message_text, selection_of
from mooring.control.flight.recorder import Recorder
from mooring.control.flight.ring import Note, Segment
from mooring.control.flight.shown import shown
from mooring.control.flight.stripping import stripped_text
from mooring.kube.cluster import Request

_NOTHING: Final = msgspec.Raw(b"null")


def frozen(
    recorder: Recorder, program: str, why: str, *, options: Mapping[str, Any], driver: Mapping[str, Any]
) -> Callable[[], bytes]:
    """The record as it is now; what it gives makes the file, also beside the loop.

    why: the cause of its being written. options, driver: what the program was made of.
    """
    ring, clock = recorder.ring, recorder.clock
    segments = [segment.copied() for segment in ring.segments()]
    now, wall_s = clock.now(), clock.wall_s()
    in_flight = [(since, what) for since, what in recorder.in_flight.values()]
    left_out, base, first = ring.left_out, ring.base, segments[0]
    watches: dict[str, tuple[str, ...]] = {
        str(number): (one.kind.resource, *selection_of(one.selection)) for number, one in recorder.watches.items()
    }

    def written() -> bytes:
        lines = list(itertools.chain.from_iterable(map(_entries, segments)))
        header = Header(
            entries.FORMAT,
            program,
            mooring.__version__,
            why,
            base is None,
            wall_s - now,
            rfc3339(wall_s),
            dict(options),
            dict(driver),
            () if base is None else tuple(_cached(*one) for one in base),
            tuple(f"{_what(what)}, for {now - since:.3f} s" for since, what in in_flight),
            len(lines),
            left_out,
            watches,
            tuple(first.reads[: first.notes[0][3]]) if first.notes else (),
        )
        encode = msgspec.json.Encoder(enc_hook=shown).encode
        return gzip.compress(b"\n".join([encode(header), *map(encode, lines), b""]), compresslevel=6, mtime=0)

    return written


def _cached(scope: Any, version: str, objects: tuple[Any, ...]) -> CachedKind:
    kind, selection = scope
    return CachedKind(
        kind.resource, selection_of(selection), version, msgspec.Raw(stripped_text(msgspec.json.encode(objects)))
    )


def _what(what: Request | str) -> str:
    return str(asked_of(what)) if isinstance(what, Request) else f"call {what}"


def _entries(segment: Segment) -> Iterator[Entry]:
    ends = [note[3] for note in segment.notes[1:]] + [len(segment.reads)]
    for note, end in zip(segment.notes, ends if segment.notes else (), strict=True):
        yield _entry(note, tuple(segment.reads[note[3] : end]))


def _entry(note: Note, reads: tuple[float, ...]) -> Entry:
    kind, t, who, _, *rest = note
    who = "" if who.startswith("Task-") else who  # a number that is another in each run
    match kind, rest:
        case entries.ANSWER, (request, answer, fault):
            return Entry(kind, t, who, asked=asked_of(request), answer=_raw(answer), fault=fault, reads=reads)
        case entries.OPENED, (number, request):
            return Entry(kind, t, who, str(number), asked=asked_of(request), rv=request.resource_version, reads=reads)
        case entries.EVENT, (number, type, rv, last, obj):
            return Entry(kind, t, who, str(number), answer=_raw(obj), type=type.value, rv=rv, last=last, reads=reads)
        case entries.ENDED, (number, fault):
            return Entry(kind, t, who, str(number), fault=fault, reads=reads)
        case entries.CALL, (attribute, request, answer, fault, redacted):
            asked = entries.Asked("call", attribute, body=redacted(request))
            told = _NOTHING if answer is None else msgspec.Raw(msgspec.json.encode(message_text(answer)))
            return Entry(kind, t, who, asked=asked, answer=told, fault=fault, reads=reads)
        case entries.GAVE_UP, (what,):
            asked = asked_of(what) if isinstance(what, Request) else entries.Asked("call", what)
            return Entry(kind, t, who, asked=asked, reads=reads)
        case entries.DECIDED, (controller, key, what):
            return Entry(
                kind,
                t,
                who,
                controller,
                shown(key),
                shown=shown(what),
                because=str(getattr(what, "because", "")),
                reads=reads,
            )
        case entries.DREW, (method, value):
            return Entry(kind, t, who, method, value=value, reads=reads)
        case entries.WALL, (value,):
            return Entry(kind, t, who, value=value, reads=reads)
        case _, (what, key):
            return Entry(kind, t, who, what, shown(key), reads=reads)
    return Entry(kind, t, who, reads=reads)


def _raw(kept: bytes) -> msgspec.Raw:
    return msgspec.Raw(stripped_text(kept))
