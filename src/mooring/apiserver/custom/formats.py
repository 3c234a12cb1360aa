"""Formats of strings in schemas: those that limit the text. All others have no effect."""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final

_TIME_OF_DAY: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)
_DURATION: Final = re.compile(
    r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0|(?:\d+\s*(?:w|d|wk|weeks?|days?))+", re.ASCII
)
_UUID: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE
)
_MAC: Final = re.compile(
    r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}(([:-][0-9a-f]{2}){2})?|[0-9a-f]{4}(\.[0-9a-f]{4}){2,3}", re.ASCII | re.IGNORECASE
)
_EMAIL: Final = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_HOST_LABEL: Final = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_SCHEME: Final = re.compile(r"[a-zA-Z][-+.a-zA-Z0-9]*:.+", re.DOTALL)


def fits(text: str, name: str) -> bool:
    """True for unchecked formats, too."""
    rule = RULES.get(name.replace("-", ""))
    return rule is None or rule(text)


def _date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    found = _TIME_OF_DAY.fullmatch(rest)
    return found is not None and _date(day) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _byte(text: str) -> bool:
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True) is not None
    except (binascii.Error, ValueError):
        return False


def _address(kind: Callable[[str], Any]) -> Callable[[str], bool]:
    def fits_address(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return "%" not in text

    return fits_address


def _cidr(text: str) -> bool:
    return "/" in text and _address(lambda given: ipaddress.ip_network(given, strict=False))(text)


def _uuid(version: str = "") -> Callable[[str], bool]:
    def fits_uuid(text: str) -> bool:
        found = _UUID.fullmatch(text)
        return found is not None and version in ("", found[1])

    return fits_uuid


def _uri(text: str) -> bool:
    try:
        return text.startswith("/") or (
            _SCHEME.fullmatch(text) is not None and bool(urllib.parse.urlsplit(text).scheme)
        )
    except ValueError:
        return False


def _hostname(text: str) -> bool:
    return len(text) <= 255 and all(
        len(part) <= 63 and _HOST_LABEL.fullmatch(part) for part in text.removesuffix(".").split(".")
    )


RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "date": _date,
    "datetime": _date_time,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "byte": _byte,
    "ipv4": _address(ipaddress.IPv4Address),
    "ipv6": _address(ipaddress.IPv6Address),
    "cidr": _cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uri": _uri,
    "hostname": _hostname,
}
"""By name without dashes."""

_UNCHECKED: Final = "int32 int64 float double password bsonobjectid isbn isbn10 isbn13 creditcard ssn hexcolor rgbcolor"
KNOWN: Final = frozenset([*RULES, *_UNCHECKED.split(), "k8s-short-name", "k8s-long-name"])
"""Formats that earn no warning."""
