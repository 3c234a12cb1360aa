"""Whether the three parts of snapshots are there together: the kinds, one controller for the cluster, a sidecar for
each driver. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.coordination import LEASES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import BARE_PODS, DEFINITIONS, WORKLOADS
from mooring.inspect.doctor.sidecars import Sidecar, sidecars_in
from mooring.inspect.locks import CONTROLLER_LOCKS, leader_of

SINGLES: Final = (VOLUME_SNAPSHOTS, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOT_CLASSES)
GROUPS: Final = (GROUP_SNAPSHOTS, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOT_CLASSES)
SOURCE: Final = "https://github.com/kubernetes-csi/external-snapshotter//client/config/crd?ref=v8.6.0"
GATE: Final = "CSIVolumeGroupSnapshot"
_CONTROLLER: Final = "https://github.com/kubernetes-csi/external-snapshotter//deploy/kubernetes/snapshot-controller"


def snapshot_parts(inventory: Inventory) -> Iterator[Finding]:
    sidecars = [one for one in sidecars_in(inventory) if one.program in ("csi-snapshotter", "snapshot-controller")]
    yield from _definitions(inventory, sidecars)
    yield from _counterpart(inventory, sidecars)


def _definitions(inventory: Inventory, sidecars: list[Sidecar]) -> Iterator[Finding]:
    """Once for each program, whatever the number of drivers."""
    if not inventory.sees(DEFINITIONS):
        return
    first = {one.program: one for one in reversed(sidecars)}
    grouped = any(one.gates().get(GATE) for one in sidecars)
    for sidecar in first.values():
        kinds = (*SINGLES, *(GROUPS if grouped else ()))
        missing = [kind.resource for kind in kinds if inventory.get(DEFINITIONS, kind.resource) is None]
        if missing:
            yield _missing(inventory, sidecar, missing)
        for kind in kinds:
            definition = inventory.get(DEFINITIONS, kind.resource)
            versions = (
                [one.name for one in definition.obj.spec.versions if one.served]
                if definition is not None
                else [kind.version]
            )
            if definition is not None and kind.version not in versions:
                yield Finding(
                    "definitions",
                    Severity.ERROR,
                    str(definition),
                    f"it serves {', '.join(versions) or 'no version'}, and {sidecar.program} needs {kind.version}",
                    f"{sidecar.program} waits for the kind, and no snapshot is made",
                    _install(inventory, definition.where("spec", "versions")),
                )


def _install(inventory: Inventory, where: str = "") -> Change:
    if inventory.of_files and where:
        return Change("- {name: v1, served: true, storage: true, ...}", where)
    return Change(f"kubectl apply -k {SOURCE}")


def _missing(inventory: Inventory, sidecar: Sidecar, resources: list[str]) -> Finding:
    named = f"CustomResourceDefinition{'s' if len(resources) > 1 else ''} {', '.join(resources)}"
    if inventory.of_files:
        wrong, severity = f"the files lack the {named}, which {sidecar.program} needs", Severity.NOTE
        follows = "in a cluster without them no snapshot is made"
    else:
        wrong, severity = f"the cluster lacks the {named}, which {sidecar.program} needs", Severity.ERROR
        follows = "no snapshot is made; some versions of the program end, and start again for ever"
    return Finding("definitions", severity, sidecar.about, wrong, follows, _install(inventory))


def _counterpart(inventory: Inventory, sidecars: list[Sidecar]) -> Iterator[Finding]:
    """A controller without any sidecar, or the reverse. A controller may run outside of what was read."""
    if not inventory.sees(*WORKLOADS, BARE_PODS):
        return
    severity = Severity.NOTE if inventory.of_files else Severity.ERROR
    here = "the files have" if inventory.of_files else "the cluster has"
    makers = [one for one in sidecars if one.program == "csi-snapshotter"]
    controllers = [one for one in sidecars if one.program == "snapshot-controller"]
    if makers and not controllers and not _leads_elsewhere(inventory):
        yield Finding(
            "snapshot-parts",
            severity,
            makers[0].about,
            f"{here} a csi-snapshotter and no snapshot-controller",
            "a VolumeSnapshot stays without a content, without an error and without an event",
            Change(f"kubectl apply -k {_CONTROLLER}"),
        )
    if controllers and not makers:
        yield Finding(
            "snapshot-parts",
            Severity.NOTE if inventory.of_files else Severity.WARNING,
            controllers[0].about,
            f"{here} a snapshot-controller and no csi-snapshotter",
            "no driver makes snapshots: each VolumeSnapshot waits for ever",
            Change(
                "- {name: csi-snapshotter, image: registry.k8s.io/sig-storage/csi-snapshotter:VERSION, ...}",
                "the driver's controller pod",
            ),
        )
    if len({str(one.item) for one in controllers}) > 1:
        others = ", ".join(sorted({str(one.item) for one in controllers}))
        yield Finding(
            "snapshot-parts",
            Severity.WARNING,
            controllers[-1].about,
            f"there are several snapshot-controllers: {others}",
            "without one Lease for all, each of them makes contents for the same snapshots",
            Change(
                f"kubectl -n {controllers[-1].item.namespace} delete {controllers[-1].item.kind.name.lower()} "
                f"{controllers[-1].item.name}"
            ),
        )


def _leads_elsewhere(inventory: Inventory) -> bool:
    """A cluster whose provider runs the controller out of sight shows its Lease."""
    leases = [one for one in inventory.all(LEASES) if one.name in CONTROLLER_LOCKS.values()]
    return any(leader_of(one.obj, inventory.now_s).is_live for one in leases)
