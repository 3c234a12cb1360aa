"""The size to ask the driver for: what the claim wants now, or what was begun before and has to end first. Pure.

    the volume is              the claim's state                     size
    smaller than wanted        node: pending, in progress            as allocated; none while the volume has that size already
                               node: infeasible                      as allocated: once confirmed, the node may try again
                               controller: in progress               as allocated, while the driver may be at work on that; else as wanted
                               controller: infeasible; none          as wanted
    as large as wanted         node: pending, in progress            none: it is the node's turn
    or larger                  node: infeasible                      as allocated; as wanted where the node does everything
                               controller: any; none                 as allocated: it was done, and not recorded; as wanted where the
                                                                     volume has not that size, and the driver has refused it

Source: external-resizer 2.2, pkg/controller/expand_and_recover.go.
"""

from __future__ import annotations

from mooring.api.quantity import Quantity
from mooring.controllers.resizer import names
from mooring.controllers.resizer.view import Sizes


def size_to_ask(sizes: Sizes, *, is_final: bool, on_controller: bool, node_pending: bool) -> Quantity | None:
    """The size, or None when it is the node's turn.

    is_final: the driver has answered the last call with an error after which it is not at work. on_controller: the driver grows volumes
    there. node_pending: the condition FileSystemResizePending holds.
    """
    allocated = sizes.wanted if sizes.allocated is None else sizes.allocated
    if sizes.volume.value < sizes.wanted.value:
        return _larger(sizes, allocated, is_final=is_final)
    match sizes.step:
        case names.NODE_PENDING | names.NODE_IN_PROGRESS:
            return None
        case names.NODE_INFEASIBLE:
            return allocated if on_controller else sizes.wanted
        case "" if sizes.allocated is None and node_pending:  # an API server without the fields of recovery
            return None
    is_over = sizes.step == names.CONTROLLER_INFEASIBLE or (sizes.step == names.CONTROLLER_IN_PROGRESS and is_final)
    return sizes.wanted if is_over and sizes.volume.value < allocated.value else allocated


def is_nodes_turn(sizes: Sizes) -> bool:
    """True while the node may be at work on the size that the volume has."""
    allocated = sizes.wanted if sizes.allocated is None else sizes.allocated
    return sizes.step in (names.NODE_PENDING, names.NODE_IN_PROGRESS) and sizes.volume.value >= allocated.value


def _larger(sizes: Sizes, allocated: Quantity, *, is_final: bool) -> Quantity | None:
    if is_nodes_turn(sizes):
        return None
    match sizes.step:
        case names.NODE_PENDING | names.NODE_IN_PROGRESS | names.NODE_INFEASIBLE:
            return allocated
        case names.CONTROLLER_IN_PROGRESS:
            return sizes.wanted if is_final else allocated
    return sizes.wanted
