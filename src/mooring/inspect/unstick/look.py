"""One look at an object, and at all that its finalizers protect. What may not be seen is an error here: nothing is proved without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, Kind
from mooring.api.migration import driver_and_handle, driver_of
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Clock
from mooring.inspect.left_behind import Traces
from mooring.inspect.objects import NotThere
from mooring.inspect.removed_driver import Search
from mooring.inspect.renewals import LeaseSight
from mooring.inspect.unstick.authors import authors_of
from mooring.inspect.unstick.driver_word import Witness
from mooring.inspect.unstick.facts import DriverWord, Facts
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound
from mooring.kube.list_all import list_all

KINDS: Final[dict[str, Kind[Any]]] = {"pv": PERSISTENT_VOLUMES, "volumeattachment": VOLUME_ATTACHMENTS}


class Look:
    """Looks as often as it is asked. witness: the driver, None where it is not asked. watching: as for Search."""

    def __init__(
        self, cluster: Cluster, clock: Clock, kind: str, key: Key, witness: Witness | None, watching: Callable[[str], None]
    ) -> None:
        self._cluster, self._clock, self._kind, self._key, self._witness = cluster, clock, kind, key, witness
        self._watching = watching
        self._search: Search | None = None
        self._uid = ""

    async def first(self) -> Facts:
        """Raises NotThere, and what `again` raises."""
        facts = await self.again()
        if facts is None:
            raise NotThere(f'{self._kind} "{self._key}" does not exist')
        return facts

    async def again(self) -> Facts | None:
        """None once the object is gone, or is another one of its name. Raises ApiError, DriverError, CannotLook."""
        try:
            whole = await self._cluster.get(KINDS[self._kind].whole(), self._key.name, self._key.namespace)
        except NotFound:
            return None
        self._uid = self._uid or whole["metadata"]["uid"]
        facts = await self._of_driver(whole)
        return facts if facts is not None and facts.obj.metadata.uid == self._uid else None

    async def _of_driver(self, whole: dict[str, Any]) -> Facts | None:
        """Of an attachment, or a volume. The objects are those of one search: each is judged as it was among the others."""
        driver = await self._driver(whole)
        self._search = self._search or Search(self._cluster, self._clock, driver, self._watching)
        traces = await self._search.look()
        found: tuple[Any, ...] = traces.volumes if self._kind == "pv" else traces.attachments
        obj = next((one for one in found if one.metadata.uid == whole["metadata"]["uid"]), None)
        if obj is None:
            return None
        nodes = {one.metadata.name: one.spec.drivers or () async for one in list_all(self._cluster, CSI_NODES)}
        return Facts(
            obj,
            self._kind,
            driver=driver,
            leases=LeaseSight(traces.live_leases, traces.silent_leases),
            traces=traces,
            word=await self._word(obj, traces),
            failure=_failure(obj),
            node_ids={name: one.node_id for name, drivers in nodes.items() for one in drivers if one.name == driver},
            authors=authors_of(whole),
        )

    async def _driver(self, whole: dict[str, Any]) -> str:
        if self._kind == "volumeattachment":
            return str(whole["spec"]["attacher"])
        return driver_of(await self._cluster.get(PERSISTENT_VOLUMES, self._key.name))

    async def _word(self, obj: Any, traces: Traces) -> DriverWord | None:
        if self._witness is None:
            return None
        pv = obj if isinstance(obj, PersistentVolume) else _volume_of(obj, traces)
        if pv is not None:
            affinity = pv.spec.node_affinity
            return await self._witness.about_volume(
                traces.driver, driver_and_handle(pv)[1], affinity.required if affinity is not None else None
            )
        inline = obj.spec.source.inline_volume_spec
        handle = inline.csi.volume_handle if inline is not None and inline.csi is not None else ""
        return await self._witness.about_volume(traces.driver, handle, None)


def _volume_of(attachment: VolumeAttachment, traces: Traces) -> PersistentVolume | None:
    name = attachment.spec.source.persistent_volume_name
    return next((one for one in traces.volumes if one.metadata.name == name), None)


def _failure(obj: Any) -> str:
    """The last error of the driver's tries to let it go, "" for none."""
    if isinstance(obj, VolumeAttachment) and obj.status.detach_error is not None:
        return obj.status.detach_error.message
    return ""
