"""`mooring doctor -f`: the files of a release, with the line to change; Mooring's own manifests are well."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.storage import STORAGE_CLASSES
from mooring.cli.doctor import run
from mooring.inspect.doctor.files import Files
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import DEPLOYMENTS, ROLES, VALUES_MAX
from tests.support.rows import each_row
from tests.support.sick_cluster import NOW_S, an_inventory, judged, wrong

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"

RELEASE = """\
# A driver's release.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: csi
  creationTimestamp: null
spec:
  replicas: 2
  template:
    spec:
      serviceAccountName: csi
      containers:
        - name: csi-attacher
          image: registry.k8s.io/sig-storage/csi-attacher:v4.8.0
          args:
            - --leader-election
            - --kube-api-qps=5
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csi}
rules:
  - apiGroups: [""]
    resources: [persistentvolumes]
    verbs: [get, list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: csi}
roleRef: {kind: ClusterRole, name: csi}
subjects: [{kind: ServiceAccount, name: csi, namespace: default}]
"""


@each_row("folder", sorted(one.name for one in DEPLOY.iterdir() if one.is_dir() and one.name != "chart"))
def test_moorings_own_manifests_are_well(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The chart's are templates; tests/e2e/test_chart.py has what they are rendered to."""
    is_judged = folder not in ("infra-nodes", "monitoring")  # a component, and rules for Prometheus
    code, out = run(["-f", str(DEPLOY / folder)], "mooring doctor"), capsys.readouterr().out
    assert (0 if is_judged else 1) == code, out
    assert is_judged is ("nothing is judged" not in out)


def test_a_finding_names_the_file_and_line_to_change(tmp_path: Path) -> None:
    inventory = an_inventory(RELEASE, tmp_path)
    (limit,) = judged(inventory, "throttling")
    assert f"{tmp_path}/release.yaml:17" == limit.change.where
    right = next(one for one in judged(inventory, "rights") if "csinodes" in one.wrong)
    assert f"{tmp_path}/release.yaml:22" == right.change.where
    assert "- {apiGroups: [storage.k8s.io], resources: [csinodes], verbs: [list, watch]}" == right.change.line


def test_what_a_release_lacks_may_be_in_the_cluster(tmp_path: Path) -> None:
    """The kinds of snapshots, their controller, a role, a secret: told, and nothing fails for it."""
    text = RELEASE.partition("---")[0].replace("csi-attacher", "csi-snapshotter").replace("qps=5", "qps=100")
    inventory = an_inventory(text, tmp_path)
    assert [] == wrong(inventory)
    assert all(judged(inventory, check) for check in ("definitions", "snapshot-parts", "rights"))


def read(path: Path | str, stdin: str = "") -> Inventory:
    inventory = Inventory(NOW_S, of_files=True)
    Files(inventory, stdin).read(str(path))
    return inventory


BASE = "resources: [release.yaml, gone.yaml]\nnamespace: base\npatches: [{path: p.yaml}]"


def test_a_kustomization_is_what_its_resources_are_in_its_namespace(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "kustomization.yaml").write_text(
        "resources: [release.yaml, gone.yaml]\nnamespace: base\npatches: [{path: p.yaml}]"
    )
    (tmp_path / "base" / "release.yaml").write_text(RELEASE)
    (tmp_path / "base" / "stray.yaml").write_text(RELEASE.replace("name: csi", "name: stray"))
    (tmp_path / "kustomization.yaml").write_text("resources: [base]\nnamespace: storage")
    inventory = read(tmp_path)
    assert ["storage/csi"] == [f"{one.namespace}/{one.name}" for one in inventory.all(DEPLOYMENTS)]
    assert any("has no right to" in one.wrong for one in judged(inventory, "rights")), (
        "the binding's account moved along"
    )
    assert {"the patches of", "the resource gone.yaml"} <= {" ".join(one.what.split()[:3]) for one in inventory.unseen}


def test_a_folder_is_all_yaml_and_json_below_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    body: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "c"},
        "provisioner": "x",
    }
    (tmp_path / "deep" / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [body]}))
    (tmp_path / "release.yaml").write_text(RELEASE)
    (tmp_path / "README.md").write_text("{{ no YAML")
    inventory = read(tmp_path)
    assert (1, 1) == (len(inventory.all(STORAGE_CLASSES)), len(inventory.all(DEPLOYMENTS)))


def test_a_place_without_manifests_is_told(tmp_path: Path) -> None:
    """A pipeline that looks at the wrong folder is not well in silence."""
    assert [(str(tmp_path), "it has no object that the doctor looks at")] == [
        (one.what, one.why) for one in read(tmp_path).unseen
    ]


