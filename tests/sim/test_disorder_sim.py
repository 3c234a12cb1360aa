"""Lives in which queues hand out their keys in any order; `test_lives.py` has them of all parts.

More of them: `python -m tests.sim --part provisioner --from 1000000 --seeds 2000`.
"""

from __future__ import annotations

import pytest

from tests.sim import disorder
from tests.sim.disorder import DISORDER_FROM
from tests.sim.parts import PARTS


@pytest.mark.slow
def test_the_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def stories() -> list[str]:
        return [PARTS["provisioner"].run_seed(seed).story.digest() for seed in range(DISORDER_FROM, DISORDER_FROM + 5)]

    disorderly = stories()
    assert disorderly == stories(), "the same each time"
    monkeypatch.setattr(disorder, "DISORDER_FROM", 2 * DISORDER_FROM)
    assert disorderly != stories()
