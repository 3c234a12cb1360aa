"""Kinds of values that the reference driver's flags have: sizes, topology, capabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Final

from mooring.api.quantity import Quantity, nearest_quantity, parse_quantity
from mooring.base.flagkinds import FlagKind


def _read_bytes(text: str) -> int:
    near = nearest_quantity(text)
    try:
        size = parse_quantity(text)
    except ValueError:
        raise ValueError(f"did you mean {near}?" if near else "no quantity") from None
    if not size.is_whole or not 0 < size.whole < 2**63:
        raise ValueError("not a whole number of bytes above zero" + (f"; did you mean {near}?" if near not in ("", text) else ""))
    return size.whole


def _show_bytes(value: int) -> str:
    return str(Quantity(Decimal(value), "binary"))


def _read_capacity(text: str) -> dict[str, int]:
    kind, _, size = text.rpartition("=")
    if "=" in text and not kind:
        raise ValueError("the kind before = is missing")
    return {kind: _read_bytes(size)}


def _read_topology(text: str) -> dict[str, dict[str, str]]:
    node_id, colon, segments = text.rpartition(":")
    pairs = [pair.partition("=") for pair in segments.split(",")]
    if not colon or any(not key or not equals for key, equals, _ in pairs):
        raise ValueError("parse error")
    return {node_id: {key: value for key, _, value in pairs}}


def _read_endpoint(text: str) -> dict[str, str]:
    node_id, equals, endpoint = text.partition("=")
    if not (node_id and equals and endpoint):
        raise ValueError("parse error")
    return {node_id: endpoint}


def capabilities(whose: str, known: Collection[str], example: str) -> FlagKind[tuple[str, ...]]:
    """Names among those that are known. whose: for the hint."""

    def read(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"there is no {unknown[0]!r}")
        return names

    hint = f"{whose} capabilities by CSI's names, as in {example}, separated by commas"
    return FlagKind("capability", read, hint, lambda _: "", merge=lambda one, more: (*one, *more))


def one_of(*words: str) -> FlagKind[str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError("parse error")
        return text

    return FlagKind("word", read, f"one of {', '.join(words)}")


CAPABILITIES: Final = (
    "CREATE_DELETE_VOLUME",
    "PUBLISH_UNPUBLISH_VOLUME",
    "LIST_VOLUMES",
    "GET_CAPACITY",
    "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS",
    "CLONE_VOLUME",
    "PUBLISH_READONLY",
    "EXPAND_VOLUME",
    "LIST_VOLUMES_PUBLISHED_NODES",
    "VOLUME_CONDITION",
    "GET_VOLUME",
    "SINGLE_NODE_MULTI_WRITER",
    "MODIFY_VOLUME",
    "GET_SNAPSHOT",
)
"""The capabilities of the reference driver's controller, by the names of CSI. Here, so that flags are read without the driver."""

NODE_CAPABILITIES: Final = ("STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME", "VOLUME_CONDITION", "SINGLE_NODE_MULTI_WRITER")
"""The same for its nodes; VOLUME_MOUNT_GROUP has a flag of its own."""

BYTES: Final[FlagKind[int]] = FlagKind("quantity", _read_bytes, "bytes as a quantity, as in 10Gi or 500M", _show_bytes)
CAPACITY: Final[FlagKind[Mapping[str, int]]] = FlagKind(
    "[kind=]quantity", _read_capacity, "bytes as a quantity, as in 10Gi or fast=10Gi", lambda _: "", merge=lambda one, more: {**one, **more}
)
TOPOLOGY: Final[FlagKind[Mapping[str, Mapping[str, str]]]] = FlagKind(
    "node:key=value,...",
    _read_topology,
    "a node's segments, as in node-1:topology.kubernetes.io/zone=a",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)
ENDPOINTS: Final[FlagKind[Mapping[str, str]]] = FlagKind(
    "node=endpoint",
    _read_endpoint,
    "a node and its socket, as in node-2=unix:///run/node-2.sock",
    lambda _: "",
    merge=lambda one, more: {**one, **more},
)
