"""The real kubectl about what the server says of itself, and applying on the server's side. The same words from both
servers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conformance.conftest import Server
from tests.support.applying import SHAPE_DEFINITION, owners
from tests.support.builders import a_class
from tests.support.real import kubectl, run_kubectl
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def config(server: Server, tmp_path: Path) -> Path:
    """A kubeconfig beside which kubectl keeps its cache. The custom kind is served."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(server.kubeconfig.read_bytes())
    made = server.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", SHAPE_DEFINITION)
    assert made.status in (201, 409), made
    eventually(lambda: server.api.get("/apis/mooring.test/v1/shapes").status == 200, 30, "the kind is served")
    eventually(
        lambda: "Shape" in server.api.get("/openapi/v3/apis/mooring.test/v1").body.decode(),
        30,
        "its schema is published",
    )
    return path


def class_text(name: str, **fields: object) -> str:
    return json.dumps(a_class(name, **fields))


def stored(config: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(kubectl(config, "get", "sc", name, "-o", "json", "--show-managed-fields"))
    return found


def test_kubectl_applies_on_the_servers_side(config: Path, name: str) -> None:
    first = class_text(name, mountOptions=["a"])
    other = class_text(name, mountOptions=["b"])
    say = ("apply", "--server-side", "-f", "-")
    assert f"storageclass.storage.k8s.io/{name} serverside-applied\n" == kubectl(config, *say, stdin=first)
    refused = run_kubectl(config, *say, "--field-manager=other", stdin=other)
    assert 1 == refused.returncode
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .mountOptions' in refused.stderr
    assert "(server dry run)" in kubectl(config, *say, "--dry-run=server", stdin=other)
    assert ["a"] == stored(config, name)["mountOptions"]
    kubectl(config, *say, "--field-manager=other", "--force-conflicts", stdin=other)
    assert ["b"] == stored(config, name)["mountOptions"]
    assert {"kubectl": {"f:provisioner": {}}, "other": {"f:mountOptions": {}, "f:provisioner": {}}} == owners(
        stored(config, name)
    )


def test_kubectl_moves_from_its_own_side_to_the_servers_and_back(config: Path, name: str) -> None:
    kubectl(config, "apply", "-f", "-", stdin=class_text(name, mountOptions=["a"]))
    moved = run_kubectl(config, "apply", "--server-side", "-f", "-", stdin=class_text(name, mountOptions=["b"]))
    assert (0, ["b"]) == (moved.returncode, stored(config, name)["mountOptions"]), moved.stderr
    note = json.loads(kubectl(config, "get", "sc", name, "-o", "json"))["metadata"]["annotations"]
    assert ["b"] == json.loads(note["kubectl.kubernetes.io/last-applied-configuration"])["mountOptions"]
    assert "configured" in kubectl(config, "apply", "-f", "-", stdin=class_text(name, mountOptions=["c"]))
    assert ["c"] == stored(config, name)["mountOptions"]


@each_row("side", [[], ["--server-side"]], ids=["client side", "server side"])
def test_kubectl_shows_differences(config: Path, name: str, side: list[str]) -> None:
    kubectl(config, "apply", *side, "-f", "-", stdin=class_text(name, mountOptions=["a"]))
    same = run_kubectl(config, "diff", *side, "-f", "-", stdin=class_text(name, mountOptions=["a"]))
    assert (0, "") == (same.returncode, same.stdout)
    other = run_kubectl(config, "diff", *side, "-f", "-", stdin=class_text(name, mountOptions=["b"]))
    assert 1 == other.returncode
    assert re.search(r"^-- a$", other.stdout, re.M), other.stdout
    assert re.search(r"^\+- b$", other.stdout, re.M), other.stdout
    assert ["a"] == stored(config, name)["mountOptions"]


def test_kubectl_has_unknown_fields_refused(config: Path, name: str) -> None:
    odd = class_text(name, odd=1)
    for command in (["create"], ["apply"], ["apply", "--server-side"]):
        refused = run_kubectl(config, *command, "-f", "-", stdin=odd)
        assert 1 == refused.returncode
        assert "odd" in refused.stderr
    assert (
        'Warning: unknown field "odd"' in run_kubectl(config, "create", "--validate=warn", "-f", "-", stdin=odd).stderr
    )


EXPLAINED = {
    "csinode.spec": """GROUP:      storage.k8s.io
KIND:       CSINode
VERSION:    v1
FIELD: spec <CSINodeSpec>
FIELDS:
drivers	<[]CSINodeDriver> -required-
allocatable	<VolumeNodeResources>
count	<integer>
name	<string> -required-
nodeID	<string> -required-
topologyKeys	<[]string>""",
    "pvc.spec.resources": """KIND:       PersistentVolumeClaim
VERSION:    v1
FIELD: resources <VolumeResourceRequirements>
FIELDS:
limits	<map[string]Quantity>
requests	<map[string]Quantity>""",
    "sc.allowedTopologies": """GROUP:      storage.k8s.io
KIND:       StorageClass
VERSION:    v1
FIELD: allowedTopologies <[]TopologySelectorTerm>
FIELDS:
matchLabelExpressions	<[]TopologySelectorLabelRequirement>
key	<string> -required-
values	<[]string> -required-""",
    "shape.spec.items": """GROUP:      mooring.test
KIND:       Shape
VERSION:    v1
FIELD: items <[]Object>
FIELDS:
name	<string>
port	<integer> -required-
protocol	<string>""",
}


@each_row("path", EXPLAINED)
def test_kubectl_explains_fields(config: Path, path: str) -> None:
    """But for the descriptions, which are ours."""
    told = kubectl(config, "explain", path, "--recursive")
    lines = [line.strip() for line in re.sub(r"DESCRIPTION:\n.*?(?=FIELDS:)", "", told, flags=re.S).splitlines()]
    assert EXPLAINED[path].splitlines() == [line for line in lines if line]


def test_kubectl_explains_every_kind_to_its_depth(config: Path) -> None:
    kinds = [
        "pv",
        "pvc",
        "pod",
        "node",
        "secret",
        "sc",
        "csidriver",
        "csinode",
        "volumeattachment",
        "lease",
        "event",
        "crd",
        "shape",
    ]
    for kind in kinds:
        assert "metadata" in kubectl(config, "explain", kind, "--recursive")


def test_kubectl_lists_kinds_and_versions(config: Path) -> None:
    told = kubectl(config, "api-resources", "-o", "wide", "--api-group=storage.k8s.io")
    head, *rows = [re.split(r"  +", line.strip()) for line in told.splitlines()]
    assert ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"] == head
    verbs = "create,delete,deletecollection,get,list,patch,update,watch"
    kinds = {row[0]: row[1:] for row in rows}
    assert ["sc", "storage.k8s.io/v1", "false", "StorageClass", verbs] == kinds["storageclasses"]
    assert ["storage.k8s.io/v1", "true", "CSIStorageCapacity", verbs] == kinds["csistoragecapacities"]
    custom = kubectl(config, "api-resources", "-o", "wide", "--api-group=mooring.test", "--no-headers").split()
    verbs = "delete,deletecollection,get,list,patch,create,update,watch"
    assert ["shapes", "mooring.test/v1", "false", "Shape", verbs] == custom[custom.index("shapes") :][:5]
    assert {"v1", "storage.k8s.io/v1", "coordination.k8s.io/v1", "mooring.test/v1"} <= set(
        kubectl(config, "api-versions").split()
    )
