"""Query parameters and DeleteOptions bodies into the options of each verb."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver import causes, refusals
from mooring.apiserver.causes import Cause
from mooring.apiserver.codec import FieldValidation
from mooring.apiserver.listing import ListOptions
from mooring.apiserver.steps import DeleteOptions
from mooring.apiserver.watching import WatchOptions

Query = Mapping[str, str]

_TRUE: Final = ("true", "1", "True", "TRUE", "t", "T")
_FALSE: Final = ("false", "0", "False", "FALSE", "f", "F")
_FIELD_MANAGER_MAX: Final = 128
_POLICIES: Final = ("Background", "Foreground", "Orphan")


@dataclasses.dataclass(frozen=True, slots=True)
class WriteOptions:
    """What creates, updates and patches share."""

    dry_run: bool = False
    validation: FieldValidation = FieldValidation.WARN


def list_options(query: Query) -> ListOptions:
    """Raises BadRequest, Invalid."""
    if "sendInitialEvents" in query:
        wrong = causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise causes.invalid_object("ListOptions", "meta.k8s.io", "", [wrong])
    return ListOptions(
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        _number(query, "limit") or 0,
        query.get("continue", ""),
    )


def watch_options(query: Query) -> WatchOptions:
    """Raises BadRequest."""
    initial = query.get("sendInitialEvents")
    return WatchOptions(
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        None if initial is None else _boolean("sendInitialEvents", initial),
        _boolean("allowWatchBookmarks", query.get("allowWatchBookmarks", "false")),
        float(_number(query, "timeoutSeconds") or 0),
    )


def is_watch(query: Query) -> bool:
    return _boolean("watch", query.get("watch", "false"))


def write_options(query: Query, kind: str) -> WriteOptions:
    """kind: CreateOptions, UpdateOptions or PatchOptions, for messages. Raises Invalid."""
    wrong = _wrong_dry_run(query.get("dryRun"))
    validation = query.get("fieldValidation") or FieldValidation.WARN.value
    known = [mode.value for mode in FieldValidation]
    if validation not in known:
        wrong.append(causes.not_supported("fieldValidation", validation, ["", *known]))
    if len(query.get("fieldManager", "")) > _FIELD_MANAGER_MAX:
        wrong.append(causes.too_long("fieldManager", _FIELD_MANAGER_MAX))
    if wrong:
        raise causes.invalid_object(kind, "meta.k8s.io", "", wrong)
    return WriteOptions(bool(query.get("dryRun")), FieldValidation(validation))


def delete_options(query: Query, body: Any) -> DeleteOptions:
    """body: the JSON value of a DeleteOptions body, None without one. Raises BadRequest, Invalid."""
    given = _delete_body(query) if body is None else body
    if not isinstance(given, dict) or given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise refusals.bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    preconditions = given.get("preconditions") or {}
    wrong = _wrong_dry_run(*(given.get("dryRun") or [query.get("dryRun")])) + _wrong_propagation(given)
    if wrong:
        raise causes.invalid_object("DeleteOptions", "meta.k8s.io", "", wrong)
    return DeleteOptions(
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        dry_run=bool(given.get("dryRun") or query.get("dryRun")),
    )


def _delete_body(query: Query) -> dict[str, Any]:
    found: dict[str, Any] = {name: query[name] for name in ("propagationPolicy",) if name in query}
    if "gracePeriodSeconds" in query:
        found["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        found["orphanDependents"] = _boolean("orphanDependents", query["orphanDependents"])
    return found


def _wrong_propagation(given: Mapping[str, Any]) -> list[Cause]:
    policy, field = given.get("propagationPolicy"), "propagationPolicy"
    if policy is not None and given.get("orphanDependents") is not None:
        return [causes.invalid(field, policy, "orphanDependents and deletionPropagation cannot be both set")]
    if policy is not None and policy not in _POLICIES:
        return [causes.not_supported(field, policy, [*_POLICIES, "nil"])]
    return []


def _wrong_dry_run(*values: Any) -> list[Cause]:
    return [causes.not_supported("dryRun", [value], ["All"]) for value in values if value not in (None, "", "All")]


def _boolean(name: str, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise refusals.bad_request(f'strconv.ParseBool: parsing {causes.shown(text)}: invalid syntax ("{name}")')


def _number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing {causes.shown(text)}: invalid syntax ("{name}")') from None
