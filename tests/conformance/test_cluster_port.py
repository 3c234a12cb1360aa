"""What every `Cluster` must do: in process, over HTTP on the embedded server, over HTTP on the real one. One body
each.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUMES, SECRETS, Secret
from mooring.api.meta import Kind
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.apiserver.table import HistoryLimits
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import Cluster, EventType, Patch, PatchType, Row, Selection, WatchEvent
from mooring.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    Unreachable,
)
from mooring.kube.patch import add_finalizer, remove_finalizer
from tests.conformance.conftest import EMBEDDED_HISTORY, Server
from tests.support.builders import a_csi_node, a_lease, a_pv, a_secret, a_va
from tests.support.relay import Relay, relay_to
from tests.support.rows import each_row

Event = WatchEvent[Any]
HOLD, OTHERS_HOLD = "example.com/hold", "example.com/others-hold"
WAIT_S = 20.0


class Target(abc.ABC):
    """A cluster, and what only its other end can do. bookmark_s: a watch of that length ends with a bookmark."""

    def __init__(self, cluster: Cluster, bookmark_s: float) -> None:
        self.cluster, self.bookmark_s = cluster, bookmark_s

    @abc.abstractmethod
    async def forget(self) -> Kind[dict[str, Any]]:
        """A kind of which the server has forgotten version 1."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Breaks what is open; watches notice at the next event at the latest."""


