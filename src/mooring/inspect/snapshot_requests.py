"""The CSI request that csi-snapshotter would send for a content, built by its own functions on objects that are read for it.

A call about a group is built from a VolumeGroupSnapshot or its content, any other from a VolumeSnapshot or its content: the call decides.
The snapshotter is taken to have no flags but those that are usual, and to take care of groups if the driver makes them. What it remembers
of earlier answers is not known here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

from mooring.api.group_snapshot import GROUP_SNAPSHOTS, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.api.snapshot_names import is_group_content
from mooring.cluster.snapshots.view import content_key
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.inspect.built import Built, NoRequest, Objects, not_now
from mooring.inspect.scene import Shelf
from mooring.kube.errors import NotServed
from mooring.kube.list_all import list_all
from mooring.sidecars.snapshotter.decide import decide_content
from mooring.sidecars.snapshotter.decision import Action, Ask, Create, Delete, Way
from mooring.sidecars.snapshotter.kinds import GROUPS, SINGLES, Content, Row
from mooring.sidecars.snapshotter.memory import Memory
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from mooring.sidecars.snapshotter.requests import (
    Made,
    RequestError,
    create_order,
    creation_secret,
    list_of_volume_request,
    question_secret,
)
from mooring.sidecars.snapshotter.view import (
    CONTENT_INDEXES,
    View,
    class_name_of,
    handle_of,
    imported_handle,
    is_given_up,
    is_going,
    members_of,
    ref_of,
    row_of,
    volumes_of,
)


class SnapshotRequests:
    """driver: the one that would get the calls."""

    def __init__(self, objects: Objects, driver: DriverCapabilities) -> None:
        self._objects, self._driver = objects, driver

    async def from_snapshot(self, rpc: str, key: Key) -> Built:
        """Of a VolumeSnapshot, or a VolumeGroupSnapshot. Raises NoRequest, ApiError, SecretError."""
        row = self._row_for(rpc)
        kind: Any = VOLUME_SNAPSHOTS if row is SINGLES else GROUP_SNAPSHOTS
        snapshot = await self._objects.cluster.get(kind, key.name, key.namespace)
        content: Content | None = await self._objects.find(row.kind, content_key(snapshot).name)
        if content is None:
            raise NoRequest(f"the {kind.name} {key} has no content yet: nothing is sent before it has one")
        ref = ref_of(content)
        if (ref.namespace, ref.name) != (key.namespace, key.name) or ref.uid not in ("", snapshot.metadata.uid):
            raise NoRequest(
                f"the {kind.name} {key} names {content.metadata.name}, which is of another one: {ref.namespace}/{ref.name}"
            )
        return await self._built(rpc, row, content)

    async def from_content(self, rpc: str, name: str) -> Built:
        """Of a VolumeSnapshotContent, or a VolumeGroupSnapshotContent. Raises NoRequest, ApiError, SecretError."""
        row = self._row_for(rpc)
        return await self._built(rpc, row, await self._objects.cluster.get(row.kind, name))

    async def _built(self, rpc: str, row: Row, content: Content) -> Built:
        name = content.metadata.name
        about = f"{row.kind.name} {name}"
        if content.spec.driver != self._driver.name:
            raise NoRequest(
                f"{about} is of driver {content.spec.driver}, and {self._driver.name} answers at --csi-address"
            )
        view = await self._view(row, content, deletes=rpc.startswith("Delete"))
        decision = decide_content(view, row, name, self._objects.clock.now())
        try:
            return await _BUILDERS[rpc](self, view, content, decision)
        except RequestError as error:
            raise NoRequest(f"{about}: {error}") from None

    async def _view(self, row: Row, content: Content, *, deletes: bool) -> View:
        """deletes: with all other contents, which may stand for the same snapshot."""
        groups_too = self._driver.group_snapshots
        singles: Shelf[VolumeSnapshotContent] = Shelf(CONTENT_INDEXES)
        groups: Shelf[VolumeGroupSnapshotContent] = Shelf(CONTENT_INDEXES)
        classes: Shelf[VolumeSnapshotClass] = Shelf()
        group_classes: Shelf[VolumeGroupSnapshotClass] = Shelf()
        shelves: dict[str, tuple[Shelf[Any], Shelf[Any]]] = {
            SINGLES.noun: (singles, classes),
            GROUPS.noun: (groups, group_classes),
        }
        shelves[row.noun][0].put(content)
        if deletes:
            for one in (SINGLES, GROUPS) if groups_too else (SINGLES,):
                async for other in self._all(one):
                    shelves[one.noun][0].put(other)
        if name := class_name_of(content):
            found = await self._objects.find(row.classes, name)
            if found is not None:
                shelves[row.noun][1].put(found)
        return View(
            self._driver, singles, classes, Memory(), SnapshotterOptions(groups=groups_too), groups, group_classes
        )

    async def _all(self, row: Row) -> AsyncGenerator[Content, None]:
        """The driver's contents; none of a kind that the cluster does not have."""
        with contextlib.suppress(NotServed):
            async for content in list_all(self._objects.cluster, row.kind):
                if content.spec.driver == self._driver.name:
                    yield content

    # -- the calls

    async def _create(self, view: View, content: Content, decision: Decision[Action]) -> Built:
        if imported_handle(content) is not None:
            raise NoRequest(
                f"{content.metadata.name} is of a {row_of(content).noun} that was there before: nobody makes it"
            )
        if isinstance(content, VolumeSnapshotContent) and is_group_content(content):
            raise NoRequest(f"{content.metadata.name} is of a group's snapshot, which CreateVolumeGroupSnapshot makes")
        due = next((action.order for action in decision.actions if isinstance(action, Create)), None)
        found = view.class_of(content)
        if due is None and found is not None and found.driver != self._driver.name:
            raise NoRequest(
                f"class {found.metadata.name} is of driver {found.driver}, and {self._driver.name} answers at --csi-address"
            )
        order = due or create_order(view, content, replayed=False)
        secrets = await self._objects.secret(creation_secret(content))
        request = order.request(secrets) if row_of(content) is SINGLES else order.group_request(secrets)
        return Built(request, () if due is not None else not_now(str(decision.because)))

    async def _delete(self, view: View, content: Content, decision: Decision[Action]) -> Built:
        if (
            isinstance(content, VolumeSnapshotContent)
            and content.status is not None
            and content.status.volume_group_snapshot_handle
        ):
            raise NoRequest(
                f"{content.metadata.name} is of a group's snapshot, which DeleteVolumeGroupSnapshot deletes"
            )
        due = next((action.made for action in decision.actions if isinstance(action, Delete)), None)
        made = due or self._made(content, handle_of(content))
        secrets = await self._objects.secret(creation_secret(content))
        request = made.delete_request(secrets) if row_of(content) is SINGLES else made.delete_group_request(secrets)
        return Built(request, () if due is not None else not_now(_why_not_deleted(content, decision)))

    async def _list(self, view: View, content: Content, decision: Decision[Action]) -> Built:
        secrets = await self._secret_of_question(view, content)
        handle = handle_of(content) or imported_handle(content)
        if handle:
            return Built(Made(handle).list_request(secrets), self._unless_asked(decision, Way.LIST))
        if not volumes_of(content):
            raise NoRequest(f"{content.metadata.name} names neither a snapshot nor a volume")
        only_then = (
            "the list of a volume is asked only for a deleted snapshot whose making the driver refuses to tell of"
        )
        return Built(list_of_volume_request(volumes_of(content)[0], "", secrets), not_now(only_then))

    async def _get(self, view: View, content: Content, decision: Decision[Action]) -> Built:
        made = self._made(content, handle_of(content) or imported_handle(content))
        return Built(
            made.get_request(await self._secret_of_question(view, content)), self._unless_asked(decision, Way.GET)
        )

    async def _get_group(self, view: View, content: Content, decision: Decision[Action]) -> Built:
        made = self._made(content, handle_of(content) or imported_handle(content))
        return Built(
            made.get_group_request(await self._secret_of_question(view, content)),
            self._unless_asked(decision, Way.GET_GROUP),
        )

    # -- the parts

    async def _secret_of_question(self, view: View, content: Content) -> Mapping[str, str]:
        return await self._objects.secret(question_secret(view, content))

    def _made(self, content: Content, handle: str | None) -> Made:
        if not handle:
            raise NoRequest(
                f"{content.metadata.name} names no {row_of(content).noun} that the driver has made: it has no handle yet"
            )
        return Made(handle, members_of(content))

    def _row_for(self, rpc: str) -> Row:
        """Raises NoRequest, also where the driver can't answer, so that no snapshotter asks."""
        if rpc not in KNOWN:
            raise NoRequest(f"{rpc} is not built from snapshots; these are: {', '.join(KNOWN)}")
        row = GROUPS if "Group" in rpc else SINGLES
        driver, asked = self._driver, "ControllerGetCapabilities"
        needs = [(driver.snapshots, asked, "CREATE_DELETE_SNAPSHOT")]  # else its snapshotter does not start
        if row is GROUPS:
            needs.append((driver.group_snapshots, "GetPluginCapabilities", "GROUP_CONTROLLER_SERVICE"))
        if rpc == Way.LIST.value:
            needs.append((driver.lists_snapshots, asked, "LIST_SNAPSHOTS"))
        if rpc == Way.GET.value:
            needs.append((driver.gets_snapshots, asked, "GET_SNAPSHOT"))
        for able, where, name in needs:
            if not able:
                raise NoRequest(f"nobody sends {rpc} to {driver.name}: its {where} does not name {name}")
        return row

    def _unless_asked(self, decision: Decision[Action], way: Way) -> tuple[str, ...]:
        """A note where the driver would not be asked in this way now. Where the snapshotter learns first what the driver can, it lists."""
        ask = next((action for action in decision.actions if isinstance(action, Ask)), None)
        if ask is None:
            return not_now(str(decision.because))
        lists = ask.learn and ask.way is Way.GET and self._driver.lists_snapshots
        goes = Way.LIST if lists else ask.way
        return () if goes is way else not_now(f"{goes.value} would be")


def _why_not_deleted(content: Content, decision: Decision[Action]) -> str:
    noun = row_of(content).noun
    if is_going(content) or is_given_up(content):
        return str(decision.because)
    return (
        f"the content is deleted, and its {noun} is not" if is_deleting(content) else f"nobody has deleted the {noun}"
    )


_BUILDERS: Final[Mapping[str, Callable[[SnapshotRequests, View, Content, Decision[Action]], Awaitable[Built]]]] = {
    "CreateSnapshot": SnapshotRequests._create,
    "DeleteSnapshot": SnapshotRequests._delete,
    "ListSnapshots": SnapshotRequests._list,
    "GetSnapshot": SnapshotRequests._get,
    "CreateVolumeGroupSnapshot": SnapshotRequests._create,
    "DeleteVolumeGroupSnapshot": SnapshotRequests._delete,
    "GetVolumeGroupSnapshot": SnapshotRequests._get_group,
}
KNOWN: Final = tuple(_BUILDERS)
