"""Pods (the state of their containers in one word), Nodes, and Events of both groups, which have other names for the
same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.apiserver.printers import column
from mooring.apiserver.printers.column import NAME, NONE, UNKNOWN, Cell, Column, is_deleted, plain, table
from mooring.apiserver.resource import Json

_OVER: Final = ("Succeeded", "Failed")


class _Restarts(msgspec.Struct):
    """The number of container restarts, and the time of the last termination."""

    count: int = 0
    last: str = ""

    def add(self, container: Json) -> None:
        self.count += container.get("restartCount", 0)
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        self.last = max(self.last, ended or "")

    def shown(self, now: float) -> str:
        return f"{self.count} ({column.age_of(self.last, now)} ago)" if self.count and self.last else str(self.count)


class _Summary(msgspec.Struct):
    reason: str
    ready: int = 0
    restarts: _Restarts = msgspec.field(default_factory=_Restarts)


def _summary(pod: Json) -> _Summary:
    status = pod["status"]
    found = _Summary(_first_reason(status))
    sidecars = {name for name, container in _init_containers(pod).items() if container.get("restartPolicy") == "Always"}
    of_sidecars = _Restarts()
    initializing = False
    for number, container in enumerate(status.get("initContainerStatuses") or ()):
        found.restarts.add(container)
        if container["name"] in sidecars:
            of_sidecars.add(container)
        if (_terminated(container) or {}).get("exitCode", 1) == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            found.ready += bool(container.get("ready"))
            continue
        found.reason, initializing = _init_reason(container, number, len(_init_containers(pod))), True
        break
    if not initializing or _has(status, "Initialized"):
        found.restarts = of_sidecars
        _look_at_containers(found, status)
    if is_deleted(pod):
        found.reason = _deleted_reason(status, found.reason)
    return found


def _look_at_containers(found: _Summary, status: Json) -> None:
    running = False
    for container in reversed(status.get("containerStatuses") or ()):
        found.restarts.add(container)
        reason = _reason(container)
        if reason:
            found.reason = reason
        elif container.get("ready") and "running" in (container.get("state") or {}):
            running = True
            found.ready += 1
    if found.reason == "Completed" and running:
        found.reason = "Running" if _has(status, "Ready") else "NotReady"


def _first_reason(status: Json) -> str:
    if any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in _conditions(status)
    ):
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", ""))


def _deleted_reason(status: Json, reason: str) -> str:
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in _OVER else "Terminating"


def _init_reason(container: Json, number: int, total: int) -> str:
    ended = _terminated(container)
    if ended is not None:
        return f"Init:{_end(ended)}"
    waiting = _waiting_for(container)
    return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{number}/{total}"


def _reason(container: Json) -> str:
    """The reason why a container does not run; "" for none known."""
    waiting, ended = _waiting_for(container), _terminated(container)
    return waiting or (_end(ended) if ended is not None else "")


def _end(ended: Json) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _terminated(container: Json) -> Any:
    return (container.get("state") or {}).get("terminated")


def _waiting_for(container: Json) -> str:
    return str(((container.get("state") or {}).get("waiting") or {}).get("reason", ""))


def _init_containers(pod: Json) -> dict[str, Json]:
    return {container["name"]: container for container in pod["spec"].get("initContainers") or ()}


def _conditions(status: Json) -> Iterable[Json]:
    return status.get("conditions") or ()


def _has(status: Json, kind: str) -> bool:
    return any(condition["type"] == kind and condition["status"] == "True" for condition in _conditions(status))


def _ready(pod: Json) -> str:
    sidecars = sum(container.get("restartPolicy") == "Always" for container in _init_containers(pod).values())
    return f"{_summary(pod).ready}/{len(pod['spec'].get('containers') or ()) + sidecars}"


def _gates(pod: Json) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    return f"{sum(_has(pod['status'], gate['conditionType']) for gate in gates)}/{len(gates)}" if gates else NONE


def _ip(pod: Json) -> Any:
    ips = pod["status"].get("podIPs") or ()
    return ips[0].get("ip") or NONE if ips else NONE


def row_conditions(pod: Json) -> list[Json]:
    """The conditions of a pod's row, once the pod is over."""
    phase = pod["status"].get("phase")
    if phase not in _OVER:
        return []
    text = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": text}]


