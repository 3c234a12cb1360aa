"""`mooring timeline` of a volume that the Go programs made and attached: who did what, in order, from a real API
server's own record.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.nights import Night, go_plane
from tests.support.builders import a_claim, a_pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.real]


def shown(night: Night, output: str, object_: str) -> str:
    command = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "timeline",
        f"--kubeconfig={night.kubeconfig}",
        f"-o={output}",
        object_,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def values(night: Night, object_: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(night, "json", object_))
    return found


def test_the_go_programs_are_named_with_what_they_did_in_order(tmp_path: Path) -> None:
    with go_plane(tmp_path) as night:
        night.create(a_claim("data", sc="folders"), a_pod("web", "data", node="n1"))

        def attached() -> bool:
            found = [one for one in values(night, "pod/web")["moments"] if one["lane"] == "va"]
            assert [one for one in found if "status.attached" in one["what"]], found
            return True

        eventually(attached, 60, "the volume is attached", every_s=0.5)
        moments = values(night, "pod/web")["moments"]
        done = [(one["who"], one["lane"], one["what"]) for one in moments]
        made = [step for step in done if step[2] == "created it"]
        assert [("kubectl-create", "pvc"), ("kubectl-create", "pod")] == [
            step[:2] for step in made if step[1] in ("pvc", "pod")
        ]
        order = [
            ("csi-provisioner", "pv", "created it"),
            ("kube-controller-manager", "va", "created it"),
            ("csi-attacher", "va", "wrote status.attached"),
        ]
        places = [next(number for number, step in enumerate(done) if _is(step, wanted)) for wanted in order]
        assert sorted(places) == places, done


def _is(step: tuple[str, str, str], wanted: tuple[str, str, str]) -> bool:
    return step[:2] == wanted[:2] and step[2].startswith(wanted[2])
