"""A report on what a removed driver left as a table for people, or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mooring.base.text import visible
from mooring.inspect.left_behind import HeldObject, LeftBehind, finalizer_of
from mooring.inspect.render import aligned, counted

_HEADS: Final = ("KIND", "NAME", "VOLUME", "NODE", "WHY")

Outcomes = Mapping[tuple[str, str], str]
"""For what was to be released: what kept it from that, "" for nothing."""


def as_json(report: LeftBehind, outcomes: Outcomes) -> str:
    body = {
        "driver": report.driver,
        "finalizer": finalizer_of(report.driver),
        "obstacles": [{"what": one.text, "wayOut": one.way_out} for one in report.obstacles],
        "held": [_entry(one, outcomes) for one in report.held],
    }
    return json.dumps(body, indent=2) + "\n"


def _entry(one: HeldObject, outcomes: Outcomes) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": one.kind, "name": one.name}
    optional = {
        "volumeHandle": one.volume,
        "node": one.node,
        "kept": one.kept,
        "wayOut": one.way_out,
        "otherFinalizers": list(one.others),
    }
    entry.update({name: value for name, value in optional.items() if value})
    if one.key in outcomes:
        entry["released"] = not outcomes[one.key]
        if outcomes[one.key]:
            entry["problem"] = outcomes[one.key]
    return entry


def as_table(report: LeftBehind, outcomes: Outcomes) -> str:
    rows = [_row(report, one, outcomes) for one in report.held]
    text = aligned([_HEADS, *(tuple(map(visible, row)) for row in rows)]) if rows else ""
    gone = sum(not problem for problem in outcomes.values())
    kept = sum(bool(one.kept) for one in report.held)
    rest = len(report.held) - kept - gone
    released = f", {gone} released" if gone else ""
    may = (
        f", {rest} may go once the driver is gone" if report.obstacles and rest else f", {rest} may go" if rest else ""
    )
    obstacles = "".join(
        f"  not gone: {visible(one.text)}\n    first: {visible(one.way_out)}\n" for one in report.obstacles
    )
    return f"{text}{visible(report.driver)}: {counted(len(report.held), 'object')} held{released}, {kept} kept{may}\n{obstacles}"


def _row(report: LeftBehind, one: HeldObject, outcomes: Outcomes) -> tuple[str, ...]:
    others = f"; then still held by {', '.join(one.others)}" if one.others else ""
    if one.key in outcomes:
        why = outcomes[one.key] or f"released{others}"
    elif one.kept:
        why = f"kept: {one.kept}; {one.way_out}"
    else:
        why = f"nothing speaks against it but the driver itself{others}" if report.obstacles else f"may go{others}"
    return one.kind, one.name, one.volume, one.node, why
