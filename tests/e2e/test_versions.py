"""Older releases of Kubernetes: what the real API server serves when it emulates them, and all controllers on it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.controller_world import SIDECARS, a_world
from tests.support.control_plane import ControlPlane
from tests.support.real import binary

pytestmark = [pytest.mark.long, pytest.mark.real]

CLASSES_SINCE = (1, 34)
"""VolumeAttributesClasses of v1."""


def emulated() -> list[str]:
    """The minor releases that the real server can be."""
    words = subprocess.run(
        [binary("kube-apiserver"), "--help"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    first, last = re.search(r"Options are: kube=1\.(\d+)\.\.1\.(\d+)", words).groups()  # type: ignore[union-attr]
    return [f"1.{minor}" for minor in range(int(first), int(last) + 1)]


@pytest.mark.parametrize("back", [0, 1, 2, 3])
async def test_a_volume_lives_on_each_release_that_the_server_can_emulate(
    back: int, new_control_plane: Callable[..., ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Issue 27, C6. back: so many releases before the server's own."""
    version = emulated()[-1 - back]
    plane = new_control_plane(apiserver_flags=[f"--emulated-version={version}"])
    folder: Path = tmp_path_factory.mktemp("v")
    async with a_world(plane.token_kubeconfig(), folder, full=True) as world:
        node = await world.make_place()
        async with world.controller(plane.token_kubeconfig(), "log", f"{SIDECARS},snapshot-controller"):
            await world.make_consumer()
            await world.in_use("pod", node)
            await world.grown("pod", 2)
            if tuple(map(int, version.split("."))) >= CLASSES_SINCE:
                await world.moved_to_class("pod", "gold")
            await world.photographed_by_a_user("pod")
            await world.end_of("pod", node)


def test_the_releases_of_the_page_are_those_that_are_tested() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "versions.md").read_text()
    for version in emulated():
        assert f"| {version} |" in page
