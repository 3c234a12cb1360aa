"""Item 30.4: `mooring dev --faults` is the proxy for all sockets of a driver of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.test_dev_drivers import CLASS, OWN_CLAIM
from tests.e2e.test_dev_pods import Kubectl, pod
from tests.support import mount_driver
from tests.support.mooring_dev import dev, needs_mounts
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

SCRIPT = """
faults:
- {do: cut, when: after, rpc: CreateVolume, nth: 1}
- {do: fail, when: after, code: Unknown, rpc: ControllerPublishVolume, nth: 1}
- {do: fail, code: Unavailable, rpc: NodeStageVolume, nth: 1}
- {do: twice, rpc: NodePublishVolume, nth: 1}
- {do: delay, for: 500ms, rpc: DeleteVolume}
"""


def test_a_pod_gets_its_volume_in_spite_of_faults_that_are_not_told_as_the_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_mounts()
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    (tmp_path / "faults.yaml").write_text(SCRIPT)
    with dev(tmp_path, f"--driver={CLASS}", f"--faults={tmp_path / 'faults.yaml'}") as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(OWN_CLAIM, pod())
        kubectl.ready("pod")
        kubectl("delete", "pod", "pod", "--timeout=20s")
        kubectl("delete", "pvc", "claim", "--timeout=20s")
        eventually(lambda: not kubectl.left(), 20, "no pod, no attachment, no volume")
    output = program.output()
    made = {
        rpc: re.findall(rf"proxy +{rpc}: (.*?) \(", output)
        for rpc in ("CreateVolume", "ControllerPublishVolume", "NodeStageVolume")
    }
    assert made == {
        "CreateVolume": ["the connection is cut after the effect"],
        "ControllerPublishVolume": ["it fails with Unknown after the effect"],
        "NodeStageVolume": ["it fails with Unavailable before the effect"],
    }
    assert 2 == len(re.findall(r"proxy +NodePublishVolume: it is sent twice", output))
    assert re.search(r"proxy +DeleteVolume: a delay of 500ms", output)
    assert "rules of CSI:" not in output
    assert "is made again" not in output, "what is repeated is said by the script"
