"""Where a watch starts: the table of resourceVersion and sendInitialEvents. Pure."""

from __future__ import annotations

import dataclasses

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.listing import parse_version


@dataclasses.dataclass(frozen=True, slots=True)
class WatchOptions:
    """The query of a watch. send_initial_events: None when it is not given. timeout_s: 0 leaves it to the server."""

    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class WatchStart:
    """version: changes after it are sent. initial: everything that is there comes first."""

    version: int
    initial: bool


def start_of(options: WatchOptions, current: int, floor: int) -> WatchStart:
    """current: the store's version; floor: the oldest one to start from.

    Raises Invalid for options that don't fit, BadRequest for what is no version, Gone when it is forgotten, ServerError (504) when
    everything is wanted as of a version that lies ahead.
    """
    wrong = _wrong(options)
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


def _wrong(options: WatchOptions) -> list[Cause]:
    match, field = options.resource_version_match, "resourceVersionMatch"
    if options.send_initial_events is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [field_errors.forbidden(field, text)] if match else []
    if match == "NotOlderThan":
        return []
    found = [field_errors.forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")]
    return [*found, field_errors.not_supported(field, match, ["NotOlderThan"])] if match else found
