"""A view made of objects, for tables of (situation, decision)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.core import SecretReference
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.sidecars.attacher.memory import Drift, Evidence, Memory, UnconfirmedPublish
from mooring.sidecars.attacher.view import ATTACHMENT_INDEXES, VOLUME_INDEXES, View
from tests.support.builders import DRIVER, typed
from tests.support.constant_store import ConstantStore


@dataclasses.dataclass(frozen=True)
class Running:
    """Calls as a test says they are."""

    in_flight: Mapping[str, str]
    is_full: bool


def facts(**changes: Any) -> DriverCapabilities:
    """The base driver: it publishes, also read-only."""
    return DriverCapabilities(**{"name": DRIVER, "publishes": True, "publishes_readonly": True, **changes})


def a_view(
    *,
    vas: Iterable[Mapping[str, Any]] = (),
    pvs: Iterable[Mapping[str, Any]] = (),
    nodes: Iterable[Mapping[str, Any]] = (),
    driver: DriverCapabilities | None = None,
    drift: Mapping[str, Drift] | None = None,
    in_flight: Mapping[str, str] | None = None,
    calls_full: bool = False,
    default_fs_type: str = "ext4",
    finalizer_unknown: Mapping[str, str] | None = None,
    unconfirmed_publishes: Iterable[UnconfirmedPublish] = (),
    orphaned: Iterable[UnconfirmedPublish] = (),
    secret_at_hand: Mapping[str, SecretReference] | None = None,
    being_read: Iterable[SecretReference] = (),
) -> View:
    """orphaned: unconfirmed publishes whose attachments have vanished. secret_at_hand: by the attachment's name."""
    memory = Memory()
    for name, ref in (secret_at_hand or {}).items():
        memory.secrets.begin(ref)
        memory.secrets.succeeded(name, ref, {})
        memory.secrets.end(ref)
    for ref in being_read:
        memory.secrets.begin(ref)
    memory.drift.update(drift or {})
    memory.finalizers_unknown.update((finalizer_unknown or {}).values())
    for unconfirmed in (*unconfirmed_publishes, *orphaned):
        memory.mark_unconfirmed(unconfirmed)
    for unconfirmed in orphaned:
        memory.observe(unconfirmed.attachment.metadata.name, Evidence.VANISHED)
    return View(
        driver=driver or facts(),
        attachments=ConstantStore(map(typed, vas), ATTACHMENT_INDEXES),
        volumes=ConstantStore(map(typed, pvs), VOLUME_INDEXES),
        nodes=ConstantStore(map(typed, nodes)),
        calls=Running(in_flight or {}, calls_full),
        default_fs_type=default_fs_type,
        memory=memory,
    )
