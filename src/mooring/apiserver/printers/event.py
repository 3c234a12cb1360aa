"""Events, of both groups: they show the same columns under other names of their fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.printers import column
from mooring.apiserver.printers.column import NAME, Cell, Column, at, plain
from mooring.apiserver.resource import Json


def _first_seen(first: str) -> Cell:
    return lambda event, now: column.age_of(event.get(first) or event.get("eventTime"), now)


def _last_seen(first: str, last: str) -> Cell:
    def cell(event: Json, now: float) -> str:
        series = event.get("series")
        seen = event.get(last) or event.get(first) or event.get("eventTime")
        return column.age_of(series.get("lastObservedTime") if series else seen, now)

    return cell


def _count(count: str) -> Callable[[Json], Any]:
    return lambda event: event["series"].get("count", 0) if event.get("series") else event.get(count) or 1


def _about(about: str) -> Callable[[Json], str]:
    def show(event: Json) -> str:
        kind, name = event[about].get("kind", "").lower(), event[about].get("name", "")
        return f"{kind}/{name}" if name else kind

    return show


def _source(source: str, controller: str) -> Callable[[Json], str]:
    def show(event: Json) -> str:
        given = event.get(source) or {}
        component = given.get("component") or event.get(controller, "")
        host = given.get("host") or event.get("reportingInstance", "")
        return f"{component}, {host}" if host else component

    return show


def _columns(*, about: str, message: str, source: str, controller: str, first: str, last: str, count: str) -> tuple[Column, ...]:
    return (
        Column("Last Seen", _last_seen(first, last), "How long ago it happened last."),
        Column("Type", at("type"), "Normal or Warning."),
        Column("Reason", at("reason"), "Why, in a word."),
        Column("Object", plain(_about(about)), "What it is about."),
        Column("Subobject", at(about, "fieldPath"), "Which part of it.", priority=1),
        Column("Source", plain(_source(source, controller)), "Who tells.", priority=1),
        Column("Message", plain(lambda event: event.get(message, "").strip()), "What happened."),
        Column("First Seen", _first_seen(first), "How long ago it happened first.", priority=1),
        Column("Count", plain(_count(count)), "How often it happened.", priority=1),
        Column("Name", NAME.cell, NAME.description, format="name", priority=1),
    )


EVENT: Final = _columns(
    about="involvedObject",
    message="message",
    source="source",
    controller="reportingComponent",
    first="firstTimestamp",
    last="lastTimestamp",
    count="count",
)
NEW_EVENT: Final = _columns(
    about="regarding",
    message="note",
    source="deprecatedSource",
    controller="reportingController",
    first="deprecatedFirstTimestamp",
    last="deprecatedLastTimestamp",
    count="deprecatedCount",
)