@each_row("folder", ["", "chart"])
def test_a_chart_is_to_be_rendered_first(tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("name: csi")
    (chart / "templates" / "all.yaml").write_text("{{ .Values.all }}")
    assert 1 == run(["-f", str(tmp_path / folder)], "mooring doctor")
    said = " ".join(capsys.readouterr().out.split())
    assert f"not seen the chart {chart}: helm template {chart} | mooring doctor -f - judges what it renders" in said
    assert "nothing is judged: there is no object that the doctor knows" in said
    (tmp_path / "release.yaml").write_text(RELEASE)
    assert 3 == run(["-f", str(tmp_path)], "mooring doctor"), "what stands beside it is judged"


def test_stdin_without_an_object_that_it_knows_is_not_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("kind: ConfigMap\nmetadata: {name: c}"))
    assert 1 == run(["-f", "-"], "mooring doctor")
    out = capsys.readouterr().out
    assert "nothing is judged: there is no object that the doctor knows" in out
    assert "nothing is wrong" not in out


def test_stdin_is_a_file_too() -> None:
    assert 1 == len(read("-", RELEASE).all(DEPLOYMENTS))


NESTED = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@each_row(
    ("text", "said"),
    [
        ("a: {{ .Values.x }}", "if it is a template of Helm: helm template CHART | mooring doctor -f -"),
        ("a: {{ .Values.x }}", "release.yaml:1: "),
        ("a:\n  - b\n c: d", "release.yaml:3: "),
        (RELEASE.replace("replicas: 2", "replicas: two"), "release.yaml:2: Deployment: Expected `int`, got `str`"),
        (RELEASE.replace("verbs: [get, list, watch, patch]", "verbs: get"), "release.yaml:19: ClusterRole: "),
        (NESTED, f"it has more than {VALUES_MAX} values"),
        ("[" * 5000, "it is nested deeper than 256 levels"),
    ],
)
def test_what_is_no_manifest_is_named_with_its_line(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "release.yaml").write_text(text)
    (tmp_path / "storage.yaml").write_text("kind: Namespace\napiVersion: v1\nmetadata: {name: storage}")
    assert 3 == run(["-f", str(tmp_path), "-o", "json"], "mooring doctor")
    found = json.loads(capsys.readouterr().out)["findings"]
    assert any(said in f"{one['object']}: {one['wrong']}" for one in found if one["check"] == "files"), found


@each_row("bad", ["a:\n  - b\n c: d", "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nrules: 5"])
def test_beside_a_file_that_cant_be_read_the_rest_is_judged(
    tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(bad)
    (tmp_path / "release.yaml").write_text(RELEASE)
    assert 3 == run(["-f", str(tmp_path), "-o", "json"], "mooring doctor")
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {"files", "rights", "throttling"} == {one["check"] for one in found}
    assert f"{tmp_path}/a.yaml" in next(one["object"] for one in found if one["check"] == "files")


def test_a_file_that_cant_be_read_alone_makes_the_release_ill(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{")
    (tmp_path / "class.yaml").write_text("kind: Namespace\napiVersion: v1\nmetadata: {name: storage}")
    assert 3 == run(["-f", str(tmp_path)], "mooring doctor")


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == run(["-f", str(tmp_path / "gone")], "mooring doctor")
    assert "there is no such file or folder" in capsys.readouterr().err


def test_objects_of_other_kinds_are_passed_over(tmp_path: Path) -> None:
    inventory = an_inventory("kind: ConfigMap\nmetadata: 5\n---\njust text\n---\n", tmp_path)
    file = str(tmp_path / "release.yaml")
    assert ((), [f"document 2 of {file}", file]) == (inventory.all(ROLES), [one.what for one in inventory.unseen])


def test_a_release_with_findings_ends_with_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "release.yaml").write_text(RELEASE)
    assert 3 == run(["-f", str(tmp_path), "-o", "json"], "mooring doctor")
    found = json.loads(capsys.readouterr().out)
    assert {"rights", "throttling"} == {one["check"] for one in found["findings"]}
    assert {"ClusterRole": 1, "ClusterRoleBinding": 1, "Deployment": 1} == found["lookedAt"]


def test_text_fits_80_columns_but_for_what_is_to_be_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "release.yaml").write_text(RELEASE)
    run(["-f", str(tmp_path)], "mooring doctor")
    lines = capsys.readouterr().out.splitlines()
    assert "ERROR    Deployment default/csi, container csi-attacher" in lines
    assert all(len(line) <= 80 for line in lines if not line.startswith("           ") and str(tmp_path) not in line)
    assert lines[-1].endswith("3 objects looked at")


def test_a_wrong_output_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == run(["-o", "table"], "mooring doctor")
    assert "must be text, json or yaml" in capsys.readouterr().err


@each_row("name", ["", "a,"])
def test_a_name_that_is_empty_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of a script that is not set: the folder of the shell was judged."""
    assert 2 == run(["-f", name], "mooring doctor")
    assert "f: name a file or a folder, or - for stdin; got an empty name" in capsys.readouterr().err
