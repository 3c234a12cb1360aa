"""Checks of names, labels and annotation keys in the API server's words; and names made from any text, as sidecars make
them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OLD_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_KEY_LETTERS_MAX: Final = 253 + 1 + 63
_NOT_PLAIN: Final = re.compile(r"[^a-zA-Z0-9-]")

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end "
    f"with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL.pattern}')"
)
_OLD_LABEL_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an "
    f"alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_OLD_LABEL.pattern}')"
)
_QUALIFIED_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED.pattern}')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{_LABEL_VALUE.pattern}')"
)


def dns_subdomain(text: str) -> list[str]:
    """The errors of text as a DNS subdomain (RFC 1123, at most 253 characters); [] for none."""
    return _too_long(text, 253, "characters") + _no_subdomain(text)


def dns_label(text: str) -> list[str]:
    """The errors of text as a DNS label (RFC 1123, at most 63 characters); [] for none."""
    found = _too_long(text, 63, "characters")
    if _LABEL.fullmatch(text):
        return found
    return [*found, "must not contain dots" if _SUBDOMAIN.fullmatch(text) else _LABEL_TEXT]


def dns_1035_label(text: str) -> list[str]:
    """The errors of text as a DNS label of RFC 1035, which begins with a letter; [] for none."""
    return _too_long(text, 63, "characters") + ([] if _OLD_LABEL.fullmatch(text) else [_OLD_LABEL_TEXT])


def qualified_name(text: str) -> list[str]:
    """The errors of text as a `[prefix/]name`; [] for none. A cluster has few keys, so the answers are remembered."""
    return list(_wrong_key(text) if len(text) <= _KEY_LETTERS_MAX else _wrong_key.__wrapped__(text))


@functools.lru_cache(maxsize=4096)
def _wrong_key(text: str) -> tuple[str, ...]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            (
                f"a valid label key {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. "
                "'example.com/MyName')"
            ),
        )
    found = []
    if slash:
        reasons = _too_long(prefix, 253) + _no_subdomain(prefix) if prefix else ["must be non-empty"]
        found += [f"prefix part {reason}" for reason in reasons]
    if not name:
        found.append("name part must be non-empty")
    found += [f"name part {reason}" for reason in _too_long(name, 63)]
    return (*found, *(() if _QUALIFIED.fullmatch(name) else (f"name part {_QUALIFIED_TEXT}",)))


def label_value(text: str) -> list[str]:
    """The errors of text as a label's value; [] for none."""
    return _too_long(text, 63) + ([] if _LABEL_VALUE.fullmatch(text) else [_LABEL_VALUE_TEXT])


def prefix_of(rule: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The rule for what a generated name begins with: its last character may be a dash, since more comes after it."""
    return lambda text: rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def path_segment(text: str) -> list[str]:
    """The errors of text as one name in a URL's path; [] for none."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return path_segment_prefix(text)


def path_segment_prefix(text: str) -> list[str]:
    """The errors of text as the beginning of a name in a URL's path; [] for none."""
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def _no_subdomain(text: str) -> list[str]:
    return [] if _SUBDOMAIN.fullmatch(text) else [_SUBDOMAIN_TEXT]


def _too_long(text: str, bytes_max: int, unit: str = "bytes") -> list[str]:
    """unit: as the API server calls it; it counts bytes."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {bytes_max} {unit}"] if size > bytes_max else []


def sanitised(text: str) -> str:
    """The text as upstream has it in lock names, identities and finalizers: `a.b.com` is `a-b-com`, `driver/` is
    `driver-X`.
    """
    clean = _NOT_PLAIN.sub("-", text)
    return f"{clean}X" if clean.endswith("-") else clean


def attacher_finalizer(driver: str) -> str:
    """The finalizer by which a driver's attacher holds attachments and PersistentVolumes."""
    return f"external-attacher/{sanitised(driver)}"
