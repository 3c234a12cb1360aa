"""A seed lives one life, wherever it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.parts import PARTS

ROOT = Path(__file__).resolve().parents[2]

LIVES = [*((part, 3) for part in sorted(PARTS)), ("driver", 15), ("node", 20033)]
"""15: an error names a folder. 20033: an agent starts while a driver's volumes can't be listed."""
STORIES = f"""
from tests.sim.parts import PARTS
for part, seed in {LIVES}:
    for step in PARTS[part].run_seed(seed).story.steps:
        print(part, seed, step)
"""


@pytest.mark.slow
def test_a_seed_lives_the_same_life_in_another_process() -> None:
    """Neither addresses in memory nor the hashes of texts nor names of temporary folders may choose anything."""
    first, second = (_stories(hash_seed) for hash_seed in ("1", "2"))
    different = next(((one, other) for one, other in zip(first, second, strict=False) if one != other), None)
    assert different is None
    assert len(first) == len(second) > 1000


def _stories(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", STORIES]
    told = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    return told.splitlines()
