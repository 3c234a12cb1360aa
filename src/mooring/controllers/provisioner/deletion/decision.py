"""What can be decided about a PersistentVolume: actions as values, with their reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mooring.api.core import SecretReference
from mooring.controllers.provisioner.deletion import reasons as why
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """Put the finalizer on it, so that its volume is deleted before the object goes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadSecret:
    """Fetch the Secret that the call needs; without it the call is made all the same."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Call DeleteVolume. migrated: the volume is an in-tree one."""

    handle: str
    migrated: bool = False

    def request(self, secrets: Mapping[str, str]) -> csi.DeleteVolumeRequest:
        return csi.DeleteVolumeRequest(volume_id=self.handle, secrets=secrets)


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteObject:
    """Ask for the PersistentVolume's deletion."""


Action = Hold | Release | LoadSecret | DeleteVolume | DeleteObject


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order, the first failure stops the rest. problem: what must change before there is anything to do."""

    because: why.Because
    actions: tuple[Action, ...] = ()
    problem: why.Problem | None = None
