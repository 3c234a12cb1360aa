"""The agent's volumes on real mounts, on disks that are full or read-only, in a mount namespace that nobody else
sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mount_namespace import MountNamespace
from tests.support.scenes import played
from tests.unit.node.scenes import SCENES


@pytest.fixture(scope="module")
def namespace() -> Iterator[MountNamespace]:
    space = MountNamespace()
    yield space
    space.close()


@pytest.mark.slow
def test_on_real_mounts(namespace: MountNamespace, tmp_path: Path, subtests: pytest.Subtests) -> None:
    seen = []
    for scene, wrong in played(namespace, "tests.unit.node.scenes", tmp_path, SCENES):
        seen.append(scene)
        with subtests.test(scene):
            assert "" == wrong
    assert list(SCENES) == seen
