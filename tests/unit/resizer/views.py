"""A view made of objects, for tables of (situation, decision). Sizes are GiB, written as in
docs/behaviours/resizer.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.meta import Key
from mooring.base.clock import Instant
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.store import Store
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.resizer.view import CLAIM_INDEXES, Memory, View
from tests.support.builders import DRIVER, Json, a_claim, a_pv, a_reference, typed
from tests.support.resizing import claim_status, size_of

KEY = Key("default", "claim")
UID = "uid-claim"


@dataclasses.dataclass(frozen=True)
class KnownPods:
    """Pods as a test says they are. users: None for not known."""

    users: tuple[str, ...] | None = None
    wanted_at: Instant | None = None

    def users_of(self, claim: Key) -> tuple[str, ...] | None:
        return self.users

    def want(self) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class Running:
    """Calls as a test says they are."""

    in_flight: Mapping[str, str]


def facts(**changes: Any) -> DriverCapabilities:
    """The base driver: it grows and modifies on the controller."""
    return DriverCapabilities(**{"name": DRIVER, "expands": True, "modifies": True, **changes})


def claim_body(
    spec: int | str = 1, cap: int | str | None = 1, alloc: int | str | None = None, step: str | None = None, **more: Any
) -> Json:
    """vac, annotations and volume are the claim's; all else is its status."""
    fields = {name: more.pop(name) for name in ("annotations", "volume") if name in more}
    wanted = {
        "size": size_of(spec),
        "volume": "pv",
        "uid": UID,
        "volumeAttributesClassName": more.pop("vac", None),
        **fields,
    }
    return {**a_claim("claim", **wanted), "status": claim_status(cap, alloc, step, **more)}


def pv_body(size: int | str = 1, **more: Any) -> Json:
    claim_ref = {**a_reference("claim", UID), **more.pop("claim_ref", {})}
    source = {"csi": {"driver": DRIVER, "volumeHandle": "handle", **more.pop("csi", {})}}
    return a_pv("pv", size=size_of(size), **{"source": source, "claimRef": claim_ref, **more})


def a_view(
    claim: Json | None,
    pv: Json | None,
    *,
    classes: Iterable[Json] = (),
    driver: DriverCapabilities | None = None,
    options: Mapping[str, Any] | None = None,
    pods: KnownPods | None = None,
    in_flight: Mapping[str, str] | None = None,
    remembered: Mapping[str, Any] | None = None,
) -> View:
    """remembered: of the claim, by a process that has marked it."""
    view = View(
        driver=driver or facts(),
        options=ResizerOptions(**(options or {})),
        claims=_filled([claim], CLAIM_INDEXES),
        volumes=_filled([pv]),
        classes=_filled(classes),
        pods=pods or KnownPods(),
        calls=Running(in_flight or {}),
        memory=Memory(),
    )
    if claim is not None and remembered:
        view.memory.change(typed(claim), **{"marked_from": "0", **remembered})
    return view


def _filled(bodies: Iterable[Json | None], indexes: Any = None) -> Store[Any]:
    store: Store[Any] = Store(indexes)
    for number, body in enumerate(bodies, start=1):
        if body is not None:
            store.apply(typed({**body, "metadata": {**body["metadata"], "resourceVersion": str(number)}}))
    return store
