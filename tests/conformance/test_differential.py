"""Random requests to both servers, the same each time. An hour: `make differential`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.compare import Judge
from tests.differential.generate import sequence
from tests.differential.servers import both
from tests.support.control_plane import ControlPlane

SEEDS = 60


@pytest.mark.long
@pytest.mark.slow
def test_both_servers_answer_random_requests_alike(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """On a control plane of their own: whatever there is of a kind is compared, and removed."""
    with both(tmp_path, new_control_plane()) as targets:
        judge, schemas = Judge(targets), targets[1].schemas()
        for seed in range(SEEDS):
            found = judge.first_difference(sequence(seed, schemas))
            assert found is None, f"python -m tests.differential --seed {seed}\n{found}"
    assert judge.requests > 5 * SEEDS, "most of the sequences were carried out"
