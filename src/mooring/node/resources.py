"""A node's resources, and those of them that pods may use: a scheduler places no pod on a Node without them.

Source: kubelet 1.36, pkg/kubelet/nodestatus. Differs: nothing is set aside for the system unless a flag says so, and
resources that others have written (of devices, say) stay.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mooring.api.core import Node
from mooring.api.quantity import parse_quantity
from mooring.base.errors import ConfigError


class Resources(msgspec.Struct, frozen=True):
    """Quantities by resource. capacity: the node's. allocatable: what of it is for pods; it has the same names."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]


def resources_of(
    machine: Mapping[str, str], max_pods: int, capacity: Mapping[str, str], allocatable: Mapping[str, str]
) -> Resources:
    """The machine's resources, but for what flags say. Raises ConfigError for no quantity, or more than there is."""
    for flag, given in (("capacity", capacity), ("allocatable", allocatable)):
        for name, text in given.items():
            _check_quantity(flag, name, text)
    whole = {**machine, "pods": str(max_pods), **capacity}
    free = {**whole, **allocatable}
    for name, text in free.items():
        if name not in whole:
            raise ConfigError(f"allocatable: the node has no {name}; name it in --capacity, too")
        if parse_quantity(text).value > parse_quantity(whole[name]).value:
            raise ConfigError(f"allocatable: {name}={text} is more than the node has, {whole[name]}")
    return Resources(whole, free)


def machine_resources(root: Path) -> dict[str, str]:
    """Processors and memory of this machine, and the size of the file system that the root folder is, or will be,
    on.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    disk = os.statvfs(there)
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory_bytes // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
    }


def decide_resources(node: Node, resources: Resources) -> dict[str, Any]:
    """The resources that the Node does not have yet, as parts of its status: {} for none."""
    said = {"capacity": node.status.capacity or {}, "allocatable": node.status.allocatable or {}}
    wanted = {"capacity": resources.capacity, "allocatable": resources.allocatable}
    lacking = {
        field: {name: text for name, text in given.items() if not _is_same(said[field].get(name), text)}
        for field, given in wanted.items()
    }
    return {field: given for field, given in lacking.items() if given}


def _is_same(said: str | None, text: str) -> bool:
    return said is not None and parse_quantity(said).value == parse_quantity(text).value


def _check_quantity(flag: str, name: str, text: str) -> None:
    try:
        is_right = parse_quantity(text).value >= 0
    except ValueError as error:
        raise ConfigError(f"{flag}: {name}={text}: {error}") from None
    if not is_right:
        raise ConfigError(f"{flag}: {name}={text} is negative")
