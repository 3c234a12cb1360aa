"""Requests that lack one required field each: a driver refuses them all with InvalidArgument."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mooring.conform.asker import Asker
from mooring.conform.book.identity import NEEDS
from mooring.conform.book.requests import INCOMPLETE, REQUIRED
from mooring.conform.check import Chapter, Stopped
from mooring.conform.finder import told
from mooring.conform.life import CREATES, Life
from mooring.csi.driver import RPCS
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

_GONE: Final = "conform-no-such-volume"
_CONTROLLER: Final = "Controller Service [Controller Server] > "
_GROUP: Final = "GroupController Service [GroupController VolumeGroupSnapshots] > "


class Group(NamedTuple):
    """csi-sanity's tests of a call. fields: the end of a test's name, by the field that is lacking."""

    name: str
    fields: Mapping[str, str]


_NO_ID: Final = "should fail when no volume id is provided"
_SANITY: Final[Mapping[str, Group]] = {
    "create_volume": Group(
        f"{_CONTROLLER}CreateVolume",
        {
            "name": "should fail when no name is provided",
            "volume_capabilities": "should fail when no volume capabilities are provided",
        },
    ),
    "delete_volume": Group(f"{_CONTROLLER}DeleteVolume", {"volume_id": _NO_ID}),
    "validate_volume_capabilities": Group(
        f"{_CONTROLLER}ValidateVolumeCapabilities",
        {"volume_id": _NO_ID, "volume_capabilities": "should fail when no volume capabilities are provided"},
    ),
    "controller_publish_volume": Group(
        f"{_CONTROLLER}ControllerPublishVolume",
        {
            "volume_id": _NO_ID,
            "node_id": "should fail when no node id is provided",
            "volume_capability": "should fail when no volume capability is provided",
        },
    ),
    "controller_unpublish_volume": Group(f"{_CONTROLLER}ControllerUnpublishVolume", {"volume_id": _NO_ID}),
    "controller_expand_volume": Group(
        "ExpandVolume [Controller Server]",
        {
            "volume_id": "should fail if no volume id is given",
            "capacity_range": "should fail if no capacity range is given",
        },
    ),
    "controller_modify_volume": Group(
        "ModifyVolume [Controller Server]", {"volume_id": "should fail if no volume id is given"}
    ),
    "controller_get_volume": Group("", {"volume_id": ""}),
    "create_snapshot": Group(
        "CreateSnapshot [Controller Server]",
        {
            "name": "should fail when no name is provided",
            "source_volume_id": "should fail when no source volume id is provided",
        },
    ),
    "delete_snapshot": Group(
        "DeleteSnapshot [Controller Server]", {"snapshot_id": "should fail when no snapshot id is provided"}
    ),
    "get_snapshot": Group("GetSnapshot [Controller Server]", {"snapshot_id": "should return an error"}),
    "create_volume_group_snapshot": Group(
        f"{_GROUP}CreateVolumeGroupSnapshot", {"name": "should fail when no name is provided"}
    ),
    "get_volume_group_snapshot": Group(f"{_GROUP}GetVolumeGroupSnapshot", {"group_snapshot_id": _NO_ID}),
    "delete_volume_group_snapshot": Group(f"{_GROUP}DeleteVolumeGroupSnapshot", {"group_snapshot_id": _NO_ID}),
    "node_stage_volume": Group(
        "Node Service > NodeStageVolume",
        {
            "volume_id": _NO_ID,
            "staging_target_path": "should fail when no staging target path is provided",
            "volume_capability": "should fail when no volume capability is provided",
        },
    ),
    "node_unstage_volume": Group(
        "Node Service > NodeUnstageVolume",
        {"volume_id": _NO_ID, "staging_target_path": "should fail when no staging target path is provided"},
    ),
    "node_publish_volume": Group(
        "Node Service > NodePublishVolume",
        {
            "volume_id": _NO_ID,
            "target_path": "should fail when no target path is provided",
            "volume_capability": "should fail when no volume capability is provided",
        },
    ),
    "node_unpublish_volume": Group(
        "Node Service > NodeUnpublishVolume",
        {"volume_id": _NO_ID, "target_path": "should fail when no target path is provided"},
    ),
    "node_get_volume_stats": Group(
        "Node Service > NodeGetVolumeStats",
        {"volume_id": _NO_ID, "volume_path": "should fail when no volume path is provided"},
    ),
    "node_expand_volume": Group(
        "Node Service > NodeExpandVolume",
        {"volume_id": _NO_ID, "volume_path": "should fail when no volume path is provided"},
    ),
}
"""The fields that can be left out of a call that is whole otherwise."""


async def lacks(attribute: str, field: str, asker: Asker) -> None:
    rpc = RPCS[attribute]
    whole = await _whole(asker, attribute)
    request = rpc.request_type.FromString(whole.SerializeToString())
    request.ClearField(field)
    outcome = await asker.patiently(rpc, request)
    if not outcome.ok:
        asker.made.never_was(rpc, request)
        if asker.fails_in_any_case(rpc, outcome) and outcome.code != Code.INVALID_ARGUMENT:
            raise Stopped(told(f"{rpc.name} fails in any case: {outcome.error}", request))
    elif field == "volume_id":
        asker.made.began(rpc, whole)  # no request without the id undoes what the driver has mounted


async def _whole(asker: Asker, attribute: str) -> Any:
    """A request with all required fields, about a volume that is there where that can be."""
    request = RPCS[attribute].request_type()
    if attribute == "create_volume":
        return asker.a_volume()
    given = _values(asker, await _volume(asker))
    for name in REQUIRED[RPCS[attribute].request_type]:
        value = given[name]
        if isinstance(value, str):
            setattr(request, name, value)
        elif isinstance(value, list):
            getattr(request, name).extend(value)
        elif isinstance(value, dict):
            getattr(request, name).update(value)
        else:
            getattr(request, name).CopyFrom(value)
    if attribute == "node_publish_volume" and "Node.STAGE_UNSTAGE_VOLUME" in asker.abilities:
        request.staging_target_path = given["staging_target_path"]
    return request


async def _volume(asker: Asker) -> Life:
    if CREATES in asker.abilities and "Node" in asker.abilities:
        shared = await asker.shared()
        return Life(asker, shared, asker.capability(), *asker.folders())
    return Life(asker, csi.Volume(volume_id=_GONE), asker.capability(), *asker.folders())


def _values(asker: Asker, life: Life) -> dict[str, Any]:
    return {
        "name": asker.name("incomplete"),
        "volume_id": life.identity,
        "source_volume_id": life.identity,
        "source_volume_ids": [life.identity],
        "node_id": asker.abilities.node_id or "conform-no-such-node",
        "snapshot_id": "conform-no-such-snapshot",
        "group_snapshot_id": "conform-no-such-group",
        "volume_capability": life.capability,
        "volume_capabilities": [life.capability],
        "capacity_range": csi.CapacityRange(required_bytes=asker.options.size_bytes),
        "mutable_parameters": dict(asker.options.mutable_parameters) or {"conform": "1"},
        "staging_target_path": life.staging,
        "target_path": life.target,
        "volume_path": life.target,
    }


for _attribute, _group in _SANITY.items():
    _rpc = RPCS[_attribute]
    _need = NEEDS.get(_attribute)
    _service = {
        "Controller": "Plugin.CONTROLLER_SERVICE",
        "GroupController": "Plugin.GROUP_CONTROLLER_SERVICE",
        "Node": "Node",
    }[_rpc.service]
    _kind = {"Controller": "Controller", "GroupController": "Group", "Node": "Node"}[_rpc.service]
    for _field, _test in _group.fields.items():
        CHAPTER.add(
            f"{_attribute}-without-{_field}".replace("_", "-"),
            f"{_rpc.name} without {_field} is refused with InvalidArgument.",
            INCOMPLETE,
            functools.partial(lacks, _attribute, _field),
            (_service,) if _need is None else (_service, f"{_kind}.{_need.text}"),
            f"{_group.name} > {_test}" if _test else (),
            last=_attribute.startswith("delete_"),  # an empty id makes the path of the folder with all volumes
        )