class Local(Target):
    """The store in this process."""

    def __init__(self) -> None:
        self._faults = _Scissors()
        randomness = Random(1)
        store = new_store(randomness, time.time(), HistoryLimits(changes_max=EMBEDDED_HISTORY))
        Housekeeping(store, clock=LoopClock()).start()
        super().__init__(
            LocalCluster(store, clock=LoopClock(), randomness=randomness, faults=self._faults), bookmark_s=0.2
        )

    async def forget(self) -> Kind[dict[str, Any]]:
        for number in range(EMBEDDED_HISTORY // 2 + 2):
            await self.cluster.create(VOLUME_ATTACHMENTS, a_va(f"flood-{number}"))
            await self.cluster.delete(VOLUME_ATTACHMENTS, f"flood-{number}")
        return VOLUME_ATTACHMENTS.whole()

    def cut(self) -> None:
        self._faults.cuts += 1


class _Scissors(ServerFaults):
    def __init__(self) -> None:
        self.cuts = 0

    async def deliver(self, kind: Kind[Any], event: Event) -> None:
        if self.cuts:
            self.cuts -= 1
            raise Unreachable("cut by the test")


class Http(Target):
    """A server behind a relay that can break connections."""

    def __init__(self, cluster: Cluster, server: Server, relay: Relay) -> None:
        super().__init__(cluster, bookmark_s=6.0 if server.is_real else 1.0)
        self._server, self._relay = server, relay

    async def forget(self) -> Kind[dict[str, Any]]:
        path = self._server.forget()
        group, version, plural = path.split("/")[2:]
        return Kind(group, version, "", plural, False, dict)

    def cut(self) -> None:
        self._relay.cut()


@contextlib.asynccontextmanager
async def http_target(server: Server) -> AsyncIterator[Target]:
    config = load(str(server.kubeconfig), {})
    place = urlsplit(config.server)
    assert place.hostname is not None
    assert place.port is not None
    async with relay_to(place.hostname, place.port) as relay:
        relayed = dataclasses.replace(config, server=f"https://127.0.0.1:{relay.port}")
        async with HttpCluster(relayed, clock=LoopClock(), randomness=Random(1), user_agent="port-tests") as cluster:
            yield Http(cluster, server, relay)


@pytest.fixture(params=["local", "embedded", pytest.param("real", marks=[pytest.mark.real, pytest.mark.slow])])
async def target(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    if request.param == "local":
        yield Local()
        return
    server = request.getfixturevalue("servers")(request.param)
    async with http_target(server) as found:
        yield found


@pytest.fixture
def cluster(target: Target) -> Cluster:
    return target.cluster


@dataclasses.dataclass
class Watching:
    """A watch that is read step by step."""

    events: AsyncGenerator[Event, None]

    async def take(self, count: int) -> list[Event]:
        """So many events; bookmarks between them are passed over."""
        taken: list[Event] = []
        async with asyncio.timeout(WAIT_S):
            while len(taken) < count:
                event = await anext(self.events)
                if event.type is not EventType.BOOKMARK:
                    taken.append(event)
        return taken

    async def rest(self) -> list[Event]:
        async with asyncio.timeout(WAIT_S):
            return [event async for event in self.events]


@contextlib.asynccontextmanager
async def watching(
    cluster: Cluster, kind: Kind[Any], version: str, selection: Selection, timeout_s: float = 0.0
) -> AsyncIterator[Watching]:
    events = cluster.watch(kind, selection, resource_version=version, timeout_s=timeout_s)
    async with contextlib.aclosing(events):
        yield Watching(events)


def named(name: str) -> Selection:
    return Selection(field_selector=f"metadata.name={name}")


def labelled(name: str) -> Selection:
    return Selection("default", label_selector=f"set={name}")


def brief(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type.value, event.object.metadata.name) for event in events if event.object is not None]


async def label(cluster: Cluster, name: str, **labels: str | None) -> Secret:
    return await cluster.patch(SECRETS, name, Patch(PatchType.MERGE, {"metadata": {"labels": labels}}), "default")


# what is not served


def unserved(
    group: str = "nosuch.test", version: str = "v1", plural: str = "nosuch", *, namespaced: bool = False
) -> Kind[Any]:
    return Kind(group, version, "NoSuch", plural, namespaced, dict)


@each_row(
    "kind",
    [
        unserved(),
        unserved(namespaced=True),
        unserved("storage.k8s.io"),
        unserved("storage.k8s.io", "v9", "volumeattachments"),
        unserved("", namespaced=True),
    ],
    ids=["group", "group, namespaced", "resource", "version", "core"],
)
async def test_a_kind_that_is_not_served_is_no_object_that_is_gone(cluster: Cluster, kind: Kind[Any]) -> None:
    namespace = "default" if kind.namespaced else ""
    change = Patch(PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}})
    verbs = [
        cluster.get(kind, "x", namespace),
        cluster.list(kind, Selection(namespace or None)),
        anext(cluster.watch(kind, Selection(namespace or None), resource_version="1", timeout_s=1.0)),
        cluster.create(kind, {"metadata": {"name": "x"}}, namespace),
        cluster.replace(kind, {"metadata": {"name": "x"}}, namespace),
        cluster.patch(kind, "x", change, namespace),
        cluster.delete(kind, "x", namespace),
    ]
    for verb in verbs:
        with pytest.raises(NotServed, match="the server could not find the requested resource"):
            await verb
    assert not await cluster.serves(kind)


@each_row("kind", [VOLUME_ATTACHMENTS, SECRETS])
async def test_discovery_has_what_is_served(cluster: Cluster, kind: Kind[Any]) -> None:
    assert await cluster.serves(kind)


# reading and writing


async def test_a_created_object_comes_back_typed_and_filled_in(cluster: Cluster, name: str) -> None:
    made = await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    assert isinstance(made, VolumeAttachment)
    assert ("csi.test", "pv1", False) == (
        made.spec.attacher,
        made.spec.source.persistent_volume_name,
        made.status.attached,
    )
    assert made.metadata.uid
    assert int(made.metadata.resource_version) > 0
    assert made == await cluster.get(VOLUME_ATTACHMENTS, name)


async def test_a_struct_may_be_created_too(cluster: Cluster, name: str) -> None:
    first = await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    twin = VolumeAttachment(metadata=type(first.metadata)(name=f"{name}-2"), spec=first.spec)
    assert first.spec == (await cluster.create(VOLUME_ATTACHMENTS, twin)).spec


async def test_whole_objects_keep_what_no_struct_knows(cluster: Cluster, name: str) -> None:
    whole = await cluster.create(
        CSI_NODES.whole(), a_csi_node(name, [{"name": "d", "nodeID": "n", "allocatable": {"count": 7}}])
    )
    assert {"count": 7} == whole["spec"]["drivers"][0]["allocatable"]


