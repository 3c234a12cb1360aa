"""Formats of strings in schemas, checked as the real server's libraries read them: strictly here, sloppily there."""

from __future__ import annotations

import calendar
import contextlib
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from mooring.base.units import parse_duration_s

_SPACE: Final = r"[\t\n\f\r ]"
_HEX: Final = re.compile(r"[0-9a-fA-F]+")
_TWO_TO_63: Final = 2**63


def fits(text: str, name: str) -> bool:
    """Whether the text has this format; every text has an unknown one."""
    rule = RULES.get(name.replace("-", ""))
    return rule is None or rule(text)


def is_known(name: str, kind: str) -> bool:
    """Whether the format limits values of this type. kind: the type, "" where the schema names none."""
    if kind in _OF_NUMBERS:
        return name in _OF_NUMBERS[kind]
    return kind in ("", "string") and name.replace("-", "") in RULES


def _matches(pattern: str) -> Callable[[str], bool]:
    whole = re.compile(pattern, re.ASCII)
    return lambda text: whole.fullmatch(text) is not None


# -- times


def _date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    year, month, day = (int(part) for part in text.split("-"))
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


_TIME_OF_DAY: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)


def _date_time(text: str) -> bool:
    """The real server splits at every T, and reads nothing behind the second one."""
    day, *rest = text.lower().split("t")
    found = _TIME_OF_DAY.fullmatch(rest[0]) if rest else None
    return found is not None and _date(day) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


_AMOUNT: Final = re.compile(rf"(\d+){_SPACE}*([A-Za-zµ]+)", re.ASCII)
_UNIT: Final = re.compile(r"ns|us|µs|ms|s|m|h|hr|d|w|wk|(nano|micro|milli|sec|min|hour|day|week).*")


def _duration(text: str) -> bool:
    """A duration as Go writes it, or a text with an amount of a known unit anywhere, as the real server has it."""
    with contextlib.suppress(ValueError):
        parse_duration_s(text)
        return True
    amounts = _AMOUNT.findall(text)
    return all(len(number.lstrip("0")) < 20 and int(number) < _TWO_TO_63 for number, _ in amounts) and any(
        _UNIT.fullmatch(unit.lower()) for _, unit in amounts
    )


# -- addresses


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _sloppy(text: str) -> _Address | None:
    """The address, read with leading zeros, as Kubernetes goes on reading them in IPv4 and in networks."""
    return _address(re.sub(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])", "", text))


def _cidr(text: str) -> bool:
    address, _, bits = text.partition("/")
    found = _sloppy(address)
    return (
        found is not None
        and re.fullmatch(r"0*\d{1,3}", bits, re.ASCII) is not None
        and int(bits) <= found.max_prefixlen
    )


def _mac(text: str) -> bool:
    """6, 8 or 20 bytes, apart by colons or hyphens, in pairs by dots, or in one piece."""
    mark = next((mark for mark in ":-." if mark in text), "")
    groups = text.split(mark) if mark else [text]
    width = {"": len(text), ".": 4}.get(mark, 2)
    digits = "".join(groups)
    return len(digits) in (12, 16, 40) and _HEX.fullmatch(digits) is not None and {width} == {*map(len, groups)}


_BARE_NAME: Final = re.compile(r"[a-zA-Z0-9]-?[a-zA-Z0-9]{0,62}")
_DOTTED_NAME: Final = re.compile(r"([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}")


def _hostname(text: str) -> bool:
    """Names in any script, with symbols (emoji): of a name without a dot, only the second sign may be a hyphen."""
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    plain = "".join("a" if c.isalpha() else "0" if unicodedata.category(c)[0] == "S" else c for c in text)
    return (_BARE_NAME.fullmatch(plain) or _DOTTED_NAME.fullmatch(plain)) is not None


_BAD_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_BAD_ESCAPE_IN_HOST: Final = re.compile(r"%(?!25|[89a-fA-F][0-9a-fA-F])")
_USER: Final = _matches(r"([-A-Za-z0-9._:~!$&'()*+,;=@]|%[0-9a-fA-F]{2})*")
_HOST: Final = _matches(r"[-A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]*")
_PORT: Final = _matches(r"(:[0-9]*)?")
_SCHEME: Final = re.compile(r"[a-zA-Z][-+.a-zA-Z0-9]*:")


def _uri(text: str) -> bool:
    """An absolute URI, or an absolute path, as a request's first line may have it."""
    if text == "*":
        return True
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        return False
    found = _SCHEME.match(text)
    scheme, rest = (found[0][:-1].lower(), text[found.end() :]) if found else ("", text)
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return bool(scheme)
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        user, _, host = authority.rpartition("@")
        if not (_USER(user) and _host(host, scheme)):
            return False
        rest = slash + path
    return not _BAD_ESCAPE.search(rest)


