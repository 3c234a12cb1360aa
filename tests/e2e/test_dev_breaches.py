"""`mooring dev` names the rules of CSI that a driver breaks, as soon as it breaks them, and a good driver breaks
none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mooring.conform.book.rule import verdict
from mooring.conform.book.watcher import BOOK
from tests.e2e.test_dev_drivers import CLASS, OWN_CLAIM
from tests.e2e.test_dev_pods import Kubectl, pod
from tests.support import mount_driver
from tests.support.broken_drivers import (
    ExpectsTarget,
    FileForFolder,
    LeavesTarget,
    MountsAgain,
    NotIdempotent,
    PlainFolder,
)
from tests.support.mooring_dev import dev, needs_mounts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test driver's."""
    monkeypatch.setenv(mount_driver.FOLDER, str(found := tmp_path / "volumes"))
    return found


def broken_rules(output: str) -> set[str]:
    return set(re.findall(r"breach +(CSI\d+)", output))


def life_of_a_pod(tmp_path: Path, driver: str, *, is_good: bool) -> str:
    """What `mooring dev` says of a claim and a pod, to their end. The pod of a broken driver may never run."""
    with dev(tmp_path, f"--driver={driver}") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(OWN_CLAIM, pod())
        if is_good:
            kubectl.ready("pod")
        else:
            eventually(lambda: "NodePublishVolume" in program.output_alive(), 20, "the pod's volume is published")
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
    return program.output()


def test_a_good_driver_breaks_no_rule_though_each_call_is_made_twice(tmp_path: Path) -> None:
    needs_mounts()
    output = life_of_a_pod(tmp_path, CLASS, is_good=True)
    repeated = set(re.findall(r"dev +(\w+) is made again", output))
    assert {"CreateVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "DeleteVolume"} <= repeated
    assert set() == broken_rules(output)
    assert "rules of CSI:" not in output


@pytest.mark.parametrize(
    "broken", [NotIdempotent, PlainFolder, LeavesTarget, MountsAgain, ExpectsTarget, FileForFolder]
)
def test_a_breach_is_told_with_what_follows_from_it_and_how_to_mend_it(
    tmp_path: Path, broken: type[NotIdempotent]
) -> None:
    needs_mounts()
    output = life_of_a_pod(tmp_path, f"tests.support.broken_drivers:{broken.__name__}", is_good=False)
    assert {broken.breaks} == broken_rules(output)
    assert "Kubernetes: " in output
    assert "Mend: " in output
    assert f"The driver {verdict([BOOK[broken.breaks]])}:\n" in output


@pytest.mark.parametrize("flags", [(), ("--browser",)], ids=["alone", "behind proxies"])
def test_a_capability_that_is_not_served_is_told_at_the_start(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with dev(tmp_path, "--driver=tests.unit.dev.test_traced_driver:Liar", *flags) as (program, _):
        eventually(lambda: "CSI105 GetCapacity" in program.output_alive(), 10, "the rule is named")
