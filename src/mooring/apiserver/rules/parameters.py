"""The parameters of a class: opaque to Kubernetes, but bounded."""

from __future__ import annotations

from typing import Final

from mooring.apiserver import causes
from mooring.apiserver.causes import Cause
from mooring.apiserver.metadata import total_bytes

COUNT_MAX: Final = 512
BYTES_MAX: Final = 256 * 1024


def validate(given: dict[str, str], *, allow_empty: bool) -> list[Cause]:
    """What is wrong with them, at the field `parameters`."""
    if not given and not allow_empty:
        return [causes.required("parameters", "must contain at least one key/value pair")]
    if len(given) > COUNT_MAX:
        return [causes.too_many("parameters", COUNT_MAX)]
    found = [causes.invalid("parameters", key, "field can not be empty.") for key in given if not key]
    if total_bytes(given) > BYTES_MAX:
        found.append(causes.too_long("parameters", BYTES_MAX))
    return found
