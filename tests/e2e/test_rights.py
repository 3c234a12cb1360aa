"""The attacher with the rights of its manifest and no others: everything it does is allowed, and what is not is told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mooring.csi.codes import Code
from tests.e2e.processes import ProcessTarget, on_server
from tests.e2e.targets import KINDS
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.scripted_driver import PUBLISH, RPC, Fail

MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "attacher" / "rbac.yaml"
NAMESPACE, ACCOUNT = "storage", "csi-attacher"  # as the manifest has them
ELECTION = (
    "--leader-election",
    f"--leader-election-namespace={NAMESPACE}",
    "--leader-election-lease-duration=2s",
    "--leader-election-renew-deadline=1500ms",
    "--leader-election-retry-period=300ms",
)


@contextlib.asynccontextmanager
async def as_deployed(plane: ControlPlane, folder: Path) -> AsyncIterator[tuple[ProcessTarget, FaultProxy]]:
    """A target whose attacher is the manifest's service account, by a token; the proxy has all its requests."""
    config = await asyncio.to_thread(_login, plane, folder)
    async with asyncio.timeout(90), fault_proxy(config, folder / "proxy.kubeconfig") as proxy, on_server(plane.kubeconfig()) as target:
        target.config = proxy.kubeconfig
        yield target, proxy


def _login(plane: ControlPlane, folder: Path) -> Path:
    """Applies the manifest, and gives a kubeconfig with a token of its account."""
    status, _ = plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    assert status in (201, 409)
    plane.kubectl("apply", "-f", str(MANIFEST))
    status, answer = plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token", {"spec": {}})
    assert 201 == status, answer
    values: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": plane.server, "certificate-authority-data": _base64(plane.ca_file)}}],
        "users": [{"name": ACCOUNT, "user": {"token": json.loads(answer)["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ACCOUNT}}],
    }
    config = folder / "kubeconfig"
    config.write_text(json.dumps(values))
    return config


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_the_manifests_rights_are_enough(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with as_deployed(control_plane, tmp_path) as (target, proxy):
        target.driver.controller = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
        target.driver.script(PUBLISH, Fail(Code.INTERNAL, "not at once"))
        pv, node = await target.volume(), await target.node()
        async with target.attaching("--retry-interval-start=100ms", "--reconcile-sync=300ms", *ELECTION) as first:
            va = await target.want(pv, node)
            await target.attached(va)
            async with target.attaching(*ELECTION):
                await target.until("the standby watches the Lease", lambda: _has_watched(proxy, "leases"))
                await first.end()
                await target.detached(va)
                await target.patch("PersistentVolume", pv, {"metadata": {"finalizers": [target.finalizer]}})
                await target.delete("PersistentVolume", pv)
                await target.gone("PersistentVolume", pv)
                await _events(target, 2)
        assert {} == target.left_over()
        assert "forbidden" not in first.log.lower()
        assert [] == [request for request in proxy.requests if request.status in (401, 403)]
        done = {(request.verb, request.resource) for request in proxy.requests}
        assert {
            *((verb, resource) for verb in ("list", "watch") for resource in ("volumeattachments", "persistentvolumes", "csinodes")),
            *(("patch", resource) for resource in ("persistentvolumes", "volumeattachments", "volumeattachments/status")),
            *((verb, "leases") for verb in ("get", "watch", "create", "update")),
            ("create", "events"),
        } <= done


async def _has_watched(proxy: FaultProxy, resource: str) -> bool:
    return any((request.verb, request.resource) == ("watch", resource) and request.status for request in proxy.requests)


async def _events(target: ProcessTarget, count: int) -> None:
    """The election's events: two began to lead."""
    lease = f"external-attacher-leader-{target.suffix}-csi-test"

    async def told() -> bool:
        page = await target.users.list(KINDS["Event"])
        told = [one for one in page.items if one["involvedObject"].get("name") == lease]
        assert all((one["type"], one["reason"], one["metadata"]["namespace"]) == ("Normal", "LeaderElection", NAMESPACE) for one in told)
        return len(told) >= count

    await target.until(f"{count} events about {lease}", told)


async def test_a_right_that_is_missing_is_named_at_the_object(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The manifest leaves secrets out. With the right given the attachment goes on by itself."""
    async with as_deployed(control_plane, tmp_path) as (target, _):
        secret, node = await target.secret({"a": "Yg=="}), await target.node()
        pv = await target.volume(controllerPublishSecretRef={"name": secret, "namespace": "default"})
        async with target.attaching("--retry-interval-start=100ms") as attacher:
            va = await target.want(pv, node)
            message = (await target.error(va))["message"]
            assert message.startswith(f'failed to load secret "default/{secret}": secrets "{secret}" is forbidden: ')
            assert f'User "system:serviceaccount:{NAMESPACE}:{ACCOUNT}" cannot get resource "secrets"' in message
            assert [] == target.driver.made(PUBLISH)
            await asyncio.to_thread(_grant_secrets, control_plane, target.name("secrets"), secret)
            assert "attachError" not in (await target.attached(va))["status"]
            assert {"a": "b"} == dict(target.driver.made(PUBLISH)[0].request.secrets)
            await target.detached(va)
            attacher.assert_alive()


def _grant_secrets(plane: ControlPlane, name: str, secret: str) -> None:
    """A Role in the secret's namespace, as the manifest recommends."""
    path, group = "/apis/rbac.authorization.k8s.io/v1/namespaces/default", "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}]
    assert 201 == plane.request("POST", f"{path}/roles", {"metadata": {"name": name}, "rules": rules})[0]
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    assert 201 == plane.request("POST", f"{path}/rolebindings", binding)[0]
