"""A healthy set-up of one driver as YAML, for `mooring doctor`, and ways to break it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.inspect.doctor.checks import findings_in
from mooring.inspect.doctor.files import Files
from mooring.inspect.doctor.finding import Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import READ
from tests.support.rights import UPSTREAM, UPSTREAM_CAPACITY, UPSTREAM_ELECTION, Rules

NOW_S: Final = 1_780_000_000.0
GO: Final = "registry.k8s.io/sig-storage"
SECRET_KEYS: Final = {
    "csi.storage.k8s.io/provisioner-secret-name": "creds",
    "csi.storage.k8s.io/provisioner-secret-namespace": "vault",
}
FAST: Final = ("--kube-api-qps=100", "--kube-api-burst=200")


def sidecar(program: str, *flags: str, image: str = "") -> dict[str, Any]:
    return {"name": program, "image": image or f"{GO}/{program}:v9.9.9", "args": ["--leader-election", *FAST, *flags]}


def deployment(
    *containers: dict[str, Any],
    name: str = "csi",
    replicas: int = 2,
    kind: str = "Deployment",
    namespace: str = "storage",
) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "csi", "containers": list(containers)}}
    spec = {
        "selector": {"matchLabels": labels},
        "template": template,
        **({} if kind == "DaemonSet" else {"replicas": replicas}),
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def rights(everywhere: Rules, here: Rules = (), account: str = "csi") -> list[dict[str, Any]]:
    """Roles of the account in the namespace `storage`, and their bindings."""
    found = []
    for kind, rules in (("ClusterRole", everywhere), ("Role", here)):
        metadata = {"name": account, **({"namespace": "storage"} if kind == "Role" else {})}
        listed = [
            {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
            for group, resources, verbs in rules
        ]
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "storage"}
        api = "rbac.authorization.k8s.io/v1"
        found.append({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": listed})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account}
        found.append(
            {"apiVersion": api, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": ref, "subjects": [subject]}
        )
    return found


def upstream_rights(*programs: str) -> list[dict[str, Any]]:
    """What the Go sidecars' own manifests give, and the right that the provisioner's lacks."""
    everywhere = [rule for program in programs for rule in UPSTREAM[program]]
    everywhere.append(("storage.k8s.io", "volumeattributesclasses", "get"))
    return rights(tuple(everywhere), (*UPSTREAM_ELECTION, *UPSTREAM_CAPACITY))


def definitions(
    *versions: str, group: str = "snapshot.storage.k8s.io", prefix: str = "volumesnapshot"
) -> list[dict[str, Any]]:
    listed = [{"name": version, "served": True} for version in versions]
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{prefix}{end}.{group}"},
            "spec": {"group": group, "versions": listed},
        }
        for end in ("s", "contents", "classes")
    ]


def csi_driver(name: str = "csi.test") -> dict[str, Any]:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": {}}


def storage_class(
    name: str = "fast",
    provisioner: str = "csi.test",
    *,
    default: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": notes},
        "provisioner": provisioner,
        "parameters": dict(parameters or {}),
    }


def an_inventory(text: str, folder: Path, *, of_files: bool = True) -> Inventory:
    """What a file with this text has; with of_files=False as if a cluster had it."""
    file = folder / "release.yaml"
    file.write_text(text)
    read, inventory = Inventory(NOW_S, of_files=True), Inventory(NOW_S, of_files=False)
    Files(read).read(str(file))
    for item in (item for kind in READ for item in read.all(kind)):
        inventory.put(msgspec.structs.replace(item, marks=None))
    return read if of_files else inventory


def judged(inventory: Inventory, check: str) -> list[Finding]:
    return [one for one in findings_in(inventory) if one.check == check]


def wrong(inventory: Inventory) -> list[Finding]:
    return [one for one in findings_in(inventory) if one.severity is not Severity.NOTE]


def the_only(findings: list[Finding]) -> Finding:
    assert 1 == len(findings), findings
    return findings[0]


def healthy() -> list[dict[str, Any]]:
    """A driver with all sidecars of upstream's, as upstream's manifests give them their rights."""
    names = ("csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller")
    return [
        deployment(*(sidecar(name) for name in names)),
        *upstream_rights("attacher", "provisioner", "resizer", "snapshotter", "snapshot-controller"),
        *definitions("v1"),
        csi_driver(),
        storage_class(default=True),
    ]
