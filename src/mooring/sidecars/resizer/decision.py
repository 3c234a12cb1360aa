"""A decision about one claim: actions with a reason. Both controllers of the room decide so; their actions stand in their `decide.py`."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from mooring.api.core import SecretReference
from mooring.api.meta import Key
from mooring.control.result import Because, Problem
from mooring.control.topics import Topic

# -- topics that a claim waits for


def volume_changed(pv_name: str) -> Topic:
    """The PersistentVolume has come, or is another one than it was."""
    return f"volume/{pv_name}"


def class_changed(class_name: str) -> Topic:
    """The VolumeAttributesClass has come, or is another one than it was."""
    return f"class/{class_name}"


def unused(claim: Key) -> Topic:
    """A pod uses the claim no more."""
    return f"unused/{claim}"


PODS_KNOWN: Final[Topic] = "pods"
"""The cache of pods is filled."""


# -- actions that both controllers have


@dataclasses.dataclass(frozen=True, slots=True)
class LoadSecret:
    """Fetch the Secret that the call needs."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class LookAtSecret:
    """Fetch the Secret of an infeasible request: where it is another one than the driver had, the request is tried again."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order, the first failure stops the rest; after the last there is more to decide.

    problem: it keeps the work from being done, after the actions; users are told. With actions it counts as their failure; without, it has
    to change first: one of waits_for is told, or after_s seconds are over.
    handle: of the driver's call among the actions, "" for none. target: the size or class that the call asks for.
    wants_pods: the cache of pods is needed.
    done: one line once the actions are done.
    """

    because: Because
    actions: tuple[Any, ...] = ()
    problem: Problem | None = None
    waits_for: frozenset[Topic] = frozenset()
    after_s: float | None = None
    handle: str = ""
    target: str = ""
    wants_pods: bool = False
    done: str = ""