POD: Final = table(
    """
    Name
    Ready             ready      How many of its containers are ready.
    Status            reason     What becomes of its containers.
    Restarts          restarts   How often its containers began anew, and when last.
    Age
    IP*               ip         Its address.
    Node*             node       Where it runs.
    Nominated Node*   nominated  Where it will run, once others have gone.
    Readiness Gates*  gates      How many of the conditions that it waits for are true.
    """,
    ready=plain(_ready),
    reason=plain(lambda pod: _summary(pod).reason),
    restarts=lambda pod, now: _summary(pod).restarts.shown(now),
    ip=plain(_ip),
    node=plain(lambda pod: pod["spec"].get("nodeName") or NONE),
    nominated=plain(lambda pod: pod["status"].get("nominatedNodeName") or NONE),
    gates=plain(_gates),
)


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _status(node: Json) -> str:
    ready = [
        condition["status"] for condition in node["status"].get("conditions") or () if condition["type"] == "Ready"
    ]
    shown = ["Ready" if ready[-1] == "True" else "NotReady"] if ready else ["Unknown"]
    return ",".join([*shown, "SchedulingDisabled"] if node["spec"].get("unschedulable") else shown)


def _roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    found = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)} | {
        labels.get(_ROLE, "")
    }
    return ",".join(sorted(found - {""})) or NONE


def _address(kind: str) -> Cell:
    def show(node: Json) -> Any:
        addresses = node["status"].get("addresses") or ()
        return next((address["address"] for address in addresses if address["type"] == kind), NONE)

    return plain(show)


def _info(part: str) -> Cell:
    return plain(lambda node: node["status"]["nodeInfo"][part] or UNKNOWN)


def _kernel(node: Json) -> str:
    info = node["status"]["nodeInfo"]
    version = info["kernelVersion"] or UNKNOWN
    return f"{version} ({info['architecture']})" if info["architecture"] else version


NODE: Final = table(
    """
    Name
    Status              status    Whether the node is ready, and takes pods.
    Roles               roles     What the node is for.
    Age
    Version             .status.nodeInfo.kubeletVersion  The kubelet's version.
    Internal-IP*        inner     Its address inside of the cluster.
    External-IP*        outer     Its address outside of the cluster.
    OS-Image*           system    The operating system.
    Kernel-Version*     kernel    The kernel, and the machine's architecture.
    Container-Runtime*  runtime   What runs the containers.
    """,
    status=plain(_status),
    roles=plain(_roles),
    inner=_address("InternalIP"),
    outer=_address("ExternalIP"),
    system=_info("osImage"),
    kernel=plain(_kernel),
    runtime=_info("containerRuntimeVersion"),
)


def _first_seen(first: str) -> Cell:
    return lambda event, now: column.age_of(event.get(first) or event.get("eventTime"), now)


def _last_seen(first: str, last: str) -> Cell:
    def cell(event: Json, now: float) -> str:
        series = event.get("series")
        seen = event.get(last) or event.get(first) or event.get("eventTime")
        return column.age_of(series.get("lastObservedTime") if series else seen, now)

    return cell


def _count(count: str) -> Callable[[Json], Any]:
    return lambda event: event["series"].get("count", 0) if event.get("series") else event.get(count) or 1


def _about(about: str) -> Callable[[Json], str]:
    def show(event: Json) -> str:
        kind, name = event[about].get("kind", "").lower(), event[about].get("name", "")
        return f"{kind}/{name}" if name else kind

    return show


def _source(source: str, controller: str) -> Callable[[Json], str]:
    def show(event: Json) -> str:
        given = event.get(source) or {}
        component = given.get("component") or event.get(controller, "")
        host = given.get("host") or event.get("reportingInstance", "")
        return f"{component}, {host}" if host else component

    return show


def _columns(
    *, about: str, message: str, source: str, controller: str, first: str, last: str, count: str
) -> tuple[Column, ...]:
    return (
        *table(
            f"""
            Last Seen    last     How long ago it happened last.
            Type         .type    Normal or Warning.
            Reason       .reason  Why, in a word.
            Object       about    What it is about.
            Subobject*   .{about}.fieldPath  Which part of it.
            Source*      source   Who tells.
            Message      message  What happened.
            First Seen*  first    How long ago it happened first.
            Count*       count    How often it happened.
            """,
            last=_last_seen(first, last),
            about=plain(_about(about)),
            source=plain(_source(source, controller)),
            message=plain(lambda event: event.get(message, "").strip()),
            first=_first_seen(first),
            count=plain(_count(count)),
        ),
        Column("Name", NAME.cell, NAME.description, format="name", priority=1),
    )


EVENT: Final = _columns(
    about="involvedObject",
    message="message",
    source="source",
    controller="reportingComponent",
    first="firstTimestamp",
    last="lastTimestamp",
    count="count",
)
NEW_EVENT: Final = _columns(
    about="regarding",
    message="note",
    source="deprecatedSource",
    controller="reportingController",
    first="deprecatedFirstTimestamp",
    last="deprecatedLastTimestamp",
    count="deprecatedCount",
)
