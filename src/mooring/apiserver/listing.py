"""The objects and the state that a list or a watch asks for: namespace, selectors, resourceVersion and its match,
limit, continue. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.api.selector import ANYTHING, Requirement, Selector, parse_fields, parse_labels
from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored
from mooring.base.json_text import JsonDecoder
from mooring.kube.errors import Gone

NEWEST: Final = -1
"""In a continue token: go on at the newest state, seeing another moment than the first pages."""

_TOKEN_VERSION: Final = "meta.k8s.io/v1"
_VERSION_DIGITS_MAX: Final = 19  # of a signed 64-bit number
_MATCHES: Final = ("Exact", "NotOlderThan")


class ListOptions(msgspec.Struct, frozen=True):
    """The query of a list. limit: 0 for all."""

    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""


PLAIN_LIST = ListOptions()


class Moment(msgspec.Struct, frozen=True):
    """The state to show. rv: None for the newest, else exactly that version. after: the last key of the page before."""

    rv: int | None = None
    after: Key | None = None
    limit: int = 0


class ContinueExpired(Gone):
    """The token's moment is forgotten. continue_token: goes on from there at the newest state."""

    def __init__(self, continue_token: str) -> None:
        super().__init__(
            "The provided continue parameter is too old to display a consistent list result. Start a new list "
            "without it, or go on "
            "with the continue token of this answer and see a newer state for the rest.",
            reason="Expired",
        )
        self.continue_token = continue_token


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


_token: Final = JsonDecoder[_Token](_Token)


def moment_of(options: ListOptions, current: int, floor: int, *, namespaced: bool, cached: bool = True) -> Moment:
    """The state that the options ask for.

    current: the store's version. floor: the oldest one that can still be shown. cached: kube-apiserver lists the kind
    from a cache, which knows no limit for version 0. Raises Invalid for options that don't fit, BadRequest for
    a bad token or version, Gone for one that is too old, ServerError (504) for a future version.
    """
    check_match(options)
    if options.resource_version == "0" and cached:
        options = msgspec.structs.replace(options, limit=0)
    if options.continue_token:
        return _continued(options, current, floor, namespaced)
    version = parse_version(options.resource_version)
    if not version:
        return Moment(limit=options.limit)
    exact = options.resource_version_match == "Exact" or (options.limit > 0 and not options.resource_version_match)
    if version > current:
        raise api_errors.too_new(version, current)
    if not exact:
        return Moment(limit=options.limit)
    if version < floor:
        raise api_errors.too_old(version, floor)
    return Moment(rv=version, limit=options.limit)


