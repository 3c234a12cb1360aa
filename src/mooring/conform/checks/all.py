"""All checks, in the order of the book; those of the orchestrator come last."""

from __future__ import annotations

from typing import Final

from mooring.conform.check import Check
from mooring.conform.checks import identity, incomplete, lists, orchestrator, publishing, snapshots, volumes

CHECKS: Final[tuple[Check, ...]] = tuple(
    check for module in (identity, incomplete, volumes, publishing, snapshots, lists, orchestrator) for check in module.CHAPTER.checks
)
