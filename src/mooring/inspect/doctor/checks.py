"""All checks, in the order in which their subjects are named in docs/doctor.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.inspect.doctor.admission import admission
from mooring.inspect.doctor.classes import classes
from mooring.inspect.doctor.finding import Finding, in_order
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.leading import leading
from mooring.inspect.doctor.on_nodes import on_nodes
from mooring.inspect.doctor.releases import releases
from mooring.inspect.doctor.rights import missing_rights
from mooring.inspect.doctor.settings import settings
from mooring.inspect.doctor.snapshot_parts import snapshot_parts

CHECKS: Final[tuple[Callable[[Inventory], Iterator[Finding]], ...]] = (
    missing_rights,
    snapshot_parts,
    classes,
    leading,
    settings,
    on_nodes,
    releases,
    admission,
)


def findings_in(inventory: Inventory) -> list[Finding]:
    """The worst first."""
    return in_order([finding for check in CHECKS for finding in check(inventory)])
