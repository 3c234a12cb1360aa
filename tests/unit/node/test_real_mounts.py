"""The agent's volumes on real mounts, on disks that are full or read-only, in a mount namespace that nobody else sees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mount_namespace import MountNamespace
from tests.unit.node.scenes import SCENES


@pytest.fixture(scope="module")
def namespace() -> Iterator[MountNamespace]:
    space = MountNamespace()
    yield space
    space.close()


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_on_real_mounts(namespace: MountNamespace, tmp_path: Path, scene: str) -> None:
    words = namespace.command(sys.executable, "-m", "tests.unit.node.scenes", scene, tmp_path)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr[-4000:]
