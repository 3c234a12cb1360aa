"""All checks, in the order of the book; those of the orchestrator come last."""

from __future__ import annotations

from typing import Final

from mooring.conform.check import Check
from mooring.conform.checks import disks, identity, incomplete, lists, orchestrator, publishing, snapshots, volumes

_MODULES: Final = (identity, incomplete, volumes, publishing, snapshots, lists, orchestrator, disks)
CHECKS: Final[tuple[Check, ...]] = tuple(check for module in _MODULES for check in module.CHAPTER.checks)
