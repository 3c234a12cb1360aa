"""The proofs for a step that can't be taken back, and the objections to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """A fact that was seen, and speaks for the step."""

    text: str


class Objection(msgspec.Struct, frozen=True):
    """A reason against the step. way_out: what to do about it."""

    text: str
    way_out: str


Point = Proof | Objection


def proofs_in(points: Iterable[Point]) -> tuple[Proof, ...]:
    return tuple(one for one in points if isinstance(one, Proof))


def objections_in(points: Iterable[Point]) -> tuple[Objection, ...]:
    return tuple(one for one in points if isinstance(one, Objection))


def rows_of(points: Iterable[Point]) -> list[tuple[str, str]]:
    """The points in rows for people: a word, and a sentence."""
    rows: list[tuple[str, str]] = []
    for point in points:
        if isinstance(point, Objection):
            rows += [("against", point.text), ("first", point.way_out)]
        else:
            rows.append(("proved", point.text))
    return rows