async def test_a_list_is_in_order_and_of_its_selection(cluster: Cluster, name: str) -> None:
    for letter in "cab":
        await cluster.create(SECRETS, a_secret(f"{name}-{letter}", labels={"set": name, "letter": letter}), "default")
    page = await cluster.list(SECRETS, labelled(name))
    assert [f"{name}-{letter}" for letter in "abc"] == [item.metadata.name for item in page.items]
    assert {"default"} == {item.metadata.namespace for item in page.items}
    assert int(page.resource_version) >= max(int(item.metadata.resource_version) for item in page.items)
    one = await cluster.list(
        SECRETS, Selection(label_selector=f"set={name},letter!=a", field_selector=f"metadata.name!={name}-b")
    )
    assert [f"{name}-c"] == [item.metadata.name for item in one.items]
    assert () == (await cluster.list(SECRETS, Selection("kube-system", label_selector=f"set={name}"))).items


async def test_rows_are_what_kubectl_prints(cluster: Cluster, name: str) -> None:
    for node in ("n1", "n2"):
        await cluster.create(VOLUME_ATTACHMENTS, a_va(f"{name}-{node}", f"pv-{name}", node))
    await cluster.patch(
        VOLUME_ATTACHMENTS, f"{name}-n1", Patch(PatchType.MERGE, {"status": {"attached": True}}), subresource="status"
    )
    rows, token = list[Row](), ""
    while True:
        page = await cluster.list(VOLUME_ATTACHMENTS.decoded_as(Row), limit=1, continue_token=token)
        rows += [row for row in page.items if row.cells["PV"] == f"pv-{name}"]
        token = page.continue_token
        if not token:
            break
    shown = [{column: cell for column, cell in row.cells.items() if column != "Age"} for row in rows]
    first = {"Name": f"{name}-n1", "Attacher": "csi.test", "PV": f"pv-{name}", "Node": "n1", "Attached": True}
    assert [first, {**first, "Name": f"{name}-n2", "Node": "n2", "Attached": False}] == shown


async def test_pages_show_one_moment(cluster: Cluster, name: str) -> None:
    for number in range(5):
        await cluster.create(SECRETS, a_secret(f"{name}-{number}", labels={"set": name}), "default")
    first = await cluster.list(SECRETS, labelled(name), limit=2)
    await cluster.delete(SECRETS, f"{name}-4", "default")
    second = await cluster.list(SECRETS, labelled(name), limit=2, continue_token=first.continue_token)
    third = await cluster.list(SECRETS, labelled(name), limit=2, continue_token=second.continue_token)
    found = [item.metadata.name for page in (first, second, third) for item in page.items]
    assert [f"{name}-{number}" for number in range(5)] == found
    assert {first.resource_version} == {second.resource_version, third.resource_version}
    assert not third.continue_token


async def test_a_replaced_object_must_be_the_newest(cluster: Cluster, name: str) -> None:
    lease = await cluster.create(LEASES.whole(), a_lease(name), "default")
    changed = {**lease, "spec": {**lease["spec"], "holderIdentity": "you"}}
    assert "you" == (await cluster.replace(LEASES, changed, "default")).spec.holder_identity
    with pytest.raises(Conflict, match="the object has been modified"):
        await cluster.replace(LEASES, changed, "default")


async def test_a_lease_may_be_created_by_replacing_it(cluster: Cluster, name: str) -> None:
    assert (await cluster.replace(LEASES, a_lease(name), "default")).metadata.uid


@each_row(
    ("kind", "body"),
    [
        (PatchType.MERGE, {"metadata": {"labels": {"a": None, "b": "2"}}}),
        (PatchType.STRATEGIC, {"metadata": {"labels": {"a": None, "b": "2"}}}),
        (
            PatchType.JSON,
            [{"op": "remove", "path": "/metadata/labels/a"}, {"op": "add", "path": "/metadata/labels/b", "value": "2"}],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
async def test_each_patch_type_is_applied(cluster: Cluster, name: str, kind: PatchType, body: Any) -> None:
    await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"a": "1"}))
    assert {"b": "2"} == (await cluster.patch(VOLUME_ATTACHMENTS, name, Patch(kind, body))).metadata.labels


