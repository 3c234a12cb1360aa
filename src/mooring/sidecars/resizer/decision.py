"""What the decisions about growing and modifying share: topics, actions, reasons, and two rules. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.meta import Key
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.control.reasons import reason
from mooring.control.result import Because, Problem
from mooring.control.topics import Topic
from mooring.sidecars.resizer.view import View

LOOK_S: Final = 30.0
"""How often the Secret of an infeasible request is looked at: the rights of a resizer let it read Secrets, and not
watch them.
"""

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


# -- actions


class LoadSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret that the call needs."""

    ref: SecretReference


class LookAtSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret of an infeasible request: where it is another one than the driver had, the request is tried
    again.
    """

    ref: SecretReference


class WatchPods(msgspec.Struct, frozen=True):
    """Watch the pods from now on; whether they use the claim is not known yet."""


# -- reasons


@reason('claim "{key}" does not exist: nothing to do')
class Gone:
    key: Key


@reason("it has no volume yet")
class NoVolume:
    pass


@reason('waits for PersistentVolume "{pv_name}"')
class VolumeMissing:
    pv_name: str


@reason("its volume is not driver {driver_name}'s: not this resizer's business")
class Foreign:
    driver_name: str


@reason("its phase is {phase}: only the volumes of bound claims grow and are modified")
class NotBound:
    phase: str


@reason("waits until {work} has ended: one call for a volume at a time")
class CallInFlight:
    #: The work that the driver is called for about this volume.
    work: str


@reason("{error}")
class BadRequest:
    """A problem: the objects can't be expressed as a CSI request."""

    error: str


# -- rules


def claim_and_volume(view: View, key: Key) -> tuple[PersistentVolumeClaim, PersistentVolume] | Decision[Any]:
    """The claim and its volume, or what follows where one of them is missing."""
    claim = view.claim(key)
    if claim is None:
        return Decision(Gone(key))
    pv_name = claim.spec.volume_name
    if not pv_name:
        return Decision(NoVolume())
    pv = view.volume(pv_name)
    if pv is None:
        return Decision(VolumeMissing(pv_name), waits_for=frozenset({volume_changed(pv_name)}))
    return claim, pv


def stuck(problem: Problem, pv: PersistentVolume, *actions: Any) -> Decision[Any]:
    """The decision on a problem that only a change of the volume, or of the claim, ends."""
    return Decision(problem, actions, problem, waits_for=frozenset({volume_changed(pv.metadata.name)}))


def rest_s(view: View, claim: PersistentVolumeClaim, target: str, now: Instant) -> float:
    """Seconds until a size or class that the driver called infeasible is tried again, 0 for at once."""
    record = view.memory.of(claim)
    return max(0.0, record.slow_until - now) if record.slow_target == target else 0.0


def wait_while_infeasible(
    view: View, claim: PersistentVolumeClaim, because: Because, rest: float, secret: SecretReference | None,
    waits_for: Topic, now: Instant,
) -> Decision[Any]:  # fmt: skip
    """Wait for so many seconds, or for a change that may heal the request: the topic's, or that of its Secret."""
    topics = frozenset({waits_for})
    if secret is None:
        return Decision(because, waits_for=topics, after_s=rest)
    record = view.memory.of(claim)
    apart_s = min(LOOK_S, max(1.0, record.looked_at - record.refused_at))  # 1, 1, 2, 4 ... 30 s
    look_in_s = record.looked_at + apart_s - now
    actions = (LookAtSecret(secret),) if look_in_s <= 0 else ()
    return Decision(because, actions, waits_for=topics, after_s=min(rest, look_in_s))
