"""Lives in which queues hand out their keys in any order, of all parts that have queues.

More of them: `python -m tests.sim --part provisioner --from 1000000 --seeds 2000`.
"""

from __future__ import annotations

import pytest

from tests.sim import disorder
from tests.sim.__main__ import PARTS
from tests.sim.disorder import DISORDER_FROM

pytestmark = pytest.mark.slow
WITH_QUEUES = sorted(PARTS.keys() - {"driver"})
QUICK, LONG = 5, 100


@pytest.mark.parametrize("part", WITH_QUEUES)
def test_no_invariant_is_broken(part: str) -> None:
    for seed in range(DISORDER_FROM, DISORDER_FROM + QUICK):
        outcome = PARTS[part][0].run_seed(seed)
        assert outcome.broken is None, outcome.report()


@pytest.mark.long
@pytest.mark.parametrize("share", range(1, LONG // QUICK))
@pytest.mark.parametrize("part", WITH_QUEUES)
def test_no_invariant_is_broken_in_many(part: str, share: int) -> None:
    for seed in range(DISORDER_FROM + share * QUICK, DISORDER_FROM + (share + 1) * QUICK):
        outcome = PARTS[part][0].run_seed(seed)
        assert outcome.broken is None, outcome.report()


def test_the_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def stories() -> list[str]:
        return [
            PARTS["provisioner"][0].run_seed(seed).story.digest() for seed in range(DISORDER_FROM, DISORDER_FROM + 5)
        ]

    disorderly = stories()
    assert disorderly == stories(), "the same each time"
    monkeypatch.setattr(disorder, "DISORDER_FROM", 2 * DISORDER_FROM)
    assert disorderly != stories()
