"""All checks, in the order of the book; those of the orchestrator come last."""

from __future__ import annotations

from typing import Final

from mooring.conform.check import Check
from mooring.conform.checks import (
    data,
    disks,
    identity,
    incomplete,
    lists,
    orchestrator,
    publishing,
    second_node,
    snapshots,
    volumes,
)

_MODULES: Final = (identity, incomplete, volumes, publishing, snapshots, data, lists, orchestrator, disks, second_node)
CHECKS: Final[tuple[Check, ...]] = tuple(check for module in _MODULES for check in module.CHAPTER.checks)
