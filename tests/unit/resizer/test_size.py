"""The size to ask for, as a table: lines of docs/behaviours/resizer.md, and every other case of claim and volume."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.expansion.decide import size_to_ask
from mooring.sidecars.resizer.view import Sizes, quantity
from tests.support.rows import each_row

PENDING, AT_WORK, ON_NODE = names.NODE_PENDING, names.NODE_IN_PROGRESS, names.NODE_INFEASIBLE
PROGRESS, INFEASIBLE = names.CONTROLLER_IN_PROGRESS, names.CONTROLLER_INFEASIBLE
FINAL, NODE_ONLY, FS = {"is_final": True}, {"on_controller": False}, {"node_pending": True}

ROWS = [
    # asked for, allocated, state, volume; what else is so; the size
    pytest.param(2, None, "", 1, {}, 2, id="R1"),
    pytest.param(5, 10, INFEASIBLE, 3, {}, 5, id="R8"),
    pytest.param(5, 10, PROGRESS, 3, {}, 10, id="R9"),
    pytest.param(5, 10, PROGRESS, 3, FINAL, 5, id="R10"),
    pytest.param(1, 1, PENDING, 1, {}, None, id="R13"),
    pytest.param(10, 3, PENDING, 3, {}, None, id="R14-pending"),
    pytest.param(10, 3, AT_WORK, 3, {}, None, id="R14-in-progress"),
    pytest.param(2, 2, ON_NODE, 2, {}, 2, id="R15"),
    pytest.param(5, 10, ON_NODE, 10, NODE_ONLY, 5, id="R16"),
    pytest.param(1, None, "", 1, FS, None, id="R17"),
    # the volume is smaller than wanted
    pytest.param(10, 3, PENDING, 2, {}, 3, id="the-volume-lags-behind-what-the-node-does"),
    pytest.param(10, None, PENDING, 2, {}, 10, id="pending-without-allocation"),
    pytest.param(12, 10, ON_NODE, 3, {}, 10, id="infeasible-on-the-node"),
    pytest.param(12, None, ON_NODE, 3, {}, 12, id="infeasible-on-the-node-without-allocation"),
    pytest.param(12, None, PROGRESS, 3, {}, 12, id="in-progress-without-allocation"),
    pytest.param(12, 10, "", 3, {}, 12, id="no-state"),
    pytest.param(12, 10, "SomethingNew", 3, {}, 12, id="a-state-of-the-future"),
    pytest.param(5, 10, INFEASIBLE, 3, FINAL, 5, id="infeasible-and-final"),
    # the volume is as large as wanted, or larger
    pytest.param(5, 10, ON_NODE, 10, {}, 10, id="infeasible-on-the-node-of-a-driver-with-a-controller"),
    pytest.param(5, None, ON_NODE, 10, {}, 5, id="the-same-without-allocation"),
    pytest.param(8, 10, PROGRESS, 10, {}, 10, id="done-and-not-recorded"),
    pytest.param(8, 10, PROGRESS, 10, FINAL, 10, id="done-and-not-recorded-after-an-error"),
    pytest.param(8, 10, INFEASIBLE, 10, {}, 10, id="infeasible-and-yet-done"),
    pytest.param(8, 12, INFEASIBLE, 10, {}, 8, id="taken-back-to-what-the-volume-has-after-a-refusal"),
    pytest.param(8, 12, PROGRESS, 10, FINAL, 8, id="the-same-after-another-final-error"),
    pytest.param(8, 12, PROGRESS, 10, {}, 12, id="taken-back-while-the-driver-may-be-at-work"),
    pytest.param(8, None, PROGRESS, 10, {}, 8, id="in-progress-and-done-without-allocation"),
    pytest.param(8, 10, "", 10, {}, 10, id="allocated-and-done"),
    pytest.param(8, 10, "", 10, FS, 10, id="allocated-and-pending"),
    pytest.param(8, None, "", 10, {}, 8, id="done-by-an-old-resizer"),
]


def of(amount: int | None) -> Any:
    return None if amount is None else quantity(f"{amount}Gi")


def test_in_every_state_it_is_the_wish_or_what_was_begun_and_nothing_in_the_nodes_turn_alone():
    """The product of the table's axes: a claim asks for 4 GiB; the volume is smaller, as large, or larger."""
    steps = ("", PROGRESS, INFEASIBLE, PENDING, AT_WORK, ON_NODE, "SomethingNew")
    flags = itertools.product((True, False), repeat=3)
    for step, allocated, volume, asked in itertools.product(steps, (None, 2, 4, 6), (1, 2, 4, 6), flags):
        is_final, on_controller, node_pending = asked
        sizes = Sizes(of(4), of(1), of(volume), of(allocated), step)
        size = size_to_ask(sizes, is_final=is_final, on_controller=on_controller, node_pending=node_pending)
        state = (step, allocated, volume, asked)
        assert size in (sizes.wanted, sizes.begun, None), state
        if size is None:
            assert step in (PENDING, AT_WORK) or (step, allocated, node_pending) == ("", None, True), state
        if step in (PENDING, AT_WORK) and sizes.is_made:
            assert size is None, f"the node may be at work: {state}"
        if step == PROGRESS and not is_final:
            assert size == sizes.begun, f"the driver may be at work: {state}"
        if size is not None and on_controller and sizes.is_made:
            assert size.value >= sizes.begun.value, f"the volume would shrink: {state}"


@each_row(("wanted", "allocated", "step", "volume", "more", "size"), ROWS)
def test_the_size_to_ask_for(wanted, allocated, step, volume, more, size):
    sizes = Sizes(of(wanted), quantity("512Mi"), of(volume), of(allocated), step)
    found = size_to_ask(sizes, **{"is_final": False, "on_controller": True, "node_pending": False, **more})
    assert (None if size is None else f"{size}Gi") == (None if found is None else str(found))
