"""Questions to a PersistentVolume that several links ask."""

from __future__ import annotations

from mooring.api.meta import Key
from mooring.inspect.scene import Scene


def needs_attach(scene: Scene, driver: str) -> bool:
    """False for a driver whose CSIDriver says so; one without that object is attached."""
    found = scene.drivers.get(Key("", driver))
    return found is None or found.spec.attach_required is not False
