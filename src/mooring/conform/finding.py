"""A breach that conform has found, in which check, and the call to make by hand."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Final

import msgspec
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from mooring.conform.book import node, publishing, snapshots, volumes
from mooring.conform.book.rule import Breach
from mooring.csi.redact import without_secrets

MADE_TWICE: Final = frozenset(
    {
        *(
            volumes.ANOTHER,
            volumes.REFUSED_AGAIN,
            volumes.SAME_ANSWER,
            publishing.SAME_CONTEXT,
            publishing.REFUSED_AGAIN,
        ),
        *(snapshots.ANOTHER, snapshots.REFUSED_AGAIN, node.AGAIN, node.COVERS),
    }
)
"""Rules that a call breaks when it comes again."""
_MOUNTING: Final = ("NodeStageVolume", "NodePublishVolume")


class Finding(msgspec.Struct, frozen=True):
    """check: the name of the one that showed it. is_own: that check asks about the very rule; others meet it on their
    way.

    output: the driver's last lines, where they say more. others: how many more checks have met it.
    """

    breach: Breach
    check: str
    is_own: bool = False
    output: tuple[str, ...] = ()
    others: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """A driver breaks a rule in one call once, however many checks show it."""
        return self.breach.rule.number, self.breach.rpc

    def by_hand(self, address: str) -> str:
        """The call as a command. Secrets are left out: they stand in a file of the reader's own. address: "" for that
        in $CSI_ENDPOINT.
        """
        if self.breach.request is None:
            return ""
        return call_by_hand(self.breach.rpc, self.breach.request, address)


def call_by_hand(rpc: str, request: Message, address: str) -> str:
    """The call as a command, after one that makes the folders which CSI wants from the caller, where it names any."""
    has_secrets = "secrets" in request.DESCRIPTOR.fields_by_name and bool(getattr(request, "secrets", None))
    shown = without_secrets(request)
    values: dict[str, Any] = MessageToDict(shown, preserving_proto_field_name=True)
    values.pop("secrets", None)
    secrets = " --secrets-file FILE" if has_secrets else ""
    body = shlex.quote(json.dumps(values, sort_keys=True))
    driver = f" --csi-address {shlex.quote(address)}" if address else ""
    folders = shlex.join(_callers_folders(rpc, request))
    makes = f"mkdir -p {folders} && " if folders else ""
    return f"{makes}mooring call {rpc}{driver}{secrets} -f - <<< {body}"


def _callers_folders(rpc: str, request: Any) -> list[str]:
    """The staging path, and the folder above the target path: the caller makes them, and conform removes those of its
    run at the end.
    """
    if rpc not in _MOUNTING:
        return []
    target = getattr(request, "target_path", "")
    found = (request.staging_target_path, os.path.dirname(target))
    return [folder for folder in found if folder]
