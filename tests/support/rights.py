"""Service accounts with the rights of a manifest: who acts as one, what it was refused, and which of its rights it did
not need.

manifest = deployed("attacher")
async with acting_as(manifest, plane, folder) as proxy:
    program(f"--kubeconfig={proxy.kubeconfig}")
    ...
assert [] == refused(proxy)
assert [] == manifest.unused(proxy)
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, Request, fault_proxy

Json = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
NAMESPACE = "storage"
"""Of all manifests in deploy."""

ELECTION = (
    "--leader-election",
    f"--leader-election-namespace={NAMESPACE}",
    "--leader-election-retry-period=300ms",
)
"""Flags where the manifests allow it: a quick one, with the usual time for a renewal, since a busy machine may need
some of it.
"""

OWNERS_ARE_CHECKED = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
"""A flag of the API server, as some clusters have it: a right is needed for each object that is made an owner."""

_DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


class Right(NamedTuple):
    """namespace: "" for all."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")

    def covers(self, request: Request) -> bool:
        asked = request.verb, _group(request), request.resource
        return asked == (self.verb, self.group, self.resource) and self.namespace in ("", request.namespace)


class Manifest:
    """One service account, and the roles that are bound to it. objects: as they are applied."""

    def __init__(self, objects: Sequence[Json]) -> None:
        self._objects = objects
        (account,) = (one["metadata"] for one in objects if one["kind"] == "ServiceAccount")
        self.account, self.namespace = str(account["name"]), str(account["namespace"])

    def rights(self) -> set[Right]:
        roles = [one for one in self._objects if one["kind"] in ("ClusterRole", "Role")]
        return {
            Right(verb, group, resource, role["metadata"].get("namespace", ""))
            for role in roles
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def unused(self, proxy: FaultProxy) -> list[str]:
        """The rights that none of the requests needed, such as `get leases.coordination.k8s.io`."""
        return sorted(
            str(right) for right in self.rights() if not any(right.covers(request) for request in proxy.requests)
        )

    def login(self, plane: ControlPlane, folder: Path) -> Path:
        """Applies the manifest, and gives a kubeconfig with a token of its account."""
        status, _ = plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert status in (201, 409)
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(self._objects))
        status, answer = plane.request(
            "POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.account}/token", {"spec": {}}
        )
        assert 201 == status, answer
        authority = base64.b64encode(plane.ca_file.read_bytes()).decode()
        values: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": plane.server, "certificate-authority-data": authority}}],
            "users": [{"name": self.account, "user": {"token": json.loads(answer)["status"]["token"]}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": self.account}}],
        }
        config = folder / "kubeconfig"
        config.write_text(json.dumps(values))
        return config

    def grant_secret(self, plane: ControlPlane, name: str, secret: str, namespace: str = "default") -> None:
        """A Role in the secret's namespace, as the manifests recommend. name: of the Role."""
        path = f"/apis/{GROUP}/v1/namespaces/{namespace}"
        rules = [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}]
        assert 201 == plane.request("POST", f"{path}/roles", {"metadata": {"name": name}, "rules": rules})[0]
        subject = {"kind": "ServiceAccount", "name": self.account, "namespace": self.namespace}
        role = {"apiGroup": GROUP, "kind": "Role", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        assert 201 == plane.request("POST", f"{path}/rolebindings", binding)[0]


def deployed(part: str, feature: str = "") -> Manifest:
    """What deploy/PART/rbac.yaml says. feature: a comment above rules that are comments themselves; with it they are
    none.
    """
    text = (_DEPLOY / part / "rbac.yaml").read_text()
    return Manifest(list(yaml.safe_load_all(_with(feature, text) if feature else text)))


def _with(feature: str, text: str) -> str:
    """The rules below the comment are taken in, up to the end of its ClusterRole, or to the next comment in words."""
    before, found, below = text.partition(f"  # {feature}")
    assert found, f"there are no rules for {feature!r}"
    block, end, after = below.partition("\n---")
    words, rules = re.split(r"\n(?=  # - apiGroups)", block, maxsplit=1)
    mine = re.match(r"(?:  # (?:- apiGroups|  resources|  verbs).*\n?)+", rules)
    assert mine
    return (
        f"{before}  # "
        f"{feature}{words}\n{re.sub('^  # ', '  ', mine[0], flags=re.MULTILINE)}{rules[mine.end() :]}{end}{after}"
    )


Rules = tuple[tuple[str, str, str], ...]
"""group, resources, verbs, as words"""

UPSTREAM: dict[str, Rules] = {
    "attacher": (
        ("", "persistentvolumes", "get list watch patch"),
        ("storage.k8s.io", "csinodes", "get list watch"),
        ("storage.k8s.io", "volumeattachments", "get list watch patch"),
        ("storage.k8s.io", "volumeattachments/status", "patch"),
    ),
    "provisioner": (
        ("", "persistentvolumes", "get list watch create patch delete"),
        ("", "persistentvolumeclaims", "get list watch update"),
        ("storage.k8s.io", "storageclasses csinodes", "get list watch"),
        ("", "nodes", "get list watch"),
        ("", "events", "list watch create update patch"),
        ("snapshot.storage.k8s.io", "volumesnapshots", "get list watch update"),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents", "get list"),
        ("storage.k8s.io", "volumeattachments", "get list watch"),
    ),
    "snapshot-controller": (
        ("", "persistentvolumes", "get list watch"),
        ("", "persistentvolumeclaims", "get list watch update"),
        ("", "events", "list watch create update patch"),
        ("snapshot.storage.k8s.io", "volumesnapshotclasses", "get list watch"),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents", "create get list watch update delete patch"),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents/status", "patch"),
        ("snapshot.storage.k8s.io", "volumesnapshots", "create get list watch update patch delete"),
        ("snapshot.storage.k8s.io", "volumesnapshots/status", "update patch"),
    ),
    "snapshotter": (
        ("", "events", "list watch create update patch"),
        ("snapshot.storage.k8s.io", "volumesnapshotclasses", "get list watch"),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents", "get list watch update patch"),
        ("snapshot.storage.k8s.io", "volumesnapshotcontents/status", "update patch"),
    ),
    "resizer": (
        ("", "persistentvolumes", "get list watch patch"),
        ("", "persistentvolumeclaims", "get list watch"),
        ("", "pods", "get list watch"),
        ("", "persistentvolumeclaims/status", "patch"),
        ("", "events", "list watch create update patch"),
        ("storage.k8s.io", "volumeattributesclasses", "get list watch"),
    ),
}
"""What the Go sidecars' own manifests give in the whole cluster. Secrets are left to those who need them."""

