"""Questions to a PersistentVolume that several links ask."""

from __future__ import annotations

from mooring.api.core import PersistentVolume
from mooring.api.meta import Key
from mooring.api.migration import TranslationError, is_migratable, translated
from mooring.inspect.why.scene import Scene


def driver_and_handle(pv: PersistentVolume) -> tuple[str, str]:
    """Of a CSI volume, or of one that a CSI driver took over; "" for what no CSI driver has."""
    try:
        source = translated(pv).csi if is_migratable(pv.spec) else pv.spec.csi
    except TranslationError:
        source = None
    return (source.driver, source.volume_handle) if source is not None else ("", "")


def needs_attach(scene: Scene, driver: str) -> bool:
    """False for a driver whose CSIDriver says so; one without that object is attached."""
    found = scene.drivers.get(Key("", driver))
    return found is None or found.spec.attach_required is not False
