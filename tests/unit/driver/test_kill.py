"""SIGKILL at any moment loses nothing that was answered, and leaves nothing behind that nobody owns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def kill_rounds(how: str, folder: Path, rounds: int, seed: int) -> int:
    command = [sys.executable, "-m", "tests.unit.driver.kill_rounds", how, str(folder), str(rounds), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command[1:])}\n{done.stderr}"
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.long
def test_killed_before_any_change_of_the_file_system(tmp_path: Path) -> None:
    assert kill_rounds("steps", tmp_path / "state", 0, 1) > 30, "two lives of a volume make more changes than that"


@pytest.mark.slow
def test_killed_at_random_times(tmp_path: Path) -> None:
    assert 60 == kill_rounds("times", tmp_path / "state", 60, 2)