UPSTREAM_ELECTION: Rules = (("coordination.k8s.io", "leases", "get watch list delete update create"),)
UPSTREAM_CAPACITY: Rules = (
    ("storage.k8s.io", "csistoragecapacities", "get list watch create update patch delete"),
    ("", "pods", "get"),
    ("apps", "replicasets", "get"),
)
"""What they give in the sidecar's namespace."""


WAY_BACK: dict[str, frozenset[str]] = {
    "snapshot-controller": frozenset(
        {
            "get volumesnapshots.snapshot.storage.k8s.io",
            "update volumesnapshots.snapshot.storage.k8s.io",
            "update volumesnapshots/status.snapshot.storage.k8s.io",
        }
    ),
    "snapshotter": frozenset({"update volumesnapshotcontents/status.snapshot.storage.k8s.io"}),
}
"""What deploy/ gives for the Go program alone, so that a change of image is the whole way back."""


def just(name: str, everywhere: Rules, here: Rules = ()) -> Manifest:
    """An account of this name with these rights alone. here: in its own namespace."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
    return Manifest(
        [
            account,
            *_bound("ClusterRole", {"name": name}, everywhere),
            *_bound("Role", {"name": name, "namespace": NAMESPACE}, here),
        ]
    )


def _bound(kind: str, metadata: Json, rules: Rules) -> list[Json]:
    """A role of the account with the same name."""
    name = metadata["name"]
    listed = [
        {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
        for group, resources, verbs in rules
    ]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": GROUP, "kind": kind, "name": name}
    return [
        {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": listed},
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


@contextlib.asynccontextmanager
async def acting_as(manifest: Manifest, plane: ControlPlane, folder: Path) -> AsyncIterator[FaultProxy]:
    """A proxy whose kubeconfig logs in as the manifest's account; it has all requests that are made so."""
    config = await asyncio.to_thread(manifest.login, plane, folder)
    async with fault_proxy(config, folder / "proxy.kubeconfig") as proxy:
        yield proxy


def refused(proxy: FaultProxy) -> list[str]:
    """The requests that a right was missing for, such as `list leases.coordination.k8s.io`."""
    return [str(Right(one.verb, _group(one), one.resource)) for one in proxy.requests if one.status in (401, 403)]


async def has_asked(proxy: FaultProxy, verb: str, resource: str) -> bool:
    """True once such a request has been answered."""
    return any((one.verb, one.resource) == (verb, resource) and one.status for one in proxy.requests)


def _group(request: Request) -> str:
    return request.path.split("/")[2] if request.path.startswith("/apis/") else ""
