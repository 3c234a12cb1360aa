"""What the two classes share: the driver that is named, and parameters, which are opaque to Kubernetes but bounded."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.metadata import total_bytes
from mooring.apiserver.rules import checks

COUNT_MAX: Final = 512
BYTES_MAX: Final = 256 * 1024


def driver(name: str, field: str) -> list[Cause]:
    """Laxer than a driver's name elsewhere: a qualified name after lower-casing."""
    return checks.named(name.lower(), field, names.qualified_name) if name else [field_errors.required(field)]


def validate(given: dict[str, str], *, allow_empty: bool) -> list[Cause]:
    """What is wrong with them, at the field `parameters`."""
    if not given and not allow_empty:
        return [field_errors.required("parameters", "must contain at least one key/value pair")]
    if len(given) > COUNT_MAX:
        return [field_errors.too_many("parameters", COUNT_MAX)]
    found = [field_errors.invalid("parameters", key, "field can not be empty.") for key in given if not key]
    if total_bytes(given) > BYTES_MAX:
        found.append(field_errors.too_long("parameters", BYTES_MAX))
    return found
