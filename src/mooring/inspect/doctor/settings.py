"""Flags that throttle, that give up too soon, or that do not fit the driver. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.storage import CSI_NODES
from mooring.base.units import parse_duration_s
from mooring.inspect.doctor.finding import Change, Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.sidecars import Sidecar, sidecars_in
from mooring.inspect.locks import LOCKS

QPS: Final = "kube-api-qps"
BURST: Final = "kube-api-burst"
GO_QPS: Final = 5.0
QPS_MIN: Final = 20.0
"""Below this a sidecar's workers wait for the limit more than for the API server: an attach takes two to three
writes.
"""
TIMEOUT_S_MIN: Final = 10.0
WORKERS_MIN: Final = 4
LIMITED: Final = (*LOCKS, "snapshot-controller")


def settings(inventory: Inventory) -> Iterator[Finding]:
    for sidecar in sidecars_in(inventory):
        if sidecar.program in LIMITED:
            yield from _limits(sidecar)
            yield from _timeout(sidecar)
            yield from _workers(sidecar)
            yield from _gates(inventory, sidecar)


def _number(sidecar: Sidecar, name: str, default: float) -> float | None:
    """The flag's value; None for one that can't be read, as `$(QPS)`."""
    flag = sidecar.flag(name)
    try:
        return float(flag.value) if flag is not None else default
    except ValueError:
        return None


def _limits(sidecar: Sidecar) -> Iterator[Finding]:
    """The Go program's defaults throttle; Mooring's without the flags adapts to the API server. A negative one is no
    limit, and a sidecar on each node has but that node's volumes.
    """
    if sidecar.is_on("node-deployment") or (sidecar.is_ours and sidecar.flag(QPS) is None):
        return
    qps = _number(sidecar, QPS, GO_QPS)
    if qps is None or qps < 0 or qps >= QPS_MIN:
        return
    flag = sidecar.flag(QPS)
    set_ = (
        f"--{QPS}={flag.value} is set"
        if flag is not None
        else f"--{QPS} is not set, and the Go program's default is {GO_QPS:g}"
    )
    line = f"(without --{QPS} and --{BURST})" if sidecar.is_ours else f"- --{QPS}=100  # and --{BURST}=200"
    yield Finding(
        "throttling",
        Severity.WARNING,
        sidecar.about,
        f"{set_}: {sidecar.program} may send {qps or GO_QPS:g} requests a second",
        "when many pods start or move at once, each waits for all before it, up to minutes",
        Change(line, sidecar.where(flag)),
    )


def _timeout(sidecar: Sidecar) -> Iterator[Finding]:
    flag = sidecar.flag("timeout")
    if flag is None:
        return
    try:
        timeout_s = parse_duration_s(flag.value)
    except ValueError:
        return
    if timeout_s < TIMEOUT_S_MIN:
        yield Finding(
            "timeouts",
            Severity.WARNING,
            sidecar.about,
            f"--timeout={flag.value} ends each call to the driver after so short a time",
            "a slow storage makes volumes that are asked for again and again, and events say DeadlineExceeded "
            "or Aborted",
            Change("- --timeout=60s", sidecar.where(flag)),
        )


def _workers(sidecar: Sidecar) -> Iterator[Finding]:
    flag = sidecar.flag("worker-threads")
    count = _number(sidecar, "worker-threads", WORKERS_MIN)
    if flag is not None and count is not None and count < WORKERS_MIN:
        yield Finding(
            "throttling",
            Severity.ERROR if count <= 0 else Severity.WARNING,
            sidecar.about,
            f"--worker-threads={flag.value}: "
            + ("the program refuses to start" if count <= 0 else "so few calls to the driver run at once"),
            "one slow volume holds up all the others",
            Change("- --worker-threads=10", sidecar.where(flag)),
        )


def _gates(inventory: Inventory, sidecar: Sidecar) -> Iterator[Finding]:
    """Only what objects prove: Topology switched off while nodes tell topology keys, for the one driver that there
    is.
    """
    gates = sidecar.gates()
    if sidecar.program != "csi-provisioner" or gates.get("Topology") is not False:
        return
    entries = [one for node in inventory.all(CSI_NODES) for one in node.obj.spec.drivers or ()]
    drivers = {one.name for one in entries}
    if len(drivers) == 1 and any(one.topology_keys for one in entries):
        yield Finding(
            "gates",
            Severity.WARNING,
            sidecar.about,
            f"the gate Topology is off, and {drivers.pop()}, the only driver, tells topology keys on its nodes",
            "volumes are made in any zone, and pods can't reach theirs",
            Change("- --feature-gates=Topology=true", sidecar.where(sidecar.flag("feature-gates"))),
        )
