"""gRPC's codes in the errors that API objects and Events carry, and what each means for whoever is on call.

Source: CSI specification, "Error Scheme"; Go's `status.Error` writes `rpc error: code = NotFound desc = no such
volume`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "Canceled": "The caller gave up before the answer; the driver may still be at work.",
    "Unknown": "The driver failed without saying how; only its log can tell.",
    "InvalidArgument": (
        "The driver does not accept the request: a parameter of the class, a secret or the volume's attributes are "
        "wrong. It stays so until somebody changes them."
    ),
    "DeadlineExceeded": (
        "The driver did not answer in time; the operation may have been carried out, so it is asked again, never "
        "assumed."
    ),
    "NotFound": (
        "The driver does not know the volume, snapshot or node: it is gone on the storage, or belongs to another "
        "tenant."
    ),
    "AlreadyExists": "Something of this name exists with other properties.",
    "PermissionDenied": "The storage refuses the driver's account.",
    "ResourceExhausted": "The storage, the account or the node has no room left.",
    "FailedPrecondition": (
        "The volume is in a state in which this can't be done: attached elsewhere, in use, or not ready."
    ),
    "Aborted": "Another operation on this volume is still running; it is tried again.",
    "OutOfRange": "The size that was asked for is beyond what the driver supports.",
    "Unimplemented": "The driver does not have this call.",
    "Internal": "The driver or the storage is broken inside; its log can tell.",
    "Unavailable": "The driver, or the storage behind it, can't be reached at the moment.",
    "DataLoss": "The storage reports lost data. Stop, and look at the storage first.",
    "Unauthenticated": "The secret that the driver was given is wrong or has run out.",
}

_CODE: Final = re.compile(r"code = (\w+)")


def code_in(text: str) -> str:
    """The name of the last gRPC code in an error text (that of the innermost call), "" for none that is known."""
    return next((name for name in reversed(_CODE.findall(text)) if name in MEANINGS), "")
