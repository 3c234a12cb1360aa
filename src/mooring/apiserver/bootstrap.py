"""A store as a server begins with it: every kind, and the namespaces that are always there."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.meta import Key
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.custom.definitions import Definitions
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.rules.event import TTL_S as EVENT_TTL_S
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.base.randomness import Random

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def bare_store(
    randomness: Random, limits: HistoryLimits = DEFAULT_LIMITS, *, event_ttl_s: float = EVENT_TTL_S
) -> tuple[ObjectStore, Definitions]:
    """A store without objects, and what serves custom kinds in it. event_ttl_s: how long Events live after their last
    write.
    """
    lives = [
        dataclasses.replace(resource, ttl_s=event_ttl_s) if resource.ttl_s is not None else resource
        for resource in RESOURCES
    ]
    store = ObjectStore(lives, randomness, limits)
    return store, Definitions(store)


def new_store(
    randomness: Random, now: float, limits: HistoryLimits = DEFAULT_LIMITS, *, event_ttl_s: float = EVENT_TTL_S
) -> ObjectStore:
    """now: seconds since the epoch, the namespaces' creation time."""
    store, _ = bare_store(randomness, limits, event_ttl_s=event_ttl_s)
    add_system_objects(store, now)
    return store


def add_system_objects(store: ObjectStore, now: float) -> None:
    """Creates the missing system objects."""
    for name in SYSTEM_NAMESPACES:
        if store.table(NAMESPACES).get(Key("", name)) is None:
            body, _ = decode_object(NAMESPACES, {"metadata": {"name": name}}, FieldValidation.STRICT, [])
            store.create(NAMESPACES, body, "", now)
