"""Users who want two copies of one volume at once, and have enough of one of them, and of the source, before they are
made.
"""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.sidecars.provisioner.model.cached import source_of
from tests.sim.provisioning.plan import CLAIMS_MAX, NAMESPACE
from tests.sim.provisioning.static import StaticActs


class CopyActs(StaticActs):
    async def make_two_clones(self) -> None:
        bound = [claim for claim in self._claims() if claim.status.phase == "Bound"]
        if bound and len(self._claims()) + 2 <= CLAIMS_MAX:
            source = self._one_of(bound)
            size = (source.spec.resources.requests or {}).get("storage", "1Gi")
            spec = {"kind": "PersistentVolumeClaim", "name": source.metadata.name}
            for _ in range(2):
                self._count += 1
                await self._create_claim(
                    f"c{self._count}", size, dataSource=spec, storageClassName=source.spec.storage_class_name
                )

    async def drop_clone_and_source(self) -> None:
        """The clone of a source goes that has no volume yet, and the source with it."""
        clones = [
            claim
            for claim in self._claims()
            if not claim.spec.volume_name and (source := source_of(claim)) and source.is_claim
        ]
        if clones:
            clone = self._one_of(clones)
            source = source_of(clone)
            assert source is not None
            await self._delete(PERSISTENT_VOLUME_CLAIMS, clone.metadata.name, NAMESPACE)
            await self._delete(PERSISTENT_VOLUME_CLAIMS, source.name, NAMESPACE)
