"""Requests that the driver has called infeasible: they wait for a while, unless something changes that could heal them. Pure."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.core import SecretReference
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.control.result import Because
from mooring.control.topics import Topic
from mooring.sidecars.resizer.decision import LookAtSecret
from mooring.sidecars.resizer.memory import Record

LOOK_S: Final = 30.0
"""How often the Secret of such a request is looked at: the rights of a resizer let it read Secrets, and not watch them."""


def rest_s(record: Record, target: str, now: Instant) -> float:
    """Seconds until this size or class is tried again, 0 for at once."""
    return max(0.0, record.slow_until - now) if record.slow_target == target else 0.0


def wait(
    record: Record, because: Because, rest: float, secret: SecretReference | None, waits_for: Topic, now: Instant
) -> Decision[Any]:
    """Waits for so many seconds, or for the change that waits_for tells of, or for another Secret."""
    topics = frozenset({waits_for})
    if secret is None:
        return Decision(because, waits_for=topics, after_s=rest)
    look_in_s = (
        record.looked_at + min(LOOK_S, max(1.0, record.looked_at - record.refused_at)) - now
    )  # 1, 1, 2, 4 ... 30 s apart
    actions = (LookAtSecret(secret),) if look_in_s <= 0 else ()
    return Decision(because, actions, waits_for=topics, after_s=min(rest, look_in_s))
