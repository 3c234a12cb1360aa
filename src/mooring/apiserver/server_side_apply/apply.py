"""Server-side apply: merges the config and takes away what its manager owned alone and left out. Others' fields
conflict unless forced.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver import api_errors
from mooring.apiserver.codecs.jsonbody import DEPTH_MAX
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply import managed
from mooring.apiserver.server_side_apply.fieldsets import NO_FIELDS, FieldSet, field_set, named, shown
from mooring.apiserver.server_side_apply.managed import (
    LAST_APPLIED,
    FieldManager,
    Managed,
    ManagedFieldsEntry,
    empty_object,
    shape_of,
    unwritten,
    without_record,
)
from mooring.apiserver.server_side_apply.shapes import Shape
from mooring.apiserver.server_side_apply.typed import Untyped, check, compare, fields_of, merge, remove, with_named
from mooring.base.json_text import JsonDecoder
from mooring.kube.errors import Conflict, ServerError

_config: Final = JsonDecoder[Any](limit=DEPTH_MAX)
_KUBECTL: Final = "kubectl"
_KUBECTLS_OWN: Final = "kubectl-client-side-apply"


class Outcome(msgspec.Struct, frozen=True):
    """The new object, not yet decoded, and its record of owners."""

    obj: Json
    managed: Managed


class Conflicting(Exception):
    """Fields that belong to others would change."""

    def __init__(self, fields: Mapping[FieldManager, FieldSet]) -> None:
        super().__init__(f"{sum(len(list(found)) for found in fields.values())} conflicts")
        self.fields = fields


def apply(
    resource: Resource, live: Json, config: Json, writer: str, now: str, *, subresource: str = "", force: bool = False
) -> Json:
    """The live object after an apply, with its record of owners; to be decoded like any body.

    live: {} where there is none yet. config: the body's JSON value. Raises Conflict, BadRequest, ServerError.
    """
    _check(resource, config)
    live = live or empty_object(resource)
    record: Managed = managed.read_entries(live["metadata"].get("managedFields"))
    is_first = not record
    if is_first:
        record = _first_record(resource, live, now, subresource)
    ignored = unwritten(resource, subresource)
    applying = _Applying(shape_of(resource), ignored, managed.applier(writer, subresource), resource.api_version, now)
    try:
        outcome = (
            _by_kubectl(applying, live, config, record, force)
            if writer == _KUBECTL
            else applying.apply(live, config, record, force)
        )
    except Conflicting as error:
        raise _refused(error.fields) from error
    if not is_first or applying.manager in outcome.managed:  # (who owns nothing begins no record)
        outcome.obj["metadata"]["managedFields"] = managed.written_entries(outcome.managed)
    return outcome.obj


class _Applying(msgspec.Struct, frozen=True):
    """One manager's apply to one kind."""

    shape: Shape
    ignored: FieldSet
    manager: FieldManager
    version: str
    now: str

    def apply(self, live: Json, config: Json, record: Managed, force: bool) -> Outcome:
        """Raises Conflicting."""
        merged = merge(self.shape, without_record(live), config)
        last = record[self.manager].fields if self.manager in record else NO_FIELDS
        wanted = fields_of(self.shape, config).without(self.ignored)
        before = record.get(self.manager, ManagedFieldsEntry(NO_FIELDS, self.version))
        new_record = {**record, self.manager: ManagedFieldsEntry(wanted, self.version, before.time)}
        pruned = self._pruned(merged, last, new_record)
        compared = compare(self.shape, without_record(live), pruned).without(self.ignored)
        found = managed.conflicts(new_record, compared, self.manager)
        if found and not force:
            raise Conflicting(found)
        kept = managed.released(new_record, compared.removed, but=self.manager)
        for other, fields in found.items():
            kept = _without(kept, other, fields)
        return Outcome(pruned, self._stamped(kept, changed=bool(pruned != without_record(live))))

    def _pruned(self, merged: Json, last: FieldSet, record: Managed) -> Json:
        """Removes the fields that the manager owned and no longer sends, but none that others own or that it never
        owned.
        """
        if not last:
            return merged
        had = with_named(self.shape, last)
        pruned = remove(self.shape, merged, had) or {}
        there = with_named(self.shape, fields_of(self.shape, merged))
        everybodys = functools.reduce(
            lambda left, right: left | right, (entry.fields for entry in record.values()), NO_FIELDS
        )
        left = with_named(self.shape, fields_of(self.shape, pruned))
        pruned = remove(self.shape, merged, there - (left | with_named(self.shape, everybodys))) or {}
        left = with_named(self.shape, fields_of(self.shape, pruned))
        result: Json = remove(self.shape, merged, (there - left) & had) or {}
        return result

    def _stamped(
        self, kept: dict[FieldManager, ManagedFieldsEntry], *, changed: bool
    ) -> dict[FieldManager, ManagedFieldsEntry]:
        """With what the manager can own, and since when. An apply that changes no field leaves the time as it was."""
        others = {other: entry for other, entry in kept.items() if other != self.manager}
        entry = kept.get(self.manager)
        fields = managed.owned(entry.fields) if entry is not None else NO_FIELDS
        if entry is None or not fields:
            return others
        return {**others, self.manager: ManagedFieldsEntry(fields, entry.version, self.now if changed else entry.time)}


