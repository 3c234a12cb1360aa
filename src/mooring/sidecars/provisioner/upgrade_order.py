"""Nodes whose drivers report different topology keys, as in the midst of an upgrade: what is seen of its order at the start.

Volumes are placed by the keys that nodes report. So a driver is upgraded on the nodes before its controller (docs/deployment.md): else
volumes are asked for by the keys of the former version, or there is no node that could have them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from mooring.api.storage import CSINode

NODES_TOLD_MAX: Final = 5


def unlike_nodes(driver_name: str, csi_nodes: Iterable[CSINode]) -> str:
    """Which keys are reported by which nodes; "" where all that have the driver report the same ones, or where none has it."""
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in csi_nodes:
        for driver in node.spec.drivers or ():
            if driver.name == driver_name:
                found[tuple(sorted(driver.topology_keys or ()))].append(node.metadata.name)
    if len(found) == 1 and () not in found:
        return ""
    return "; ".join(f"[{' '.join(keys)}] by {_shown(sorted(found[keys]))}" for keys in sorted(found))


def _shown(nodes: Sequence[str]) -> str:
    more = len(nodes) - NODES_TOLD_MAX
    return ", ".join(nodes[:NODES_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")
