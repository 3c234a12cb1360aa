"""A store as a new server has it: every kind, and the namespaces that are always there."""

from __future__ import annotations

from typing import Final

from mooring.apiserver.codec import FieldValidation, decode_object
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.rules.namespace import NAMESPACES
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.base.chance import Chance

SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def new_store(chance: Chance, now: float, limits: HistoryLimits = DEFAULT_LIMITS) -> ObjectStore:
    """now: seconds since the epoch, the namespaces' creation time."""
    store = ObjectStore(RESOURCES, chance, limits)
    for name in SYSTEM_NAMESPACES:
        body, _ = decode_object(NAMESPACES, {"metadata": {"name": name}}, FieldValidation.STRICT, [])
        store.create(NAMESPACES, body, "", now)
    return store
