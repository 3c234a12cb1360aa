"""Leaders that do not renew, and replicas that all act at once. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Final

from mooring.api.coordination import LEASES
from mooring.api.names import sanitised
from mooring.api.storage import CSI_DRIVERS
from mooring.base.clock import rfc3339
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.sidecars import Pods, Sidecar, sidecars_in
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, TOGETHER, leader_of

ELECTING: Final = (*LOCKS, "snapshot-controller")


def leading(inventory: Inventory) -> Iterator[Finding]:
    sidecars = [one for one in sidecars_in(inventory) if one.program in ELECTING]
    yield from _silent(inventory)
    for sidecar in sidecars:
        yield from _alone(sidecar)


def _silent(inventory: Inventory) -> Iterator[Finding]:
    """Leases that their holders do not renew. A Lease is known by its name: the provisioner's has its driver's name
    alone, which a CSIDriver tells.
    """
    drivers = {one.name for one in inventory.all(CSI_DRIVERS)}
    own = {LOCKS["csi-provisioner"].format(sanitised(driver)) for driver in drivers}
    patterns = [lock.format("*") for name, lock in LOCKS.items() if name != "csi-provisioner"]
    patterns += [TOGETHER.format("*"), *CONTROLLER_LOCKS.values()]
    for item in inventory.all(LEASES):
        if item.name not in own and not any(fnmatch.fnmatchcase(item.name, one) for one in patterns):
            continue
        held = leader_of(item.obj, inventory.now_s)
        if held.is_live:
            continue
        last = f", last by {held.holder}" if held.holder else ""
        renewed = f"since {rfc3339(held.renewed_s)}" if held.renewed_s else "ever"
        yield Finding(
            "leaders",
            Severity.ERROR,
            str(item),
            f"nobody has renewed it {renewed}{last}: its sidecar does not run, or can't reach the API server",
            "what that sidecar does for users waits until it runs",
            Change(f"kubectl -n {item.namespace} get pods -o wide"),
        )


def _alone(sidecar: Sidecar) -> Iterator[Finding]:
    """A sidecar whose replicas all act. With --node-deployment those of all nodes share the work instead."""
    if sidecar.is_on("leader-election") or sidecar.pods.replicas < 2 or sidecar.is_on("node-deployment"):
        return
    yield Finding(
        "leaders",
        Severity.ERROR,
        sidecar.about,
        f"{_many(sidecar.pods)} run {sidecar.program} without leader election",
        "all of them act at once: volumes are made twice, and one undoes what another did",
        Change("- --leader-election", sidecar.where()),
    )


def _many(pods: Pods) -> str:
    return "the pods of all nodes" if pods.item.kind.name == "DaemonSet" else f"{pods.replicas} replicas"
