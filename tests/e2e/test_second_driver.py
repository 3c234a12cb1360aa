"""Issue 27, C.5: two drivers with the manifests of deploy/ in one namespace do not mean each other's pods, by kubectl's
own kustomize.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.builders import Json
from tests.support.real import run_kubectl
from tests.support.rows import each_row
from tests.unit.test_deploy import DEPLOY, PARTS

pytestmark = [pytest.mark.real, pytest.mark.slow]

BESIDE_A_DRIVER = [part for part in PARTS if "DRIVER" in (DEPLOY / part / "kustomization.yaml").read_text()]
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding"}


def built(folder: Path) -> list[Json]:
    """What `kubectl apply -k` would send."""
    done = run_kubectl(folder / "none", "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder))
    assert 0 == done.returncode, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def second(part: str, folder: Path) -> Path:
    """The folder of a second driver, as the first one's comments say."""
    own = folder / "second"
    own.mkdir()
    (own / "deploy").symlink_to(DEPLOY)
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"deploy/{part}"],
        "namespace": "storage",
        "namePrefix": "second-",
        "labels": [{"pairs": {"mooring.dev/driver": "second.example.com"}, "includeSelectors": True}],
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return own


def selectors(value: Any) -> Iterator[dict[str, str]]:
    """The labels of all selectors in an object, wherever they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("selector", "labelSelector", "podSelector"):
                yield inner["matchLabels"]
            else:
                yield from selectors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from selectors(inner)


def workload_of(objects: list[Json]) -> Json:
    (found,) = (one for one in objects if one["kind"] in ("Deployment", "StatefulSet", "DaemonSet"))
    return found


@each_row("part", BESIDE_A_DRIVER)
def test_each_driver_selects_its_own_pods_and_takes_no_object_of_the_other(part: str, tmp_path: Path) -> None:
    one, other = built(DEPLOY / part), built(second(part, tmp_path))
    names = [{(each["kind"], each["metadata"]["name"]) for each in objects} for objects in (one, other)]
    assert {("Namespace", "storage")} == names[0] & names[1]
    assert len(one) == len(other)
    for objects, rivals in itertools.permutations((one, other)):
        labels = workload_of(objects)["spec"]["template"]["metadata"]["labels"]
        found = [wanted for each in objects for wanted in selectors(each)]
        assert len(found) >= 2
        assert all(wanted.items() <= labels.items() for wanted in found)
        assert not [wanted for each in rivals for wanted in selectors(each) if wanted.items() <= labels.items()]