async def test_an_apply_makes_what_is_not_there_and_leaves_what_others_own(cluster: Cluster, name: str) -> None:
    def labelled(labels: dict[str, str]) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": labels}, "spec": a_lease(name)["spec"]}

    async def applied(labels: dict[str, str], manager: str, *, force: bool = False) -> dict[str, str] | None:
        body = labelled(labels)
        lease = await cluster.apply(LEASES.whole(), body, "default", manager=manager, force=force)
        found: dict[str, str] | None = lease["metadata"].get("labels")
        return found

    assert {"a": "1", "b": "1"} == await applied({"a": "1", "b": "1"}, "one")
    assert {"a": "1", "b": "1", "c": "1"} == await applied({"c": "1"}, "two")
    assert {"a": "1", "c": "1"} == await applied({"a": "1"}, "one"), "what it leaves out is gone"
    with pytest.raises(Conflict, match="one"):
        await applied({"a": "2"}, "two")
    assert {"a": "2"} == await applied({"a": "2"}, "two", force=True)


async def test_an_apply_to_the_status_leaves_the_rest(cluster: Cluster, name: str) -> None:
    await cluster.create(VOLUME_ATTACHMENTS, a_va(name, labels={"a": "1"}))
    body = {"metadata": {"name": name}, "status": {"attached": True}}
    applied = await cluster.apply(VOLUME_ATTACHMENTS, body, manager="one", subresource="status")
    assert (True, {"a": "1"}) == (applied.status.attached, applied.metadata.labels)


async def test_a_status_patch_changes_status_alone(cluster: Cluster, name: str) -> None:
    await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    change = {"status": {"attached": True}, "metadata": {"labels": {"a": "b"}}}
    patched = await cluster.patch(VOLUME_ATTACHMENTS, name, Patch(PatchType.MERGE, change), subresource="status")
    assert (True, None) == (patched.status.attached, patched.metadata.labels)


async def test_a_patch_that_changes_nothing_keeps_the_version(cluster: Cluster, name: str) -> None:
    made = await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    assert made == await cluster.patch(VOLUME_ATTACHMENTS, name, Patch(PatchType.MERGE, {"metadata": {"labels": None}}))


async def test_a_finalizer_holds_what_is_deleted(cluster: Cluster, name: str) -> None:
    await cluster.create(VOLUME_ATTACHMENTS, a_va(name, finalizers=[HOLD]))
    await cluster.delete(VOLUME_ATTACHMENTS, name)
    assert (await cluster.get(VOLUME_ATTACHMENTS, name)).metadata.deletion_timestamp
    last = await cluster.patch(VOLUME_ATTACHMENTS, name, Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}))
    assert last.metadata.deletion_timestamp
    assert not last.metadata.finalizers
    with pytest.raises(NotFound):
        await cluster.get(VOLUME_ATTACHMENTS, name)


async def test_finalizers_come_and_go_one_by_one(cluster: Cluster, name: str) -> None:
    async def patched(patch: Patch) -> Secret:
        return await cluster.patch(SECRETS, name, patch, "default")

    bare = await cluster.create(SECRETS, a_secret(name), "default")
    ours = await patched(add_finalizer(bare, HOLD))
    both = await patched(add_finalizer(ours, OTHERS_HOLD))
    assert ((HOLD,), (HOLD, OTHERS_HOLD)) == (ours.metadata.finalizers, both.metadata.finalizers)
    theirs = await patched(remove_finalizer(both, HOLD))
    assert (OTHERS_HOLD,) == theirs.metadata.finalizers
    predecessor = msgspec.structs.replace(theirs, metadata=msgspec.structs.replace(theirs.metadata, uid="another"))
    for outdated in (
        add_finalizer(bare, HOLD),
        add_finalizer(ours, "example.com/third"),
        add_finalizer(predecessor, HOLD),
        remove_finalizer(both, HOLD),
        remove_finalizer(both, OTHERS_HOLD),
        remove_finalizer(predecessor, OTHERS_HOLD),
    ):
        with pytest.raises(Invalid):
            await patched(outdated)
    assert theirs == await cluster.get(SECRETS, name, "default")
    assert (OTHERS_HOLD, HOLD) == (await patched(add_finalizer(theirs, HOLD, strictly=False))).metadata.finalizers
    last = await patched(remove_finalizer(theirs, OTHERS_HOLD))
    assert not (await patched(remove_finalizer(last, HOLD))).metadata.finalizers


