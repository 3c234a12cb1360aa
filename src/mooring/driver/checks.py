"""CSI's own rules for requests: required fields, sizes, capabilities. Broken rules are told as `field: problem`, the
first one only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from google.protobuf.message import Message

from mooring.conform.book.fields import MADE_PATHS, PATHS, missing, sizes
from mooring.conform.book.requests import REQUIRED
from mooring.csi.proto import csi_pb2 as csi

_BANNED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_SECRET_KEY: Final = re.compile(r"[A-Za-z0-9_./-]+")
"""With the slash of `csi.storage.k8s.io/serviceAccount.tokens`, which a kubelet puts among them."""
_EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"  # in volume_context: an inline volume, which is never staged

_Capability = csi.ControllerServiceCapability.RPC
_NodeCapability = csi.NodeServiceCapability.RPC
_Service = csi.PluginCapability.Service
_Mode = csi.VolumeCapability.AccessMode
_FINE_GRAINED_MODES: Final = frozenset({_Mode.SINGLE_NODE_SINGLE_WRITER, _Mode.SINGLE_NODE_MULTI_WRITER})


class Advertised(msgspec.Struct, frozen=True):
    """A driver's capabilities, as numbers of the controller's, the plugin's and the node's list. refuses_oversize: what
    is longer than CSI allows.
    """

    controller: frozenset[int]
    plugin: frozenset[int]
    node: frozenset[int] = frozenset()
    refuses_oversize: bool = False


def request_fault(request: Message, advertised: Advertised) -> str | None:
    """The problem of a request to a driver that advertises this, None for none."""
    faults = (fault for rule in (_missing, _capabilities, _source, _ranges, _texts, _paths) for fault in rule(request))
    too_long = oversize(request) if advertised.refuses_oversize else None
    return next(faults, None) or too_long or next(_unadvertised(request, advertised), None)


def oversize(request: Message) -> str | None:
    """The first field that is longer than CSI allows, None for none."""
    return next(sizes(request), None)


def precondition_fault(request: Message, advertised: Advertised) -> str | None:
    """A step that must come before this request and did not, None for none."""
    if not isinstance(request, csi.NodePublishVolumeRequest) or request.staging_target_path:
        return None
    if _NodeCapability.STAGE_UNSTAGE_VOLUME not in advertised.node or request.volume_context.get(_EPHEMERAL) == "true":
        return None
    return "staging_target_path is required: this driver's volumes are staged first"


def _missing(request: Message) -> Iterator[str]:
    yield from missing(request, REQUIRED)


def _capabilities(request: Message) -> Iterator[str]:
    """An access type and an access mode in each; modes that this code doesn't know are the driver's to judge."""
    for path, capability in _all_capabilities(request):
        if capability.WhichOneof("access_type") is None:
            yield f"{path}: either block or mount is required"
        if capability.access_mode.mode == _Mode.UNKNOWN:
            yield f"{path}.access_mode.mode is required"


def _all_capabilities(request: Message) -> Iterator[tuple[str, csi.VolumeCapability]]:
    for field, value in request.ListFields():
        if field.message_type is not csi.VolumeCapability.DESCRIPTOR:
            continue
        if isinstance(value, csi.VolumeCapability):
            yield field.name, value
        else:
            yield from ((f"{field.name}[{number}]", one) for number, one in enumerate(value))


def _source(request: Message) -> Iterator[str]:
    if not isinstance(request, csi.CreateVolumeRequest) or not request.HasField("volume_content_source"):
        return
    if request.volume_content_source.WhichOneof("type") is None:
        yield "volume_content_source: either snapshot or volume is required"


def _ranges(request: Message) -> Iterator[str]:
    names = request.DESCRIPTOR.fields_by_name
    if "capacity_range" in names:
        wanted: csi.CapacityRange = getattr(request, "capacity_range")  # noqa: B009 (Message has no such attribute for mypy)
        if min(wanted.required_bytes, wanted.limit_bytes) < 0:
            yield "capacity_range: must not be negative"
        if 0 < wanted.limit_bytes < wanted.required_bytes:
            yield f"capacity_range: required_bytes {wanted.required_bytes} is above limit_bytes {wanted.limit_bytes}"
    if "max_entries" in names and getattr(request, "max_entries") < 0:  # noqa: B009
        yield "max_entries: must not be negative"


def _texts(request: Message) -> Iterator[str]:
    """The name's characters, and the keys of secrets. A secret's value is never shown."""
    for field, value in request.ListFields():
        if field.name == "name" and _BANNED.search(value):
            yield "name: has control characters"
        if field.name == "secrets":
            yield from (
                f"secrets: key {key!r} is not of letters, digits, -, _, . and /"
                for key in value
                if not _SECRET_KEY.fullmatch(key)
            )


def _paths(request: Message) -> Iterator[str]:
    """Paths that a driver makes or removes must be absolute. volume_path is only looked at: any text that names nothing
    is NotFound.
    """
    for field, value in request.ListFields():
        if field.name in PATHS and "\0" in value:
            yield f"{field.name}: has a NUL byte"
        if field.name in MADE_PATHS and not value.startswith("/"):
            yield f"{field.name}: {value!r} is not absolute"


def _unadvertised(request: Message, advertised: Advertised) -> Iterator[str]:
    """Fields that a caller must leave alone unless the driver says that it knows them."""
    on_node = type(request).__name__.startswith("Node")
    names, has = (_NodeCapability.Type, advertised.node) if on_node else (_Capability.Type, advertised.controller)
    for path, needed in (_node_needs if on_node else _controller_needs)(request):
        if needed not in has:
            yield _lacking(path, names.Name(needed))
    wants_topology = isinstance(request, csi.CreateVolumeRequest) and request.HasField("accessibility_requirements")
    if wants_topology and _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS not in advertised.plugin:
        yield _lacking("accessibility_requirements", "VOLUME_ACCESSIBILITY_CONSTRAINTS")


def _controller_needs(request: Message) -> Iterator[tuple[str, int]]:
    """The fields of a request that need a controller capability, with that capability."""
    for path, capability in _all_capabilities(request):
        if capability.access_mode.mode in _FINE_GRAINED_MODES:
            yield f"{path}.access_mode.mode", _Capability.SINGLE_NODE_MULTI_WRITER
    if isinstance(request, csi.ControllerPublishVolumeRequest) and request.readonly:
        yield "readonly", _Capability.PUBLISH_READONLY
    if isinstance(request, csi.CreateVolumeRequest):
        if request.volume_content_source.HasField("snapshot"):
            yield "volume_content_source.snapshot", _Capability.CREATE_DELETE_SNAPSHOT
        if request.volume_content_source.HasField("volume"):
            yield "volume_content_source.volume", _Capability.CLONE_VOLUME
        if request.mutable_parameters:
            yield "mutable_parameters", _Capability.MODIFY_VOLUME


def _node_needs(request: Message) -> Iterator[tuple[str, int]]:
    """The fields of a request to a node that need a capability of the node's."""
    for path, capability in _all_capabilities(request):
        if capability.access_mode.mode in _FINE_GRAINED_MODES:
            yield f"{path}.access_mode.mode", _NodeCapability.SINGLE_NODE_MULTI_WRITER
        if capability.mount.volume_mount_group:
            yield f"{path}.mount.volume_mount_group", _NodeCapability.VOLUME_MOUNT_GROUP


def _lacking(path: str, capability: str) -> str:
    return f"{path}: needs the capability {capability}, which this driver does not have"
