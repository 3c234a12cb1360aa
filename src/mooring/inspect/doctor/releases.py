"""Sidecars whose releases do not fit together, by the tags of their images. Pure.

Sidecars of different drivers have versions of their own, and so have those that treat no object of the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.needs import NEEDS, makes_groups
from mooring.inspect.doctor.sidecars import Sidecar, sidecars_in

SNAPSHOTS: Final = ("csi-snapshotter", "snapshot-controller")
V1_SINCE: Final = 4
"""The first release of the snapshot programs that speaks snapshot.storage.k8s.io/v1; definitions since release 6
serve nothing else.
"""


def releases(inventory: Inventory) -> Iterator[Finding]:
    go = [one for one in sidecars_in(inventory) if not one.is_ours and _major(one) is not None]
    yield from _two_of_one(go)
    snapshots = [one for one in go if one.program in SNAPSHOTS]
    for sidecar in snapshots:
        if (_major(sidecar) or V1_SINCE) < V1_SINCE:
            yield _finding(
                sidecar,
                Severity.ERROR,
                f"{sidecar.program} {sidecar.version} speaks snapshot.storage.k8s.io/v1beta1, which today's "
                "kinds do not have",
                "no snapshot is made",
            )
    yield from _halves(snapshots)


def _major(sidecar: Sidecar) -> int | None:
    found = re.match(r"v?(\d+)\.", sidecar.version)
    return int(found[1]) if found else None


def _two_of_one(sidecars: list[Sidecar]) -> Iterator[Finding]:
    """Nothing tells for certain that two of one service account serve one driver, but for the snapshot-controller."""
    first: dict[tuple[str, str, str], Sidecar] = {}
    for sidecar in sidecars:
        if sidecar.program not in NEEDS or sidecar.is_on("node-deployment"):
            continue
        is_certain = sidecar.program == "snapshot-controller"
        known = first.setdefault((sidecar.program, sidecar.item.namespace, sidecar.pods.account), sidecar)
        if known.version != sidecar.version:
            yield _finding(
                sidecar,
                Severity.WARNING if is_certain else Severity.NOTE,
                f"{sidecar.program} is {sidecar.version} here and {known.version} in the {known.item}, under "
                "one service account",
                ("" if is_certain else "if both serve one driver, ")
                + "the same object is treated in two ways, by whichever of the two comes first",
                known.container.image,
            )


def _halves(snapshots: list[Sidecar]) -> Iterator[Finding]:
    controller = next((one for one in snapshots if one.program == "snapshot-controller"), None)
    for sidecar in snapshots if controller is not None else ():
        assert controller is not None
        is_grouping = makes_groups(sidecar) or makes_groups(controller)
        if _major(sidecar) != _major(controller):
            yield _finding(
                sidecar,
                Severity.WARNING if is_grouping else Severity.NOTE,
                f"it is {sidecar.version}, and the snapshot-controller is {controller.version}: their releases "
                "belong together",
                "groups may stay half made: each half expects notes that the other does not write",
            )


def _finding(sidecar: Sidecar, severity: Severity, wrong: str, follows: str, image: str = "") -> Finding:
    name = sidecar.container.image.partition("@")[0].removesuffix(f":{sidecar.version}")
    where = sidecar.item.where(*sidecar.path("image"))
    return Finding(
        "versions", severity, sidecar.about, wrong, follows, Change(f"image: {image or f'{name}:VERSION'}", where)
    )