async def test_a_policy_goes_with_a_deletion(cluster: Cluster, name: str) -> None:
    owner = await cluster.create(SECRETS, a_secret(f"{name}-owner"), "default")
    ref = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": f"{name}-owner",
        "uid": owner.metadata.uid,
        "blockOwnerDeletion": True,
    }
    child = a_secret(f"{name}-child", ownerReferences=[ref], finalizers=[HOLD])
    made = await cluster.create(SECRETS, child, "default")
    async with watching(cluster, SECRETS, made.metadata.resource_version, named(f"{name}-child")) as watch:
        await cluster.delete(SECRETS, f"{name}-owner", "default", propagation="Foreground")
        (marked,) = await watch.take(1)
    assert marked.object.metadata.deletion_timestamp
    assert ["foregroundDeletion"] == list(
        (await cluster.get(SECRETS, f"{name}-owner", "default")).metadata.finalizers or ()
    )
    await cluster.patch(SECRETS, f"{name}-child", Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), "default")


# refusals


@dataclasses.dataclass(frozen=True)
class Refusal:
    """do: the call on an attachment that is there. message: what the error says, {name} filled in."""

    do: Callable[[Cluster, str], Awaitable[object]]
    error: type[ApiError]
    reason: str
    message: str


def patching(body: Any, kind: PatchType = PatchType.MERGE) -> Callable[[Cluster, str], Awaitable[object]]:
    return lambda cluster, name: cluster.patch(VOLUME_ATTACHMENTS, name, Patch(kind, body))


RESOURCE = "volumeattachments.storage.k8s.io"
REFUSALS = {
    "get": Refusal(
        lambda c, n: c.get(VOLUME_ATTACHMENTS, f"no-{n}"), NotFound, "NotFound", f'{RESOURCE} "no-{{name}}" not found'
    ),
    "delete": Refusal(
        lambda c, n: c.delete(VOLUME_ATTACHMENTS, f"no-{n}"),
        NotFound,
        "NotFound",
        f'{RESOURCE} "no-{{name}}" not found',
    ),
    "create_again": Refusal(
        lambda c, n: c.create(VOLUME_ATTACHMENTS, a_va(n)),
        AlreadyExists,
        "AlreadyExists",
        f'{RESOURCE} "{{name}}" already exists',
    ),
    "immutable": Refusal(patching({"spec": {"nodeName": "x"}}), Invalid, "Invalid", "field is immutable"),
    "failed_test": Refusal(
        patching([{"op": "test", "path": "/metadata/name", "value": "x"}], PatchType.JSON),
        Invalid,
        "Invalid",
        "the server rejected our request due to an error in our request",
    ),
    "stale_patch": Refusal(
        patching({"metadata": {"resourceVersion": "1"}}), Conflict, "Conflict", "the object has been modified"
    ),
    "foreign_uid": Refusal(
        patching({"metadata": {"uid": "x"}}), Invalid, "Invalid", 'metadata.uid: Invalid value: "x": field is immutable'
    ),
    "wrong_uid": Refusal(
        lambda c, n: c.delete(VOLUME_ATTACHMENTS, n, uid="x"),
        Conflict,
        "Conflict",
        "the UID in the precondition (x) does not match",
    ),
    "missing_namespace": Refusal(
        lambda c, n: c.create(SECRETS, a_secret(n), "no-such"), NotFound, "NotFound", 'namespaces "no-such" not found'
    ),
    "no_namespace": Refusal(
        lambda c, n: c.create(SECRETS, a_secret(n)), BadRequest, "BadRequest", "resource namespace may not be empty"
    ),
    "hostile_name": Refusal(
        lambda c, n: c.get(SECRETS, "../x", "default"),
        BadRequest,
        "BadRequest",
        "it may not be '.' or '..', nor contain '/' or '%'",
    ),
    "label_selector": Refusal(
        lambda c, n: c.list(SECRETS, Selection(label_selector="a b")),
        BadRequest,
        "BadRequest",
        "unable to parse requirement",
    ),
    "field_selector": Refusal(
        lambda c, n: c.list(SECRETS, Selection(field_selector="data=x")),
        BadRequest,
        "BadRequest",
        "field label not supported: data",
    ),
    "unreadable": Refusal(
        lambda c, n: c.create(PERSISTENT_VOLUMES, a_pv(f"{n}-2", capacity={"storage": "1Gib"})),
        BadRequest,
        "BadRequest",
        "quantities must match the regular expression",
    ),
}


