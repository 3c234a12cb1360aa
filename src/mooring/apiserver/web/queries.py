"""Requests read: the kind, namespace, name and sub-resource of a URL, and the options in its query or a DeleteOptions
body.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.bodies.objects import FieldValidation
from mooring.apiserver.codecs.scalars import WrongType
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.deletion import PLAIN_DELETE, DeleteOptions, options_of, wrong_dry_run
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.listing import ListOptions, WatchOptions
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Resource, Status
from mooring.apiserver.store import ObjectStore
from mooring.base.units import parse_duration_s


class Route(msgspec.Struct, frozen=True):
    """namespace: None where the URL names none. name: "" for a collection."""

    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""

    @property
    def is_collection(self) -> bool:
        return not self.name


def key_of(route: Route) -> Key:
    """The key of its object; of a collection, one without a name."""
    return Key(route.namespace or "", route.name)


def route_of(path: tuple[str, ...], store: ObjectStore) -> Route | None:
    """The kind and place that a URL names; None if no kind has that URL. Slashes at the end are ignored."""
    length = len(path)
    while length and not path[length - 1]:
        length -= 1
    match path[:length]:
        case ("api", "v1", *rest):
            group, version = "", "v1"
        case ("apis", group, version, *rest) if group:
            pass
        case _:
            return None
    return _namespaced(group, version, rest, store) or _plain(group, version, rest, store)


def without_watch_path(path: tuple[str, ...], query: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """`/api/v1/watch/pods` as `/api/v1/pods?watch=true`, and of one object as a watch of its name: old clients."""
    start = 2 if path[0] == "api" else 3
    if path[start : start + 1] != ("watch",):
        return path, query
    rest = path[start + 1 :]
    query = {**query, "watch": "true"}
    if len(rest) in (2, 4) and rest[-1]:
        query["fieldSelector"] = ",".join(filter(None, (f"metadata.name={rest[-1]}", query.get("fieldSelector"))))
        rest = rest[:-1]
    return path[:start] + rest, query


def _namespaced(group: str, version: str, rest: list[str], store: ObjectStore) -> Route | None:
    match rest:
        case ["namespaces", namespace, plural, *place] if len(place) <= 2:
            resource = store.resource(group, version, plural)
            if resource is not None and resource.namespaced:
                return _placed(resource, namespace, place)
    return None


def _plain(group: str, version: str, rest: list[str], store: ObjectStore) -> Route | None:
    match rest:
        case [plural, *place] if len(place) <= 2:
            resource = store.resource(group, version, plural)
            if resource is not None and not (resource.namespaced and place):
                return _placed(resource, None, place)
    return None


def _placed(resource: Resource, namespace: str | None, place: list[str]) -> Route | None:
    name, subresource = (*place, "", "")[:2]
    if "" in place:
        return None
    if (subresource and not _has(resource, subresource)) or (name and resource.answer is not None):
        return None
    action = resource.action(subresource)
    return Route(
        action.part if action is not None and action.part is not None else resource, namespace, name, subresource
    )


def _has(resource: Resource, subresource: str) -> bool:
    return resource.status is not Status.NONE if subresource == "status" else resource.action(subresource) is not None


Query = Mapping[str, str]

_FIELD_MANAGER_MAX: Final = 128
_INTEGER: Final = re.compile(r"([+-]?)([0-9]+)")
_DIGITS_MAX: Final = 19
_VALIDATIONS: Final = sorted(mode.value for mode in FieldValidation)


class WriteOptions(msgspec.Struct, frozen=True):
    """The options of creates, updates and patches."""

    dry_run: bool = False
    validation: FieldValidation = FieldValidation.WARN
    manager: str = ""
    force: bool = False


_PLAIN_WRITE: Final = WriteOptions()


def list_options(query: Query) -> ListOptions:
    """Raises BadRequest."""
    _number(query, "timeoutSeconds")
    return ListOptions(
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        _number(query, "limit") or 0,
        query.get("continue", ""),
    )


def check_list(query: Query) -> None:
    """Raises Invalid for what only a watch may ask."""
    if "sendInitialEvents" in query:
        wrong = field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise field_errors.invalid_object("ListOptions", "meta.k8s.io", "", [wrong])


def watch_options(query: Query) -> WatchOptions:
    """Raises BadRequest."""
    initial = query.get("sendInitialEvents")
    return WatchOptions(
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        None if initial is None else _boolean(initial),
        _boolean(query.get("allowWatchBookmarks", "false")),
        float(_number(query, "timeoutSeconds") or 0),
    )


def check_timeout(query: Query) -> None:
    """How long the client waits; nothing is cut short for it. Raises BadRequest."""
    text = query.get("timeout", "")
    try:
        parse_duration_s(text or "0s")
    except ValueError as error:
        raise api_errors.bad_request(f"invalid timeout specified in the request URL - {error}") from error


def is_watch(query: Query) -> bool:
    return _boolean(query.get("watch", "false"))


def opens_watch(method: str, route: Route | None, query: Query) -> bool:
    return method == "GET" and route is not None and route.is_collection and is_watch(query)


def write_options(query: Query, kind: str, *, applies: bool = False) -> WriteOptions:
    """kind: CreateOptions, UpdateOptions or PatchOptions, for messages. Raises Invalid."""
    if not query and not applies:
        return _PLAIN_WRITE
    wrong = wrong_dry_run(query.get("dryRun"))
    validation = query.get("fieldValidation") or FieldValidation.WARN.value
    if validation not in _VALIDATIONS:
        wrong.append(field_errors.not_supported("fieldValidation", validation, ["", *_VALIDATIONS]))
    manager = query.get("fieldManager", "")
    wrong += _wrong_manager(manager, applies=applies)
    force = query.get("force")
    if force is not None and kind == "PatchOptions" and not applies:
        wrong.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    if wrong:
        raise field_errors.invalid_object(kind, "meta.k8s.io", "", wrong)
    return WriteOptions(
        bool(query.get("dryRun")), FieldValidation(validation), manager, force is not None and _boolean(force)
    )


@functools.lru_cache(maxsize=256)
def manager_of(user_agent: str) -> str:
    """The default field manager: the program's name in the User-Agent."""
    return "".join(filter(str.isprintable, user_agent.partition("/")[0]))[:_FIELD_MANAGER_MAX]


