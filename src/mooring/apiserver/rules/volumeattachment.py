"""storage.k8s.io/v1 VolumeAttachment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import total_bytes
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.rules import checks, persistentvolume, volumesources

MESSAGES: Final = persistentvolume.MESSAGES.extended("""
VolumeAttachment: 1 metadata ObjectMeta!, 2 spec VolumeAttachmentSpec!+, 3 status VolumeAttachmentStatus!
VolumeAttachmentSpec: 1 attacher s!, 2 source VolumeAttachmentSource!+, 3 nodeName s!
VolumeAttachmentSource: 1 persistentVolumeName s?, 2 inlineVolumeSpec PersistentVolumeSpec?
VolumeAttachmentStatus: 1 attached b!, 2 attachmentMetadata {s}, 3 attachError VolumeError?, 4 detachError VolumeError?
VolumeError: 1 time time!, 2 message s, 3 errorCode i32?
""")

_MESSAGE_BYTES_MAX: Final = 1024
_METADATA_BYTES_MAX: Final = 262_144
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_INLINE: Final = "in the context of inline volumes"
_NOT_INLINE: Final = ("capacity", "claimRef", "nodeAffinity", "storageClassName")


def _default(new: Json) -> None:
    inline = new["spec"]["source"].get("inlineVolumeSpec")
    if inline is not None:
        volumesources.default(inline)
        checks.default_amounts(inline.get("capacity"))


def _prepare_create(new: Json, _now: float) -> None:
    new["status"] = {"attached": False}


def _validate(new: Json) -> Iterator[FieldCause]:
    spec = new["spec"]
    yield from checks.driver_name(spec["attacher"], "spec.attacher")
    yield from field_errors.named(spec["nodeName"], "spec.nodeName", names.dns_subdomain)
    yield from _validate_source(spec["source"])
    yield from _validate_status(new, {})


def _validate_source(source: Json) -> Iterator[FieldCause]:
    name, inline, field = (
        source.get("persistentVolumeName"),
        source.get("inlineVolumeSpec"),
        "spec.source.persistentVolumeName",
    )
    if name is None and inline is not None:
        yield from _validate_inline(inline, "spec.source.inlineVolumeSpec")
    elif name is None:
        yield field_errors.required("spec.source", _ONE_SOURCE)
    else:
        if inline is not None:
            yield field_errors.forbidden("spec.source", _ONE_SOURCE)
        elif not name:
            yield field_errors.required(field, "must specify non empty persistentVolumeName")
        yield from field_errors.named(name, field, names.dns_subdomain)


def _validate_inline(spec: Json, field: str) -> Iterator[FieldCause]:
    for part in _NOT_INLINE:
        if spec.get(part) or (part in spec and part in ("claimRef", "nodeAffinity")):
            yield field_errors.forbidden(f"{field}.{part}", f"may not be specified {_INLINE}")
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        yield field_errors.forbidden(f"{field}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}")
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        yield field_errors.forbidden(
            f"{field}.volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}"
        )
    if "csi" not in spec:
        yield field_errors.required(f"{field}.csi", f"has to be specified {_INLINE}")
    yield from checks.access_modes(spec.get("accessModes") or [], f"{field}.accessModes")
    yield from volumesources.validate(spec, field)
    yield from volumesources.validate_paths(
        {part: value for part, value in spec.items() if part != "nodeAffinity"}, field
    )


def _validate_status(new: Json, _old: Json) -> Iterator[FieldCause]:
    status = new["status"]
    if total_bytes(status.get("attachmentMetadata") or {}) > _METADATA_BYTES_MAX:
        yield field_errors.too_long("status.attachmentMetadata", _METADATA_BYTES_MAX)
    for part in ("attachError", "detachError"):
        yield from _validate_error(status.get(part) or {}, f"status.{part}")


def _validate_error(error: Json, field: str) -> Iterator[FieldCause]:
    if len(error.get("message", "").encode()) > _MESSAGE_BYTES_MAX:
        yield field_errors.too_long(f"{field}.message", _METADATA_BYTES_MAX)  # (the real one names the other bound)
    if error.get("errorCode", 0) < 0:
        yield field_errors.invalid(
            f"{field}.errorCode", error["errorCode"], "must be between 0 and 2147483647, inclusive"
        )


VOLUME_ATTACHMENTS: Final = Resource(
    group="storage.k8s.io",
    kind="VolumeAttachment",
    plural="volumeattachments",
    namespaced=False,
    beginnings=("", "status"),
    message=MESSAGES["VolumeAttachment"],
    status=Status.ONLY,
    put_without_version=False,
    default=_default,
    prepare_create=_prepare_create,
    validate=_validate,
    validate_update=lambda new, old: checks.unchanged(new, old, "spec", "spec"),
    validate_status=_validate_status,
)
