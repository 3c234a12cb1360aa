"""Small objects for the tests of this room; every argument has a default."""

from __future__ import annotations

from typing import Any

from mooring.api.core import PersistentVolume
from tests.support.builders import a_pv, typed


def pv_at(
    name: str = "pv1",
    version: int | str = 1,
    *,
    uid: str = "",
    driver: str = "csi.example.com",
    claim: str = "",
    **more: Any,
) -> PersistentVolume:
    """A PersistentVolume in this version. more: as for `a_pv`."""
    source = {"csi": {"driver": driver, "volumeHandle": f"handle-of-{name}"}}
    bound = {"claimRef": {"name": claim}} if claim else {}
    return typed(a_pv(name, source=source, uid=uid or f"uid-of-{name}", resourceVersion=str(version), **bound, **more))
