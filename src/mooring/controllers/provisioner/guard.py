"""What holds a data source while a volume is made from it."""

from __future__ import annotations

from typing import Protocol

from mooring.controllers.provisioner.claims.claim import Source


class SourceGuard(Protocol):
    """Finalizers on snapshots and claims that are being copied."""

    async def hold(self, source: Source, uid: str) -> None:
        """Keeps the source from being deleted. uid: of the claim that needs it. Raises ApiError."""
        ...

    def keep(self, source: Source, uid: str) -> None:
        """The same, for a source that a former process has held."""
        ...

    async def let_go(self, source: Source, uid: str) -> None:
        """The claim's volume is made, or never will be. Failures are logged: a sweep comes later."""
        ...