@each_row("row", REFUSALS)
async def test_a_refusal_has_its_class_its_reason_and_its_words(cluster: Cluster, name: str, row: str) -> None:
    await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    refusal = REFUSALS[row]
    with pytest.raises(refusal.error) as refused:
        await refusal.do(cluster, name)
    assert refusal.error is type(refused.value)
    assert refusal.reason == refused.value.reason
    assert refusal.message.format(name=name) in str(refused.value)


async def test_an_invalid_object_names_each_wrong_field(cluster: Cluster, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        await cluster.create(PERSISTENT_VOLUMES, a_pv(name, accessModes=["Odd"], volumeMode="Tape"))
    fields = {(cause["reason"], cause["field"]) for cause in refused.value.details["causes"]}
    assert {("FieldValueNotSupported", "spec.accessModes"), ("FieldValueNotSupported", "spec.volumeMode")} == fields


# watching


async def test_a_watch_shows_later_changes_in_order(cluster: Cluster, name: str) -> None:
    await cluster.create(SECRETS, a_secret(f"{name}-0", labels={"set": name}), "default")
    start = (await cluster.list(SECRETS, labelled(name))).resource_version
    async with watching(cluster, SECRETS, start, labelled(name)) as watch:
        await cluster.create(SECRETS, a_secret(f"{name}-1", labels={"set": name}), "default")
        await label(cluster, f"{name}-0", a="b")
        await cluster.delete(SECRETS, f"{name}-1", "default")
        events = await watch.take(3)
    assert [("ADDED", f"{name}-1"), ("MODIFIED", f"{name}-0"), ("DELETED", f"{name}-1")] == brief(events)
    assert all(isinstance(event.object, Secret) for event in events)
    versions = [event.resource_version for event in events]
    assert sorted(versions, key=int) == versions
    assert versions == [event.object.metadata.resource_version for event in events]


async def test_a_watch_from_nowhere_begins_with_what_is_there(cluster: Cluster, name: str) -> None:
    for number in range(2):
        await cluster.create(SECRETS, a_secret(f"{name}-{number}", labels={"set": name}), "default")
    async with watching(cluster, SECRETS, "", labelled(name)) as watch:
        assert [("ADDED", f"{name}-0"), ("ADDED", f"{name}-1")] == sorted(brief(await watch.take(2)))
        await label(cluster, f"{name}-1", a="b")
        assert [("MODIFIED", f"{name}-1")] == brief(await watch.take(1))


async def test_entering_and_leaving_a_selection_is_added_and_deleted(cluster: Cluster, name: str) -> None:
    made = await cluster.create(SECRETS, a_secret(name, labels={"set": name}), "default")
    async with watching(cluster, SECRETS, made.metadata.resource_version, labelled(name)) as watch:
        await label(cluster, name, set="other")
        back = await label(cluster, name, set=name)
        gone, added = await watch.take(2)
    assert [("DELETED", name), ("ADDED", name)] == brief([gone, added])
    assert gone.object is not None
    assert {"set": name} == gone.object.metadata.labels
    assert int(made.metadata.resource_version) < int(gone.resource_version) < int(back.metadata.resource_version)


async def test_a_watch_resumes_without_gap_or_twin(cluster: Cluster, name: str) -> None:
    version = (await cluster.list(SECRETS, labelled(name))).resource_version
    for number in range(6):
        await cluster.create(SECRETS, a_secret(f"{name}-{number}", labels={"set": name}), "default")
    seen: list[str] = []
    while len(seen) < 6:
        async with watching(cluster, SECRETS, version, labelled(name)) as watch:
            for event in await watch.take(2):
                seen.append(event.object.metadata.name)
                version = event.resource_version
    assert [f"{name}-{number}" for number in range(6)] == seen


async def test_a_cut_watch_is_unreachable_and_loses_nothing_when_resumed(target: Target, name: str) -> None:
    cluster = target.cluster
    made = await cluster.create(SECRETS, a_secret(name, labels={"set": name}), "default")
    async with watching(cluster, SECRETS, made.metadata.resource_version, labelled(name)) as watch:
        await label(cluster, name, n="1")
        (seen,) = await watch.take(1)
        target.cut()
        await label(cluster, name, n="2")
        with pytest.raises(Unreachable):
            await watch.rest()
    async with watching(cluster, SECRETS, seen.resource_version, labelled(name)) as watch:
        (event,) = await watch.take(1)
    assert event.object is not None
    assert "2" == event.object.metadata.labels["n"]


async def test_a_watch_ends_by_itself_with_a_bookmark_to_go_on_from(target: Target, name: str) -> None:
    cluster = target.cluster
    start = (await cluster.list(SECRETS, labelled(name))).resource_version
    async with watching(cluster, SECRETS, start, labelled(name), timeout_s=target.bookmark_s) as watch:
        await cluster.create(SECRETS, a_secret(name, labels={"set": name}), "default")
        await watch.take(1)  # (it is open by now)
        other = await cluster.create(SECRETS, a_secret(f"{name}-other"), "default")
        events = await watch.rest()
    assert EventType.BOOKMARK is events[-1].type
    assert events[-1].object is None
    assert int(events[-1].resource_version) >= int(other.metadata.resource_version), (
        "it covers changes that the watch did not show"
    )


async def test_a_watch_from_a_forgotten_version_is_gone(target: Target) -> None:
    kind = await target.forget()
    async with watching(target.cluster, kind, "1", Selection()) as watch:
        with pytest.raises(Gone, match=r"too old resource version: 1 \("):
            await watch.take(1)


async def test_all_watchers_see_the_same(cluster: Cluster, name: str) -> None:
    made = await cluster.create(SECRETS, a_secret(name, labels={"set": name}), "default")
    async with contextlib.AsyncExitStack() as stack:
        watches = [
            await stack.enter_async_context(watching(cluster, SECRETS, made.metadata.resource_version, labelled(name)))
            for _ in range(4)
        ]
        for number in range(3):
            await label(cluster, name, n=str(number))
        stories = [[(event.type, event.resource_version) for event in await watch.take(3)] for watch in watches]
    assert [stories[0]] * 4 == stories


async def test_a_watch_that_is_given_up_harms_nobody(cluster: Cluster, name: str) -> None:
    made = await cluster.create(SECRETS, a_secret(name, labels={"set": name}), "default")
    for _ in range(5):
        async with watching(cluster, SECRETS, made.metadata.resource_version, labelled(name)) as watch:
            await label(cluster, name, n=str(_))
            await watch.take(1)
    assert {"set": name, "n": "4"} == (await cluster.get(SECRETS, name, "default")).metadata.labels


async def test_one_object_is_watched_by_its_name(cluster: Cluster, name: str) -> None:
    made = await cluster.create(VOLUME_ATTACHMENTS, a_va(name))
    async with watching(cluster, VOLUME_ATTACHMENTS, made.metadata.resource_version, named(name)) as watch:
        await cluster.create(VOLUME_ATTACHMENTS, a_va(f"{name}-other"))
        await cluster.delete(VOLUME_ATTACHMENTS, name)
        assert [("DELETED", name)] == brief(await watch.take(1))
