"""Nodes."""

from __future__ import annotations

from typing import Any, Final

from mooring.apiserver.printers.column import AGE, NAME, NONE, UNKNOWN, Cell, Column, plain
from mooring.apiserver.resource import Json

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _status(node: Json) -> str:
    ready = [condition["status"] for condition in node["status"].get("conditions") or () if condition["type"] == "Ready"]
    shown = ["Ready" if ready[-1] == "True" else "NotReady"] if ready else ["Unknown"]
    return ",".join([*shown, "SchedulingDisabled"] if node["spec"].get("unschedulable") else shown)


def _roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    found = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)} | {labels.get(_ROLE, "")}
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


NODE: Final = (
    NAME,
    Column("Status", plain(_status), "Whether the node is ready, and takes pods."),
    Column("Roles", plain(_roles), "What the node is for."),
    AGE,
    Column("Version", plain(lambda node: node["status"]["nodeInfo"]["kubeletVersion"]), "The kubelet's version."),
    Column("Internal-IP", _address("InternalIP"), "Its address inside of the cluster.", priority=1),
    Column("External-IP", _address("ExternalIP"), "Its address outside of the cluster.", priority=1),
    Column("OS-Image", _info("osImage"), "The operating system.", priority=1),
    Column("Kernel-Version", plain(_kernel), "The kernel, and the machine's architecture.", priority=1),
    Column("Container-Runtime", _info("containerRuntimeVersion"), "What runs the containers.", priority=1),
)