def delete_options(query: Query, body: Any) -> DeleteOptions:
    """body: the JSON value of a DeleteOptions body, None without one. Raises BadRequest, Invalid."""
    if body is None and not query:
        return PLAIN_DELETE
    given = _delete_body(query) if body is None else body
    if not isinstance(given, dict) or _kind_of(given) != "DeleteOptions":
        raise api_errors.bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    try:
        options = decode(META_MESSAGES["DeleteOptions"], given, [])
    except ValueError as error:
        raise api_errors.bad_request(str(error)) from error
    return options_of(options)


def _kind_of(given: dict[str, Any]) -> str:
    """The kind of a body with options. Its apiVersion may be any that could be one. Raises BadRequest."""
    version, kind = given.get("apiVersion"), given.get("kind")
    for part, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str | None):
            raise api_errors.bad_request(
                f"couldn't get version/kind; json parse error: {WrongType('string', value, f'.{part}')}"
            )
    if (version or "").count("/") > 1:
        raise api_errors.bad_request(f"unexpected GroupVersion string: {version}")
    return kind or "DeleteOptions"


def _wrong_manager(manager: str, *, applies: bool) -> list[FieldCause]:
    if applies and not manager:
        return [field_errors.required("fieldManager", "is required for apply patch")]
    if len(manager.encode()) > _FIELD_MANAGER_MAX:
        return [field_errors.too_long("fieldManager", _FIELD_MANAGER_MAX)]
    odd = [(place, letter) for place, letter in enumerate(manager) if not letter.isprintable()]
    return [
        field_errors.invalid("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {place})")
        for place, letter in odd
    ]


def _delete_body(query: Query) -> dict[str, Any]:
    found: dict[str, Any] = {"propagationPolicy": query["propagationPolicy"]} if "propagationPolicy" in query else {}
    if "dryRun" in query:
        found["dryRun"] = [query["dryRun"]]
    if "gracePeriodSeconds" in query:
        found["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        found["orphanDependents"] = _boolean(query["orphanDependents"])
    return found


def _boolean(text: str) -> bool:
    """As the API server reads it: everything but 0 and false is true, the empty value too."""
    return text != "0" and text.lower() != "false"


def _number(query: Query, name: str) -> int | None:
    """As Go's ParseInt reads it: decimal digits with a sign, of 64 bits."""
    text = query.get(name)
    if text is None:
        return None
    found = _INTEGER.fullmatch(text)
    if found is None:
        raise api_errors.bad_request(f"strconv.ParseInt: parsing {field_errors.shown(text)}: invalid syntax")
    digits = found[2].lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX or not -(2**63) <= (number := int(found[1] + digits)) < 2**63:
        raise api_errors.bad_request(f"strconv.ParseInt: parsing {field_errors.shown(text)}: value out of range")
    return number
