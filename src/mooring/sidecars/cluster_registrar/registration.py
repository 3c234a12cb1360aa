"""Makes the CSIDriver of one driver and looks after it: made when it is missing, never changed, removed only when that
is asked for.

Source: cluster-driver-registrar 1.0, whose object was of v1beta1. Differs: an object that says something else than this
driver would is named in the log, with the fields, once for each difference. Reading it takes the right `get`, which the
old manifests do not give.

Its one write is a create, and no cache shows the object: so it has no `ObjectWriter`, which writes to objects of a
cache.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.api.storage import CSI_DRIVERS, CSIDriver
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound

_log = logger(__name__)

LOOK_S: Final = 120.0

PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4)
"""The pauses before a write that met a conflict is sent again."""


class ClusterRegistration:
    """One driver's CSIDriver. attach_required, pod_info_on_mount: its fields of these names."""

    def __init__(
        self, cluster: Cluster, driver_name: str, *, attach_required: bool, pod_info_on_mount: bool, clock: Clock
    ) -> None:
        self._cluster, self._name, self._clock = cluster, driver_name, clock
        self._spec: dict[str, Any] = {"attachRequired": attach_required, "podInfoOnMount": pod_info_on_mount}
        self._warned = ""

    async def run(self) -> None:
        """Makes the object now, and again whenever it is missing, until cancelled. An API server that refuses is asked
        again.
        """
        while True:
            try:
                await self._make()
            except ApiError as error:
                _log.error("Failed to create CSIDriver object", error=error, driver=self._name)
            await self._clock.sleep(LOOK_S)

    async def remove(self) -> None:
        """Deletes the object; one that is not there is fine. Raises ApiError."""
        try:
            await self._cluster.delete(CSI_DRIVERS, self._name)
        except NotFound:
            return
        _log.info(0, "CSIDriver object deleted", driver=self._name)

    async def _make(self) -> None:
        body = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": self._name},
            "spec": self._spec,
        }
        for pause_s in (*PAUSES_S, None):
            try:
                await self._cluster.create(CSI_DRIVERS, body)
                break
            except AlreadyExists:
                await self._compare()
                return
            except Conflict:
                if pause_s is None:
                    raise
                await self._clock.sleep(pause_s)
        _log.info(0, "CSIDriver object created", driver=self._name, **self._spec)

    async def _compare(self) -> None:
        try:
            present = await self._cluster.get(CSI_DRIVERS, self._name)
        except NotFound:
            return  # removed just now: made anew at the next look
        except Forbidden as error:
            self._warn("CSIDriver object exists; whether it is as this driver needs it can't be read", str(error))
            return
        different = ", ".join(differences(present, self._spec))
        if different:
            self._warn(
                "CSIDriver object differs from what the driver needs, and is left alone: delete or edit it by hand",
                different,
            )

    def _warn(self, message: str, reason: str) -> None:
        if reason != self._warned:
            _log.warning(message, driver=self._name, reason=reason)
        self._warned = reason


def differences(present: CSIDriver, wanted: dict[str, bool]) -> list[str]:
    """`attachRequired is true, not false` for each field that differs. A field that is not set counts as the API
    server's default.
    """
    found = {
        "attachRequired": present.spec.attach_required is not False,
        "podInfoOnMount": bool(present.spec.pod_info_on_mount),
    }
    return [
        f"{name} is {str(found[name]).lower()}, not {str(value).lower()}"
        for name, value in wanted.items()
        if found[name] != value
    ]
