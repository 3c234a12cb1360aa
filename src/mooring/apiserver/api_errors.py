"""The server's refusals: each with the reason, the text and the details that clients look at."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.resource import Resource
from mooring.kube.errors import (
    NOT_SERVED,
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    NotServed,
    ServerError,
    TooLarge,
    TooManyRequests,
)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def details_of(resource: Resource, name: str) -> dict[str, Any]:
    """name, group and plural, without what is empty."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.name} "{name}" not found', reason="NotFound", details=details_of(resource, name))


def already_exists(
    resource: Resource, name: str, more: str = "", retry_after_s: float | None = None, *, before: str = ""
) -> AlreadyExists:
    """before, more: what the message says around the usual."""
    text = f'{before}{resource.name} "{name}" already exists{more}'
    return AlreadyExists(text, reason="AlreadyExists", details=details_of(resource, name), retry_after_s=retry_after_s)


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Conflict:
    text = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return Conflict(text, reason="Conflict", details=details_of(resource, name))


def failed_precondition(resource: Resource, name: str, why: str) -> Conflict:
    """The 409 of a deletion; it names the kind where others name the plural."""
    group = resource.storage[0]
    details = {part: value for part, value in (("name", name), ("group", group), ("kind", resource.kind)) if value}
    kind = f"{resource.kind}.{group}" if group else resource.kind
    return Conflict(f'Operation cannot be fulfilled on {kind} "{name}": {why}', reason="Conflict", details=details)


def forbidden(resource: Resource, name: str, why: str, causes: list[dict[str, str]] | None = None) -> Forbidden:
    details = details_of(resource, name)
    if causes:
        details["causes"] = causes
    return Forbidden(f'{resource.name} "{name}" is forbidden: {why}', reason="Forbidden", details=details)


def not_admitted(
    resource: Resource, meta: dict[str, Any], why: str, causes: list[dict[str, str]] | None = None
) -> Forbidden:
    """Of a new object, which may have no name yet: then it is called by the beginning of one."""
    return forbidden(resource, meta.get("name") or meta.get("generateName") or "Unknown", why, causes)


def bad_request(text: str) -> BadRequest:
    return BadRequest(text, reason="BadRequest")


def too_large(why: str) -> TooLarge:
    return TooLarge(f"Request entity too large: {why}", reason="RequestEntityTooLarge")


def entity_too_large(bytes_max: int) -> TooLarge:
    return too_large(f"limit is {bytes_max}")


def too_many_requests() -> TooManyRequests:
    return TooManyRequests("Too many requests, please try again later.", reason="TooManyRequests", retry_after_s=1.0)


def too_old(version: int, floor: int) -> Gone:
    return Gone(f"too old resource version: {version} ({floor})", reason="Expired")


def too_new(version: int, current: int) -> ServerError:
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    return ServerError(text, reason="Timeout", code=504, details={"causes": causes}, retry_after_s=1.0)


def no_such_resource() -> NotServed:
    return NotServed(NOT_SERVED, reason="NotFound")
