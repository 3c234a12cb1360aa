"""Comparing with the backend: what ListVolumes reports against what the attachments say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mooring.api.meta import annotation, is_deleting
from mooring.api.migration import TranslationError, repaired_handle
from mooring.api.storage import VolumeAttachment
from mooring.controllers.attacher.decide import Volume, resolve_volume
from mooring.controllers.attacher.view import NODE_ID_ANNOTATION, Drift, View
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(slots=True)
class Report:
    """One complete answer of the backend.

    published: volume handle -> node ids. unknown: handles whose entry carried no status, about which nothing may be concluded
    (external-attacher takes them for not published and publishes them each minute).
    """

    published: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    unknown: set[str] = dataclasses.field(default_factory=set)

    def add(self, entries: Iterable[csi.ListVolumesResponse.Entry]) -> None:
        """Takes in one page. A handle that comes again overwrites."""
        for entry in entries:
            if not entry.HasField("volume"):
                continue
            if entry.HasField("status"):
                self.published[entry.volume.volume_id] = frozenset(entry.status.published_node_ids)
            else:
                self.unknown.add(entry.volume.volume_id)


def find_drift(view: View, attachments: Iterable[VolumeAttachment], report: Report) -> Mapping[str, Drift]:
    """The attachments, by name, whose status the report contradicts. Those that can't be resolved now are left alone."""
    found = {}
    for attachment in attachments:
        drift = _drift(view, attachment, report) if attachment.spec.attacher == view.driver.name else None
        if drift is not None:
            found[attachment.metadata.name] = drift
    return found


def _drift(view: View, attachment: VolumeAttachment, report: Report) -> Drift | None:
    node_id = view.node_id(attachment.spec.node_name) or annotation(attachment, NODE_ID_ANNOTATION)
    volume = resolve_volume(view, attachment)
    if not node_id or not isinstance(volume, Volume):
        return None
    handle = volume.handle
    if volume.may_be_incomplete:
        try:
            handle = repaired_handle(view.driver.name, handle, node_id)
        except TranslationError:
            return None
    if handle in report.unknown and handle not in report.published:
        return None
    published = node_id in report.published.get(handle, ())
    if published == attachment.status.attached:
        return None
    if published:
        return Drift.EXTRA
    return None if is_deleting(attachment) and not view.holds(attachment) else Drift.MISSING