def _host(text: str, scheme: str) -> bool:
    if text.startswith("[") and text.rfind("[") == 0:
        literal, bracket, port = text[1:].rpartition("]")
        address, _, zone = literal.partition("%25")
        return (
            bool(bracket) and _PORT(port) and ":" in address and _address(address) is not None and _zone(literal, zone)
        )
    first, last = text.find(":"), text.rfind(":")
    port = text[first if scheme in ("http", "https") else last :] if first >= 0 else ""
    return "[" not in text[1:] and _PORT(port) and _HOST(text) and not _BAD_ESCAPE_IN_HOST.search(text)


def _zone(literal: str, zone: str) -> bool:
    return "%25" not in literal or (bool(zone) and _HOST(zone.replace("%20", "")) and not _BAD_ESCAPE.search(zone))


_ATOM: Final = r"""[^\x00-\x20\x7f()<>\[\]:;@\\,".]"""
_QUOTED: Final = r'"(?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'
_INNER: Final = r"(?:[^()\\]|\\.)*"
_COMMENT: Final = rf"\({_INNER}(?:\({_INNER}\){_INNER})*\)"
_GAP: Final = rf"(?:[ \t]|{_COMMENT})*"
_NAME: Final = rf"(?:(?:{_ATOM}|\.|{_QUOTED})(?:{_ATOM}|[. \t]|{_QUOTED}|{_COMMENT})*)"
_DOTS: Final = rf"{_ATOM}+(?:\.{_ATOM}+)*"
_SPEC: Final = rf'[ \t]*(?:(?!""){_QUOTED}|{_DOTS})@[ \t]*(?:{_DOTS}|\[[0-9a-fA-F:.]*\])'
_BOX: Final = rf"(?:{_SPEC}|{_NAME}?<{_SPEC}>)"
_EMAIL: Final = re.compile(rf"[ \t]*(?:{_BOX}|{_NAME}:{_GAP}{_BOX}{_GAP};){_GAP}", re.DOTALL)


def _email(text: str) -> bool:
    """A mailbox as in the head of a mail, with a name or without."""
    if not _EMAIL.fullmatch(text):
        return False
    literal = re.search(r"@[ \t]*\[([0-9a-fA-F:.]*)\]", text)
    return literal is None or _address(literal[1]) is not None


# -- numbers of things


def _isbn10(text: str) -> bool:
    digits = re.sub(rf"{_SPACE}|-", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(rf"{_SPACE}|-", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (1, 3)[place % 2] for place, digit in enumerate(digits)) % 10 == 0


_CARD: Final = _matches(
    r"4\d{12}(\d{3})?|(5[1-5]\d\d|6011|65\d\d|35\d\d)\d{12}|(3[47]\d\d|2131|1800)\d{11}|3(0[0-5]|[68]\d)\d{11}"
)


def _credit_card(text: str) -> bool:
    """A known issuer's number whose check digit is right (Luhn); whatever is no digit may stand in between."""
    digits = re.sub(r"[^0-9]", "", text)
    return _CARD(digits) and (
        sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(reversed(digits))) % 10 == 0
    )


_BYTE: Final = r"0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5]"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SHORT_NAME: Final = _matches(_LABEL)
_LONG_NAME: Final = _matches(rf"{_LABEL}(\.{_LABEL})*")


def _uuid(middle: str = "[0-9a-f]{4}-?[0-9a-f]{4}") -> Callable[[str], bool]:
    whole = _matches(rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{middle}-?[0-9a-f]{{12}}")
    return lambda text: whole(text.lower())


RULES: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "byte": _matches(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _cidr,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _email,
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": lambda text: "." in text and _sloppy(text) is not None,
    "ipv6": lambda text: ":" in text and _address(text) is not None,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": lambda text: len(text) <= 253 and _LONG_NAME(text),
    "k8sshortname": lambda text: len(text) <= 63 and _SHORT_NAME(text),
    "mac": _mac,
    "password": lambda text: True,
    "rgbcolor": _matches(rf"rgb\({_SPACE}*({_BYTE})({_SPACE}*,{_SPACE}*({_BYTE})){{2}}{_SPACE}*\)"),
    "ssn": _matches(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3[0-9a-f]{3}-?[0-9a-f]{4}"),
    "uuid4": _uuid("4[0-9a-f]{3}-?[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}-?[89ab][0-9a-f]{3}"),
}
"""By name without dashes."""

_OF_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {"integer": ("int32", "int64"), "number": ("float", "double")}