def _first_record(resource: Resource, live: Json, now: str, subresource: str) -> Managed:
    """The first record of an object, also of the fields that a subresource does not write: somebody wrote those before,
    too.

    kubectl's annotation names the fields that its own apply wrote; kubectl takes over only those.
    """
    record = managed.record_before(resource, live, now)
    if subresource:
        record |= managed.record_before(resource, live, now, subresource)
    first = next(iter(record), None)
    if first is None or not managed.has_note(live):
        return record
    note = field_set((named("metadata"), named("annotations"), named(LAST_APPLIED)))
    applied = record[first].fields & (note | _applied_by_client(shape_of(resource), live))
    rest = _without(dict(record), first, applied)
    return (
        {
            **rest,
            managed.updater(_KUBECTLS_OWN, resource.api_version): ManagedFieldsEntry(
                applied, resource.api_version, now
            ),
        }
        if applied
        else record
    )


def _by_kubectl(applying: _Applying, live: Json, config: Json, record: Managed, force: bool) -> Outcome:
    """kubectl may take what it has applied on the client's side before, and its note of that is kept true."""
    try:
        outcome = applying.apply(live, config, record, force)
    except Conflicting as error:
        fields = {manager: found - _applied_by_client(applying.shape, live) for manager, found in error.fields.items()}
        left = {manager: found for manager, found in fields.items() if found}
        if left:
            raise Conflicting(left) from error
        outcome = applying.apply(live, config, record, force=True)
    annotations = outcome.obj["metadata"].get("annotations") or {}
    if LAST_APPLIED in annotations:
        note = {**annotations, LAST_APPLIED: _note(config)}
        return msgspec.structs.replace(
            outcome, obj={**outcome.obj, "metadata": {**outcome.obj["metadata"], "annotations": note}}
        )
    return outcome


def _applied_by_client(shape: Shape, live: Json) -> FieldSet:
    """The fields of the last client-side apply that still are as they were applied."""
    try:
        note = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "")
        config = _config.decode(note)
        check(shape, config)
    except ValueError:
        return NO_FIELDS
    if not isinstance(config, dict):
        return NO_FIELDS
    compared = compare(shape, config, without_record(live))
    return fields_of(shape, config) - (compared.added | compared.modified | compared.removed)


def _note(config: Json) -> str:
    metadata = dict(config.get("metadata") or {})
    if metadata.get("annotations"):
        metadata["annotations"] = {
            name: value for name, value in metadata["annotations"].items() if name != LAST_APPLIED
        }
    return msgspec.json.encode({**config, "metadata": metadata}, order="sorted").decode() + "\n"


def _check(resource: Resource, config: Json) -> None:
    version, kind = _text(config, "apiVersion"), _text(config, "kind")
    if (version, kind) != (resource.api_version, resource.kind):
        raise api_errors.bad_request(f"invalid object type: {_qualified(version)}, Kind={kind}")
    metadata = config.get("metadata") or {}
    if isinstance(metadata, dict) and _is_record(metadata.get("managedFields")):
        raise api_errors.bad_request("metadata.managedFields must be nil")
    try:
        check(shape_of(resource), config)
    except Untyped as error:
        raise ServerError(f"failed to create typed patch object ({place_of(config)}): {error}", code=500) from error


def _is_record(entries: Any) -> bool:
    """A list with something else than entries in it is none to kube-apiserver."""
    return isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)


def place_of(config: Json) -> str:
    """An object as kube-apiserver names it where an apply can't be carried out: it answers 500 then, and has tried
    nothing.
    """
    metadata = config.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return f"{_text(named, 'namespace')}/{_text(named, 'name')}; {kind_of(config)}"


def kind_of(config: Json) -> str:
    return f"{_qualified(_text(config, 'apiVersion'))}, Kind={_text(config, 'kind')}"


def _text(value: Json, name: str) -> str:
    """The member, where it is a text."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def _qualified(version: str) -> str:
    return version if "/" in version else f"/{version}"


def _without(
    record: dict[FieldManager, ManagedFieldsEntry], manager: FieldManager, fields: FieldSet
) -> dict[FieldManager, ManagedFieldsEntry]:
    if manager not in record:
        return record
    entry = record[manager].owning(record[manager].fields - fields)
    rest = {other: found for other, found in record.items() if other != manager}
    return {**rest, manager: entry} if entry.fields else rest


def _refused(fields: Mapping[FieldManager, FieldSet]) -> Conflict:
    """As kube-apiserver words it."""
    found = [(manager, path) for manager in sorted(fields) for path in fields[manager]]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(manager)}", "field": shown(path)}
        for manager, path in found
    ]
    if len(found) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for manager in sorted(fields):
            lines += [f"conflicts with {_named(manager)}:", *(f"- {shown(path)}" for path in fields[manager])]
        text = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return Conflict(text, reason="Conflict", details={"causes": causes})


def _named(manager: FieldManager) -> str:
    text = msgspec.json.encode(manager.name).decode()
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.version}" if manager.operation == managed.UPDATE else text
