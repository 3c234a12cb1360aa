"""The attacher with the rights of its manifest and no others: everything it does is allowed, and what is not is
told.
"""

from __future__ import annotations

import asyncio
import contextlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from mooring.wire.grpc.codes import Code
from tests.e2e.processes import ProcessTarget, on_server
from tests.e2e.targets import KINDS
from tests.support.control_plane import ControlPlane
from tests.support.fault_proxy import FaultProxy
from tests.support.programs import free_ports
from tests.support.rights import (
    ELECTION,
    NAMESPACE,
    UPSTREAM,
    UPSTREAM_ELECTION,
    Manifest,
    acting_as,
    deployed,
    has_asked,
    just,
    refused,
)
from tests.support.scripted_driver import PUBLISH, RPC, Fail

ATTACHER = deployed("attacher")
SELDOM_NEEDED = {
    "get volumeattachments.storage.k8s.io": "one that is marked as attached already is looked at: is it the same one?",
    "get nodes": "the driver does not know a machine that it is to detach from: is it deleted?",
    "patch events": "who leads a second time is told of by counting up",
}
"""What only happens by chance."""


@contextlib.asynccontextmanager
async def as_deployed(
    plane: ControlPlane, folder: Path, manifest: Manifest = ATTACHER
) -> AsyncIterator[tuple[ProcessTarget, FaultProxy]]:
    """A target whose attacher is the manifest's service account, by a token; the proxy has all its requests."""
    async with (
        asyncio.timeout(90),
        acting_as(manifest, plane, folder) as proxy,
        on_server(plane.kubeconfig()) as target,
    ):
        target.config = proxy.kubeconfig
        target.environ["POD_NAMESPACE"] = NAMESPACE
        yield target, proxy


async def test_the_manifests_rights_are_enough_and_all_are_needed(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with as_deployed(control_plane, tmp_path) as (target, proxy):
        log = await _everything_happens(target, proxy, lambda: _events(target, 2))
        assert "forbidden" not in log.lower()
        assert [] == refused(proxy)
        assert set() == set(ATTACHER.unused(proxy)) - SELDOM_NEEDED.keys()


async def test_only_who_leads_is_refused_under_the_rights_of_upstreams_manifest(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The image alone is exchanged: there is no right to events there, and the election's are refused, as Go's are."""
    rights = just("upstreams-attacher", UPSTREAM["attacher"], UPSTREAM_ELECTION)
    async with as_deployed(control_plane, tmp_path, rights) as (target, proxy):
        log = await _everything_happens(
            target, proxy, lambda: target.until("the second leader tells so", lambda: _has_been_refused(proxy, 3))
        )
        assert "The API server refused an event" in log
        assert {"create events"} == set(refused(proxy))


async def _has_been_refused(proxy: FaultProxy, count: int) -> bool:
    return count <= sum(one.status == 403 for one in proxy.requests)


async def _everything_happens(target: ProcessTarget, proxy: FaultProxy, is_told: Callable[[], Awaitable[None]]) -> str:
    """The first leader's log. is_told: waits for what two leaders do to tell of themselves: the end of the one, and the
    beginning of the other.
    """
    target.driver.controller = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
    target.driver.script(PUBLISH, Fail(Code.INTERNAL, "not at once"))
    pv, node = await target.volume(), await target.node()
    async with target.attaching("--retry-interval-start=100ms", "--reconcile-sync=300ms", "--v=2", *ELECTION) as first:
        va = await target.want(pv, node)
        await target.attached(va)
        await _told_what_is_missing(target, target.name("lost"), node)
        await _told_what_is_missing(target, pv, target.name("nowhere"))
        async with target.attaching(*ELECTION):
            await target.until("the standby watches the Lease", lambda: has_asked(proxy, "watch", "leases"))
            await first.end()
            await target.detached(va)
            await target.patch("PersistentVolume", pv, {"metadata": {"finalizers": [target.finalizer]}})
            await target.delete("PersistentVolume", pv)
            await target.gone("PersistentVolume", pv)
            await is_told()
    assert {} == target.left_over()
    return first.log


async def _told_what_is_missing(target: ProcessTarget, pv: str | None, node: str) -> None:
    """It is asked for before it is told."""
    va = await target.want(pv, node)
    assert "not found" in (await target.error(va))["message"]
    await target.detached(va)


async def _events(target: ProcessTarget, count: int) -> None:
    """The election's events: two began to lead."""
    lease = f"external-attacher-leader-{target.suffix}-csi-test"

    async def told() -> bool:
        page = await target.users.list(KINDS["Event"])
        told = [one for one in page.items if one["involvedObject"].get("name") == lease]
        assert all(
            (one["type"], one["reason"], one["metadata"]["namespace"])
            == ("Normal", "LeaderElection", ATTACHER.namespace)
            for one in told
        )
        return len(told) >= count

    await target.until(f"{count} events about {lease}", told)


async def test_a_kind_that_it_may_not_list_is_named_by_readyz(control_plane: ControlPlane, tmp_path: Path) -> None:
    """With the right given it gets ready by itself."""
    nodes = ("storage.k8s.io", "csinodes", "get list watch")
    rights = just("blind-attacher", tuple(rule for rule in UPSTREAM["attacher"] if rule != nodes))
    (port,) = free_ports(1)
    async with (
        as_deployed(control_plane, tmp_path, rights) as (target, _),
        target.attaching(f"--http-endpoint=127.0.0.1:{port}"),
    ):

        async def readyz(text: str) -> bool:
            try:
                return text in await asyncio.to_thread(_asked, f"http://127.0.0.1:{port}/readyz")
            except OSError:
                return False

        user = f"system:serviceaccount:{rights.namespace}:{rights.account}"
        why = (
            f'csinodes.storage.k8s.io is forbidden: User "{user}" cannot list resource "csinodes" in API group '
            '"storage.k8s.io"'
        )
        await target.until(
            "readyz names the kind",
            lambda: readyz(f"not ready: the caches are not filled yet: can't follow csinodes: {why} at the"),
        )
        more = just(rights.account, UPSTREAM["attacher"])
        await asyncio.to_thread(more.login, control_plane, tmp_path)
        await target.until("it is ready", lambda: readyz("ok"))


def _asked(url: str) -> str:
    """What it answers, ready or not."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())


async def test_a_right_that_is_missing_is_named_at_the_object(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The manifest leaves secrets out. With the right given the attachment goes on by itself."""
    async with as_deployed(control_plane, tmp_path) as (target, _):
        secret, node = await target.secret({"a": "Yg=="}), await target.node()
        pv = await target.volume(controllerPublishSecretRef={"name": secret, "namespace": "default"})
        async with target.attaching("--retry-interval-start=100ms") as attacher:
            va = await target.want(pv, node)
            message = (await target.error(va))["message"]
            assert message.startswith(f'failed to load secret "default/{secret}": secrets "{secret}" is forbidden: ')
            assert (
                f'User "system:serviceaccount:{ATTACHER.namespace}:{ATTACHER.account}" cannot get resource "secrets"'
                in message
            )
            assert [] == target.driver.made(PUBLISH)
            await asyncio.to_thread(ATTACHER.grant_secret, control_plane, target.name("secrets"), secret)
            assert "attachError" not in (await target.attached(va))["status"]
            assert {"a": "b"} == dict(target.driver.made(PUBLISH)[0].request.secrets)
            await target.detached(va)
            attacher.assert_alive()
