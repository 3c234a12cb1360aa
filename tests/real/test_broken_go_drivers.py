"""A driver in Go that breaks one rule of CSI at a time: `mooring conform` and `mooring dev` name that rule, and no
other.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from mooring.conform.book.rule import verdict
from mooring.conform.book.watcher import BOOK
from tests.e2e.test_dev_drivers import OWN_CLAIM
from tests.e2e.test_dev_pods import Kubectl
from tests.support.mooring_dev import MOORING, dev_to_kill, needs_mounts
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]

BOTH = {
    "bad-name": "CSI101",
    "no-version": "CSI102",
    "hides-controller": "CSI104",
    "publishes-unadvertised": "CSI105",
    "hides-topology": "CSI107",
    "unknown-capability": "CSI108",
    "changes-its-mind": "CSI109",
    "no-id": "CSI111",
    "no-node-id": "CSI111",
    "long-id": "CSI112",
    "negative-size": "CSI113",
    "no-topology": "CSI115",
    "not-idempotent": "CSI201",
    "refuses-its-volume": "CSI202",
    "too-small": "CSI204",
    "elsewhere": "CSI206",
    "changing-context": "CSI207",
    "deletes-once": "CSI208",
    "forgets": "CSI209",
    "changing-publish-context": "CSI301",
    "publishes-once": "CSI302",
    "unpublishes-once": "CSI304",
    "changing-node-id": "CSI501",
    "mounts-nothing": "CSI511",
    "mounts-elsewhere": "CSI512",
    "ignores-readonly": "CSI513",
    "leaves-target": "CSI515",
    "leaves-staged": "CSI516",
    "stages-once": "CSI517",
    "unpublishes-target-once": "CSI517",
    "error-without-code": "CSI701",
    "secret-in-error": "CSI702",
    "secret-in-context": "CSI703",
    "still-aborted": "CSI705",
    "panics": "CSI707",
    "error-without-text": "CSI708",
}
"""The rule that each fault breaks."""

IN_CONFORM = {
    "tells-nodes-unasked": "CSI106",
    "deletes-nothing": "CSI121",
    "cuts-names": "CSI203",
    "confirms-nothing": "CSI212",
    "lists-twice": "CSI603",
    "cuts-pages": "CSI605",
    "any-token": "CSI606",
}
"""Nobody makes these calls in a life of a claim and a pod."""

IN_DEV = {"one-node-id": "CSI502"}
"""It takes two nodes."""

NEVER_BEGINS = {"bad-name", "no-node-id", "one-node-id"}
"""dev ends at its start with such a driver, which a cluster would not register."""

SECRET = "s3cr3t-word"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "secret"},
    "provisioner": "broken.csi.test",
    "parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "login",
        "csi.storage.k8s.io/provisioner-secret-namespace": "default",
    },
}
LOGIN = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": SECRET}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "pod"},
    "spec": {
        "containers": [{"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}}],
    },
}


def driver(folder: Path, broken: str) -> str:
    program = binary("broken-csi-driver")
    return shlex.join(
        [str(program), "--endpoint=unix://{socket}", "--node={node}", f"--folder={folder}", f"--broken={broken}"]
    )


def conform(tmp_path: Path, broken: str) -> set[str]:
    """The rules that it finds broken."""
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text(f"CreateVolumeSecret: {{password: {SECRET}}}\n")
    words = [*MOORING, "conform", driver(tmp_path / "volumes", broken), "-o=json", f"--secrets-file={secrets}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    findings = json.loads(done.stdout)["findings"]
    fails = any(one["level"] == "error" for one in findings)
    assert done.returncode == 1 if fails else broken or not done.returncode, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return {one["rule"] for one in findings}


def dev(tmp_path: Path, broken: str, wanted: str) -> set[str]:
    """The rules that are told while a claim and a pod come, and go again where nothing is told before."""
    has_secret = broken.startswith("secret-")
    spec = {**OWN_CLAIM["spec"], "storageClassName": "secret"}  # type: ignore[dict-item]
    claim = {**OWN_CLAIM, "spec": spec} if has_secret else OWN_CLAIM
    words = [f"--driver={driver(tmp_path / 'volumes', broken)}", "--nodes=2"]
    if broken in NEVER_BEGINS:
        done = subprocess.run([*MOORING, "dev", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        return told(done.stdout)
    with dev_to_kill(tmp_path, *words) as (program, config):
        kubectl = Kubectl(config)
        kubectl.apply(*((LOGIN, CLASS) if has_secret else ()), claim, POD)

        def is_told() -> bool:
            return wanted in told(program.output_alive()) if wanted else False

        eventually(
            lambda: is_told() or "True" in kubectl("get", "pod", "pod", "-o", READY),
            30,
            "the pod runs, or a breach is told",
        )
        if not is_told():
            kubectl("delete", "pod", "pod", "--wait=false")
            kubectl("delete", "pvc", "claim", "--wait=false")
            eventually(lambda: is_told() or not kubectl.left(), 30, "all is gone, or a breach is told")
        program.send(signal.SIGINT)
        program.wait_exit(60)
    output = program.output()
    assert broken == "secret-in-context" or SECRET not in output
    rules = [BOOK[number] for number in told(output)]
    assert f"The driver {verdict(rules)}:\n" in output if rules else "rules of CSI:" not in output
    return told(output)


READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"


def told(output: str) -> set[str]:
    return set(re.findall(r"breach +(CSI\d+)", output))


@pytest.mark.parametrize(("broken", "rule"), [("", ""), *BOTH.items(), *IN_CONFORM.items()])
def test_conform_names_the_rule_that_a_go_driver_breaks_and_no_other(tmp_path: Path, broken: str, rule: str) -> None:
    needs_mounts()
    assert ({rule} if rule else set()) == conform(tmp_path, broken)


@pytest.mark.parametrize(("broken", "result"), [("", "kept"), ("ignores-full-disk", "broken")])
def test_a_volume_that_was_never_written_is_missed_on_a_bad_disk(tmp_path: Path, broken: str, result: str) -> None:
    needs_mounts()
    folder = tmp_path / "volumes"
    words = [
        "conform",
        driver(folder, broken),
        f"--data-folder={folder}",
        "--only=full-disk,kill-on-full-disk,readonly-disk",
        "-o=json",
    ]
    done = subprocess.run([*MOORING, *words], capture_output=True, text=True, timeout=120, check=False)
    report = json.loads(done.stdout)
    assert [result] * 3 == [one["result"] for one in report["checks"]]
    assert ({"CSI209"} if broken else set()) == {one["rule"] for one in report["findings"]}


@pytest.mark.parametrize(("broken", "rule"), [("", ""), *BOTH.items(), *IN_DEV.items()])
def test_dev_names_the_rule_that_a_go_driver_breaks_and_no_other(tmp_path: Path, broken: str, rule: str) -> None:
    needs_mounts()
    assert ({rule} if rule else set()) == dev(tmp_path, broken, rule)
