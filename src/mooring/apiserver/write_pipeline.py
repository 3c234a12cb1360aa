"""The steps that every write takes, one function each; `store.py` says in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mooring.apiserver import api_errors, field_errors, metadata
from mooring.apiserver.deletion import DeleteOptions
from mooring.apiserver.listing import parse_version
from mooring.apiserver.resource import WARNINGS_MAX, Json, Resource, Status
from mooring.apiserver.table import Stored
from mooring.base.randomness import Random

_JSON_BYTES_MAX: Final = 3 * 512 * 1024
_BYTES_MAX: Final = 2 * 1024 * 1024


def normalise(obj: Json) -> tuple[str, ...]:
    """Drops what is there twice, and warns of that."""
    twins = metadata.without_twins(obj["metadata"])
    return (
        (".metadata.ownerReferences contains duplicate entries; API server dedups owner references",) if twins else ()
    )


def kind_warnings(resource: Resource, obj: Json, old: Json | None = None, subresource: str = "") -> tuple[str, ...]:
    """The kind's own about a valid object, as many as an answer has room for. A status earns none."""
    found: dict[str, None] = {}
    for text in () if subresource == "status" else resource.warnings(obj, old):
        found[text] = None
        if len(found) == WARNINGS_MAX:
            break
    return tuple(found)


def check_name(meta: Json, name: str) -> None:
    """The body of an update must name what its URL names."""
    given = meta.get("name", "")
    if not given:
        raise api_errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise api_errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def check_namespace(resource: Resource, meta: Json, namespace: str) -> None:
    """The body must belong where it was sent. Fills in the namespace, or takes it away from what has none."""
    if not resource.namespaced:
        meta.pop("namespace", None)
    elif meta.get("namespace") and meta["namespace"] != namespace:
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    else:
        meta["namespace"] = namespace


def check_space(resource: Resource, meta: Json, space: Stored | None) -> None:
    """Nothing new comes into a namespace that goes. space: None for kinds that are in none. Raises Forbidden."""
    if space is not None and space.whole()["metadata"].get("deletionTimestamp"):
        name = space.key.name
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise api_errors.not_admitted(resource, meta, why, [cause])


def has_version(meta: Json) -> bool:
    """True when a resource version is named. A value that is not a number counts as none, as in the real server's
    creation.
    """
    text = meta.get("resourceVersion", "")
    return bool(text.isascii() and text.isdigit() and text.strip("0"))


def check_version(resource: Resource, old: Stored, meta: Json) -> None:
    version = parse_version(meta.get("resourceVersion", ""))
    if not version and resource.put_without_version:
        return
    if not version:
        wrong = field_errors.FieldCause(
            "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
        )
        raise field_errors.invalid_object(
            resource.plural, resource.group, old.key.name, [wrong]
        )  # (the plural: so it is there)
    if version != old.rv:
        raise api_errors.conflict(resource, old.key.name)


def forget_version(resource: Resource, meta: Json) -> None:
    """An apply that creates may name a version, which counts for nothing, but no uid."""
    parse_version(meta.pop("resourceVersion", ""))
    if meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise api_errors.conflict(resource, meta["name"], why)


def check_preconditions(resource: Resource, old: Stored, options: DeleteOptions) -> None:
    """Raises Conflict, in the words of the kind: namespaces are deleted in a way of their own, and have others."""
    for field, wanted, found, since in (
        ("UID", options.uid, old.uid, "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, str(old.rv), "modified"),
    ):
        if wanted is not None and wanted != found:
            if resource.name == "namespaces":
                why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                raise api_errors.conflict(resource, old.key.name, why)
            why = f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found})."
            raise api_errors.failed_precondition(resource, old.key.name, f"{why} The object might have been {since}")


def check_size(resource: Resource, stored: Stored) -> None:
    """Raises TooLarge for what etcd refuses, by its encoding (JSON for custom kinds). Differs from kube-apiserver,
    which answers 500.
    """
    bytes_max = (
        _JSON_BYTES_MAX if resource.custom is not None or resource.kind == "CustomResourceDefinition" else _BYTES_MAX
    )
    if len(stored.body) > bytes_max:
        raise api_errors.too_large(f"an object of {len(stored.body)} bytes, limit is {bytes_max}")


def reset_readonly(resource: Resource, new: Json, before: Json, now: float, subresource: str) -> None:
    """Takes back what the endpoint may not write."""
    if not subresource:
        resource.prepare_update(new, before, now)
        return
    action = resource.action(subresource)
    if action is not None:
        assert action.prepare is not None, "only what writes a part of the object is an update"
        action.prepare(new, before, now)
        return
    if resource.custom is not None:
        own = {
            field: new["metadata"][field] for field in ("resourceVersion", "managedFields") if field in new["metadata"]
        }
        new["metadata"] = {
            **{field: value for field, value in before["metadata"].items() if field != "managedFields"},
            **own,
        }
    elif resource.status is Status.ONLY:
        metadata.keep_users_part(new["metadata"], before["metadata"])
    written: Json = {field: new[field] for field in ("metadata", "status") if field in new}
    new.clear()
    new.update({**before, **written})
    if "status" not in written:
        new.pop("status", None)
    resource.prepare_status(new, before, now)


def wrong_metadata(
    resource: Resource, new: Json, before: Json | None = None, subresource: str = ""
) -> list[field_errors.FieldCause]:
    """The causes about metadata; an object that names another kind has none, since that mistake is reported alone."""
    if new["kind"] != resource.kind:
        return []
    if before is not None:
        rule = resource.name_rule if subresource in resource.beginnings else None
        return list(
            metadata.validate_update(
                new["metadata"], before["metadata"], rule, bare_finalizers=resource.bare_finalizers
            )
        )
    return list(
        metadata.validate(
            new["metadata"], resource.name_rule, resource.namespaced, bare_finalizers=resource.bare_finalizers
        )
    )


def wrong_in(resource: Resource, new: Json, before: Json, subresource: str) -> Iterable[field_errors.FieldCause]:
    action = resource.action(subresource)
    if action is not None:
        return action.validate(new, before)
    if subresource:
        return resource.validate_status(new, before)
    return [*resource.validate(new), *resource.validate_update(new, before)]


def is_finished(resource: Resource, new: Json) -> bool:
    """True when nothing holds an object that is being deleted any more."""
    meta = new["metadata"]
    return bool(
        meta.get("deletionTimestamp")
        and not meta.get("deletionGracePeriodSeconds")
        and not meta.get("finalizers")
        and not resource.holds(new)
    )


_PREFIX_MAX: Final = 58
_TRIES: Final = 8


def generate_name(meta: Json, randomness: Random, is_taken: Callable[[str], bool]) -> None:
    """Fills in a name where only its beginning is given. It may still be a taken one, when chance will have it so."""
    prefix = meta.get("generateName", "")
    if meta.get("name") or not prefix:
        return
    for _ in range(_TRIES):
        meta["name"] = prefix[:_PREFIX_MAX] + randomness.suffix()
        if not is_taken(meta["name"]):
            return


def name_taken(resource: Resource, meta: Json, holder: Stored) -> Exception:
    if not meta.get("generateName") or not meta["name"].startswith(meta["generateName"][:_PREFIX_MAX]):
        going = holder.whole()["metadata"].get("deletionTimestamp") is not None
        return api_errors.already_exists(resource, meta["name"], before="object is being deleted: " if going else "")
    more = ", the server was not able to generate a unique name for the object"
    return api_errors.already_exists(resource, meta["name"], more, retry_after_s=1.0)
