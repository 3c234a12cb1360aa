"""All checks, in the order in which their subjects are named in docs/doctor.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.inspect.doctor.admission import admission
from mooring.inspect.doctor.classes import classes
from mooring.inspect.doctor.finding import Change, Finding, Severity, in_order
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.leading import leading
from mooring.inspect.doctor.on_nodes import on_nodes
from mooring.inspect.doctor.releases import releases
from mooring.inspect.doctor.rights import missing_rights
from mooring.inspect.doctor.settings import settings
from mooring.inspect.doctor.snapshot_parts import snapshot_parts


def unread(inventory: Inventory) -> Iterator[Finding]:
    """Files, and objects in them, that are no manifests."""
    for error in inventory.unread:
        where, _, why = str(error).partition(": ")
        yield Finding(
            "files",
            Severity.ERROR,
            where,
            why,
            "it is not judged, and what it gives to the others is not known",
            Change("(what kubectl apply --dry-run=client takes)", where),
        )


CHECKS: Final[tuple[Callable[[Inventory], Iterator[Finding]], ...]] = (
    unread,
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
