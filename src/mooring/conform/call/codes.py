"""The meaning of gRPC's codes in CSI, and to Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code, go_name

_MEANINGS: Final[Mapping[int, str]] = {
    Code.CANCELED: "the caller gave the call up, or its connection was closed",
    Code.UNKNOWN: "the driver failed and gave no code: an error that its code did not catch",
    Code.INVALID_ARGUMENT: "a field of the request is missing or wrong",
    Code.DEADLINE_EXCEEDED: "the call was not answered in time",
    Code.NOT_FOUND: "the volume, snapshot or node of the request does not exist",
    Code.ALREADY_EXISTS: "there is one of this name or place already, and it is not compatible with the request",
    Code.PERMISSION_DENIED: "the secrets of the request do not allow this",
    Code.RESOURCE_EXHAUSTED: "there is no room or quota for this, or one limit of the node is reached",
    Code.FAILED_PRECONDITION: "the volume or snapshot is in a state that does not allow this, as in use elsewhere",
    Code.ABORTED: "another call for the same volume or snapshot is under way",
    Code.OUT_OF_RANGE: "the size or offset is outside of what the driver can do",
    Code.UNIMPLEMENTED: "the driver does not have this call, or not with these fields",
    Code.INTERNAL: "the driver or its backend failed",
    Code.UNAVAILABLE: "the driver could not be reached, or its backend can't be now",
    Code.DATA_LOSS: "data is lost or damaged",
    Code.UNAUTHENTICATED: "the secrets of the request are missing or wrong",
}


def meaning(error: DriverError, rpc: str = "") -> str:
    """Two sentences: what the code says, and whether the operation has surely ended. rpc: the call's name."""
    if rpc.startswith("List") and error.code == Code.ABORTED:
        return "Aborted: starting_token is none of the driver's, or no longer. Begin the list anew, without a token."
    name = go_name(error.code)
    says = f"{name}: {_MEANINGS.get(error.code, 'a code that gRPC does not know')}."
    if error.unsent:
        return f"{says} Nothing was sent: the driver has not seen the call."
    if error.answered:
        return f"{says} The driver may have done it: it said OK, with an answer that can't be read."
    if error.final:
        return (
            f"{says} Final: the driver is not at work on it any more. A sidecar gives this attempt up, and begins anew."
        )
    return f"{says} Not final: the driver may still be at work on it. A sidecar repeats the very same call."
