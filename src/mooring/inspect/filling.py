"""Claims whose volumes are still being filled from another object. Pure."""

from __future__ import annotations

from mooring.api.meta import Key, key_of
from mooring.api.snapshot_names import SNAPSHOT_KIND
from mooring.inspect.scene import Scene
from mooring.sidecars.provisioner.model.cached import source_of


def filled_from(scene: Scene, snapshot: Key) -> tuple[Key, ...]:
    """The claims of any namespace; the snapshot controller looks for those of the snapshot's own alone."""
    wanted = SNAPSHOT_KIND, *snapshot
    waiting = ((one, source_of(one)) for one in scene.claims.values() if one.status.phase in ("", "Pending"))
    return tuple(
        sorted(
            key_of(claim)
            for claim, source in waiting
            if source is not None and (source.kind, source.namespace, source.name) == wanted
        )
    )