def parse_version(text: str) -> int | None:
    """The version as a number; None for "". Raises BadRequest for any other text."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX):
        raise api_errors.bad_request(
            f"resourceVersion: Invalid value: {field_errors.shown(text)}: must be a whole number"
        )
    return int(text)


def token_after(key: Key, rv: int, *, namespaced: bool) -> str:
    """The continue token of a page that ends with key."""
    path = f"{key.namespace}/{key.name}" if namespaced else key.name
    token = msgspec.json.encode(_Token(_TOKEN_VERSION, rv, path + "\0"))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _continued(options: ListOptions, current: int, floor: int, namespaced: bool) -> Moment:
    token = _read_token(options.continue_token)
    after = _key_of(token.start, namespaced)
    if options.resource_version not in ("", "0"):
        raise api_errors.bad_request("specifying resource version is not allowed when using continue")
    if token.rv == NEWEST:
        return Moment(after=after, limit=options.limit)
    if token.rv > current:
        raise api_errors.too_new(token.rv, current)
    if token.rv < floor:
        raise ContinueExpired(token_after(after, NEWEST, namespaced=namespaced))
    return Moment(rv=token.rv, after=after, limit=options.limit)


def _read_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))
        token = _token.decode(raw)
    except ValueError as error:
        raise api_errors.bad_request(f"continue key is not valid: {error}") from error
    if token.v != _TOKEN_VERSION or (token.rv < 1 and token.rv != NEWEST) or not token.start.endswith("\0"):
        raise api_errors.bad_request("continue key is not valid: unrecognized or incorrect values")
    return token


def _key_of(start: str, namespaced: bool) -> Key:
    namespace, slash, name = start[:-1].rpartition("/")
    if bool(slash) != namespaced:
        raise api_errors.bad_request(f"continue key is not valid: {field_errors.shown(start)}")
    return Key(namespace, name)


def check_match(options: ListOptions) -> None:
    """Raises Invalid for a resourceVersionMatch that does not fit the other options."""
    wrong = list(_wrong_match(options)) if options.resource_version_match else []
    if wrong:
        raise field_errors.invalid_object("ListOptions", "meta.k8s.io", "", wrong)


def _wrong_match(options: ListOptions) -> Iterator[FieldCause]:
    match, field = options.resource_version_match, "resourceVersionMatch"
    if not options.resource_version:
        yield field_errors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if options.continue_token:
        yield field_errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
    if match not in _MATCHES:
        yield field_errors.not_supported(field, match, [*_MATCHES, ""])
    if match == "Exact" and options.resource_version == "0":
        yield field_errors.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


class WatchOptions(msgspec.Struct, frozen=True):
    """The query of a watch. send_initial_events: None when it is not given. timeout_s: 0 leaves it to the server."""

    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout_s: float = 0.0


class WatchStart(msgspec.Struct, frozen=True):
    """version: changes after it are sent. initial: everything that is there comes first."""

    version: int
    initial: bool


def watch_start_of(options: WatchOptions, current: int, floor: int) -> WatchStart:
    """current: version; floor: the oldest to start from. Raises Invalid, BadRequest, Gone, and ServerError (504) for a
    future version.
    """
    wrong = _wrong_watch(options)
    if wrong:
        raise field_errors.invalid_object("ListOptions", "meta.k8s.io", "", wrong)
    version = parse_version(options.resource_version) or 0
    initial = version == 0 if options.send_initial_events is None else options.send_initial_events
    if initial and version > current:
        raise api_errors.too_new(version, current)
    if initial or version == 0:
        return WatchStart(current, initial)
    if version < floor:
        raise api_errors.too_old(version, floor)
    return WatchStart(version, initial=False)


def _wrong_watch(options: WatchOptions) -> list[FieldCause]:
    match, field = options.resource_version_match, "resourceVersionMatch"
    if options.send_initial_events is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [field_errors.forbidden(field, text)] if match else []
    if match == "NotOlderThan":
        return []
    found = [field_errors.forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
    return [*found, field_errors.not_supported(field, match, ["NotOlderThan"])] if match else found


REQUIREMENTS_MAX: Final = 500
"""Each is held against each object. Differs from kube-apiserver, which knows no bound but that of a URL."""
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


class ListScope(msgspec.Struct, frozen=True):
    """namespace: None is all."""

    namespace: str | None = None
    labels: Selector = ANYTHING
    fields: Selector = ANYTHING

    @property
    def selects(self) -> bool:
        """True when a selector leaves something out."""
        return bool(self.labels.requirements or self.fields.requirements)

    @property
    def steps(self) -> int:
        """The work of a look at one object, about; a step is a fifth of a microsecond."""
        return 1 + len(self.labels.requirements) + len(self.fields.requirements)

    def asked(self, field: str) -> Requirement | None:
        """The requirement that the field has one value."""
        found = (
            each
            for each in self.fields.requirements
            if each.key == field and each.operator == "in" and len(each.values) == 1
        )
        return next(found, None)

    def matches(self, stored: Stored) -> bool:
        return (
            (self.namespace is None or stored.key.namespace == self.namespace)
            and (not self.labels.requirements or self.labels.matches(stored.labels))
            and (not self.fields.requirements or self.fields.matches(stored.fields))
        )


def scope_of(resource: Resource, namespace: str | None, label_selector: str, field_selector: str) -> ListScope:
    """Raises BadRequest for a selector that can't be read, or that asks for a field the kind does not offer."""
    return checked_scope(resource, parsed_scope(namespace, label_selector, field_selector))


def parsed_scope(namespace: str | None, label_selector: str, field_selector: str) -> ListScope:
    """Raises BadRequest for a selector that can't be read."""
    try:
        scope = ListScope(namespace, parse_labels(label_selector), parse_fields(field_selector))
    except ValueError as error:
        raise api_errors.bad_request(str(error)) from error
    if len(scope.labels.requirements) + len(scope.fields.requirements) > REQUIREMENTS_MAX:
        raise api_errors.bad_request(f"selectors of more than {REQUIREMENTS_MAX} requirements")
    return scope


def checked_scope(resource: Resource, scope: ListScope) -> ListScope:
    """The same. Raises BadRequest for fields that the kind does not offer."""
    fields = scope.fields
    for requirement in fields.requirements:
        in_none = resource.has_own_fields and not resource.namespaced and requirement.key == "metadata.namespace"
        if in_none or (requirement.key not in _METADATA_FIELDS and requirement.key not in resource.field_names):
            raise api_errors.bad_request(resource.unknown_field(requirement.key))
    return scope


def prefiltered(resource: Resource, scope: ListScope, moment: Moment, found: tuple[Stored, ...]) -> tuple[Stored, ...]:
    """The objects that a list goes through: at the newest state only those that the kind's index gives."""
    asked = scope.asked(resource.indexed) if resource.indexed and moment.rv is None and moment.after is None else None
    return found if asked is None else tuple(stored for stored in found if asked.holds(stored.fields))


def page_of(found: tuple[Stored, ...], scope: ListScope, limit: int) -> tuple[tuple[Stored, ...], int]:
    """What is selected, up to the limit, and how many objects come after it: selected or not, nobody has looked yet."""
    if not scope.selects:
        return (found[:limit], max(len(found) - limit, 0)) if limit > 0 else (found, 0)
    page: list[Stored] = []
    for number, stored in enumerate(found, 1):
        if scope.matches(stored):
            page.append(stored)
            if len(page) == limit:
                return tuple(page), len(found) - number
    return tuple(page), 0
