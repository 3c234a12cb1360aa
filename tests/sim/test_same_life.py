"""A seed lives one life, wherever it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.__main__ import PARTS

ROOT = Path(__file__).resolve().parents[2]

LIVES = [*((part, 3) for part in sorted(PARTS)), ("driver", 15), ("node", 20033)]
"""15: an error names a folder. 20033: an agent starts while a driver's volumes can't be listed."""
QUICK = [("attacher", 3), ("driver", 15)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "seed"), QUICK + [pytest.param(*life, marks=pytest.mark.long) for life in LIVES if life not in QUICK]
)
def test_a_seed_lives_the_same_life_in_another_process(part: str, seed: int) -> None:
    """Neither addresses in memory nor the hashes of texts nor names of temporary folders may choose anything."""
    told = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "tests.sim", "--part", part, "--seed", str(seed), "--whole"]
        told.add(subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout)
    assert 1 == len(told)
