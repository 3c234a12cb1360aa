"""Which volumes a Node's status should list as attached, and the patch that says so. Pure.

Entries of other plugins stay as they are; differs from upstream, which drops them. An entry of a CSI volume that has no attachment goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mooring.api.core import AttachedVolume, Node
from mooring.api.volume_names import PLUGIN
from mooring.base.clock import Instant
from mooring.cluster.attachdetach.facts import Volume
from mooring.cluster.attachdetach.identity import WAITED
from mooring.cluster.attachdetach.release import Rules, is_to_be_reported
from mooring.cluster.attachdetach.waited import written_on
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch

Report = tuple[AttachedVolume, ...]


def report_of(
    node: Node, volumes: Iterable[Volume], rules: Rules, now: Instant, stale: Collection[str] | None = None
) -> Report:
    """The whole list, sorted. stale: the names whose entries are made anew, from these volumes; the others stay. None for all of CSI."""
    name = node.metadata.name
    listed: Mapping[str, AttachedVolume] = {one.name: one for one in node.status.volumes_attached or ()}
    kept = {
        key: one
        for key, one in listed.items()
        if (not key.startswith(f"{PLUGIN}/") if stale is None else key not in stale)
    }
    ours = {
        volume.unique: listed.get(volume.unique, AttachedVolume(volume.unique))
        for volume in volumes
        if name in volume.places and is_to_be_reported(volume, volume.places[name], rules, now)
    }
    wanted = {**kept, **ours}
    return tuple(wanted[key] for key in sorted(wanted))


def is_current(node: Node, report: Report) -> bool:
    """True when the status lists exactly these, in whatever order."""
    return sorted(report, key=_by_name) == sorted(node.status.volumes_attached or (), key=_by_name)


def _by_name(one: AttachedVolume) -> str:
    return one.name


def report_patch(node: Node, report: Report, waited: str) -> Patch:
    """The whole list, since it is replaced as a whole; refused where another Node has taken the name. waited: as of `waited.note_of`."""
    listed = [{"name": one.name, "devicePath": one.device_path} for one in report]
    noted = {} if waited == written_on(node) else {"annotations": {WAITED: waited or None}}
    return merge_patch({"metadata": noted, "status": {"volumesAttached": listed or None}}, of=node)
