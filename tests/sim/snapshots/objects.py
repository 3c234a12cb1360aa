"""The objects of a life of snapshots as JSON: what they name, and what no program may change."""

from __future__ import annotations

from typing import Any, Final

from mooring.api import snapshot_names as names

Json = dict[str, Any]
SNAPSHOTS, CONTENTS, CLAIMS = "volumesnapshots", "volumesnapshotcontents", "persistentvolumeclaims"
GROUPS, GROUP_CONTENTS = "volumegroupsnapshots", "volumegroupsnapshotcontents"
_OURS: Final = "storage.kubernetes.io/"


def handles_of(content: Json) -> set[str]:
    """The handles that a content names."""
    status = content.get("status") or {}
    return {status.get("snapshotHandle"), content["spec"]["source"].get("snapshotHandle")} - {None}


def being_made(content: Json) -> set[str]:
    """The handles of the volumes of which a driver may be making this snapshot, or these.

    None for one that the sidecar has let go, which knew that nothing was made: others keep it, and its mark goes with
    it.
    """
    status, meta, source = content.get("status") or {}, content["metadata"], content["spec"]["source"]
    is_let_go = "deletionTimestamp" in meta and not {names.CONTENT_FINALIZER, names.GROUP_CONTENT_FINALIZER} & set(
        meta.get("finalizers") or ()
    )
    if is_let_go or not {names.BEING_CREATED, names.GROUP_BEING_CREATED} & set(meta.get("annotations") or {}):
        return set()
    known = status.get("snapshotHandle") or status.get("volumeGroupSnapshotHandle")
    return set() if known else {source.get("volumeHandle"), *(source.get("volumeHandles") or ())} - {None}


def handles_of_group(content: Json) -> set[str]:
    """The handles of the snapshots of a group content."""
    return {one["snapshotHandle"] for one in (content.get("status") or {}).get("volumeSnapshotInfoList") or ()}


def members_of(content: Json) -> set[str]:
    """The same, also of those that were there before, as a group content names them."""
    imported = content["spec"]["source"].get("groupSnapshotHandles") or {}
    return handles_of_group(content) | set(imported.get("volumeSnapshotHandles") or ())


def foreign(obj: Json) -> tuple[Any, ...]:
    """What no program may change: finalizers and annotations of others, and the source."""
    meta = obj["metadata"]
    finalizers = [one for one in meta.get("finalizers") or () if _OURS not in one]
    annotations = {
        key: text for key, text in (meta.get("annotations") or {}).items() if _OURS not in key and key != names.TOUCHED
    }
    spec = obj["spec"]
    return (
        finalizers,
        annotations,
        spec.get("source"),
        spec.get("deletionPolicy"),
        spec.get("driver"),
        spec.get("resources"),
    )


def uid_of(name: str) -> str:
    """The uid at the end of the name by which a driver is asked."""
    return name.partition("-")[2]


def ref_of(content: Json) -> Json:
    """What a content, or a group's, is of."""
    spec = content["spec"]
    found: Json = spec["volumeSnapshotRef"] if "volumeSnapshotRef" in spec else spec["volumeGroupSnapshotRef"]
    return found


def group_handles_of(content: Json) -> set[str]:
    """The handles that a group's content names as its group's."""
    status, imported = content.get("status") or {}, content["spec"]["source"].get("groupSnapshotHandles") or {}
    return {status.get("volumeGroupSnapshotHandle"), imported.get("volumeGroupSnapshotHandle")} - {None}


def is_going(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_given_up(content: Json) -> bool:
    """True for a content that goes because its snapshot, or its group, does, and whose handle nobody knows."""
    of_single, of_group = (
        {names.BEING_CREATED, names.BEING_DELETED},
        {names.GROUP_BEING_CREATED, names.GROUP_BEING_DELETED},
    )
    held = set(content["metadata"].get("annotations") or {})
    is_marked = of_single <= held or of_group <= held
    return is_going(content) and is_marked and not handles_of(content) and not group_handles_of(content)


def is_imported_without_secret(content: Json) -> bool:
    return "snapshotHandle" in content["spec"]["source"] and names.SECRET_NAME not in (
        content["metadata"].get("annotations") or {}
    )


def is_member(content: Json) -> bool:
    """True for the content of a snapshot that a group has made."""
    return names.GROUP_HANDLE in (content["metadata"].get("annotations") or {})
