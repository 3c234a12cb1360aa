"""Requests of the differential run, with something of them blown up, or their bytes mixed up."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.differential.generate import sequence
from tests.differential.schemas import Schemas
from tests.differential.steps import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Step
from tests.fuzz.monsters import monster, text

_HEAD_MAX: Final = 40_000
"""Of a path, a query or a header, in bytes: above that the server takes no request at all."""
_TYPES: Final = (
    JSON,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    JSON_PATCH,
    APPLY_PATCH,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)
_QUERIES: Final = (
    *(
        "labelSelector",
        "fieldSelector",
        "continue",
        "limit",
        "resourceVersion",
        "resourceVersionMatch",
        "fieldManager",
        "dryRun",
    ),
    *("timeoutSeconds", "propagationPolicy", "gracePeriodSeconds", "fieldValidation", "force", "pretty"),
)
_SELECTORS: Final = ("a in (x,", "!a,", "a=b,", "metadata.name=x,", "a notin (", "((((", "a==", "\\,")


def attacks(seed: int, schemas: Schemas) -> Iterator[Step]:
    """A sequence, with most of its requests spoilt."""
    choice = Random(seed)
    for step in sequence(seed, schemas):
        if step.watches or choice.random() < 0.2:
            yield step
        else:
            yield _spoilt(step, choice)


def _spoilt(step: Step, choice: Random) -> Step:
    way = choice.random()
    if way < 0.1:
        longer = quote(text(choice, int(10 ** choice.uniform(0, 4.5))), safe="/")
        return dataclasses.replace(step, path=f"{step.path}/{longer[:_HEAD_MAX]}")
    if way < 0.25:
        return dataclasses.replace(step, query=(*step.query, *_queries(choice)))
    if way < 0.32:
        part = choice.choice(
            ("application/json;as=Table;v=v1;g=meta.k8s.io,", "application/yaml;q=0.1,", "*/*,", ";", "x")
        )
        return dataclasses.replace(
            step, headers=(*step.headers, ("Accept", part * choice.randrange(1, _HEAD_MAX // len(part))))
        )
    if step.body is None or isinstance(step.body, bytes):
        return step
    if way < 0.8:
        return dataclasses.replace(step, body=_blown_up(step.body, choice))
    data = json.dumps(_blown_up(step.body, choice) if choice.random() < 0.5 else step.body, default=str).encode()
    return dataclasses.replace(step, body=_mixed(data, choice), content_type=choice.choice(_TYPES))


def _queries(choice: Random) -> Iterator[tuple[str, str]]:
    for _ in range(choice.randrange(1, 4)):
        part = choice.choice((*_SELECTORS, "9", "x", "%"))
        yield choice.choice(_QUERIES), part * choice.randrange(1, _HEAD_MAX // 4 // len(part))


def _blown_up(body: Any, choice: Random) -> Any:
    """One or two of its values are monsters, or it gets one as a member."""
    whole = copy.deepcopy(body)
    for _ in range(choice.randrange(1, 3)):
        holders = [value for value in _all(whole) if isinstance(value, dict | list)]
        if not holders:
            return monster(choice)
        holder = choice.choice(holders)
        if isinstance(holder, dict):
            holder[choice.choice([*holder, "x"])] = monster(choice)
        else:
            holder[choice.randrange(len(holder) + 1) :] = [monster(choice)]
    return whole


def _all(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _all(inner)


def _mixed(data: bytes, choice: Random) -> bytes:
    """Bytes are left out, doubled, put elsewhere, or exchanged."""
    for _ in range(choice.randrange(1, 6)):
        begin = choice.randrange(len(data) + 1)
        piece = data[begin : begin + choice.randrange(1, 200)]
        match choice.randrange(4):
            case 0:
                data = data[:begin] + data[begin + len(piece) :]
            case 1:
                data = (
                    data[:begin] + piece * min(choice.randrange(2, 2000), 300_000 // max(1, len(piece))) + data[begin:]
                )
            case 2:
                at = choice.randrange(len(data) + 1)
                data = data[:at] + piece + data[at:]
            case _:
                data = data[:begin] + bytes((choice.randrange(256),)) + data[begin + 1 :]
    return data
