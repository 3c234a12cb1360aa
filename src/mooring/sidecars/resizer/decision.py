"""The topics and actions of both controllers of the room; those of one stand in its `decide.py`."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.meta import Key
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


class LoadSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret that the call needs."""

    ref: SecretReference


class LookAtSecret(msgspec.Struct, frozen=True):
    """Fetch the Secret of an infeasible request: where it is another one than the driver had, the request is tried again."""

    ref: SecretReference


class WatchPods(msgspec.Struct, frozen=True):
    """From now on the pods are watched; whether they use the claim is not known yet."""
