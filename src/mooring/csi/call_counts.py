"""How long CSI calls took, counted: one histogram, with the name and labels of the Go sidecars, so that their
dashboards go on working.

Kept as plain counts and turned into samples at a scrape: a call costs one look-up and one addition, and the `migrated`
label can come and go with the driver's name, which is not known when the first calls are made.
Source: csi-lib-utils' metrics, as external-attacher 4.12 serves them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final, Protocol

from mooring.wire.grpc.codes import Code, go_name

NAME: Final = "csi_sidecar_operations_seconds"
HELP: Final = "[ALPHA] Container Storage Interface operation duration with gRPC error code status total"
BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
UNKNOWN_DRIVER: Final = "unknown-driver"
NO_GRPC_CODE: Final = "unknown-non-grpc"

MIGRATED_DRIVERS: Final = frozenset(
    {
        "cinder.csi.openstack.org",
        "csi.vsphere.vmware.com",
        "disk.csi.azure.com",
        "ebs.csi.aws.com",
        "file.csi.azure.com",
        "pd.csi.storage.gke.io",
        "pxd.portworx.com",
    }
)
"""Drivers that also serve volumes of a former in-tree plugin, as the Go libraries for migration know them."""

_BOUNDS: Final = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")
_ODD_CODES_MAX: Final = 32  # series for codes outside gRPC's list; more than so many are counted together

Sample = tuple[str, Mapping[str, str], float]
"""Suffix of the name, labels, value."""


class CallObserver(Protocol):
    """Counts calls: its method, its code, seconds, whether it concerns an in-tree volume. None is the code of an error
    without one.
    """

    def observe(self, method: str, code: int | None, seconds: float, migrated: bool = False) -> None: ...


class _Durations:
    """One label set: counts per bucket, not cumulated, and the sum in seconds."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum_s = 0.0


class CallCounts:
    """Durations of CSI calls by driver, method and code. Lives on one event loop.

    driver_name: the label of the calls from now on; set it when the driver has told its name.
    """

    def __init__(self) -> None:
        self.driver_name = UNKNOWN_DRIVER
        self._series: dict[tuple[str, str, int | None, bool], _Durations] = {}
        self._odd_codes: set[int] = set()

    def observe(self, method: str, code: int | None, seconds: float, migrated: bool = False) -> None:
        """Counts one call.

        method: the full gRPC method, `/csi.v1.Identity/Probe`. code: None for an error without a gRPC code. migrated:
        it concerns an in-tree volume.
        """
        key = self.driver_name, method, self._bounded(code), migrated
        durations = self._series.get(key)
        if durations is None:
            durations = self._series[key] = _Durations()
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.sum_s += seconds

    def samples(self) -> Iterator[Sample]:
        """The histogram, with the label `migrated` for the drivers that have it."""
        for (driver, method, code, migrated), durations in self._series.items():
            labels = {
                "driver_name": driver,
                "grpc_status_code": NO_GRPC_CODE if code is None else go_name(code),
                "method_name": method,
            }
            if driver in MIGRATED_DRIVERS:
                labels["migrated"] = "true" if migrated else "false"
            cumulated = list(accumulate(durations.counts))
            for bound, count in zip(_BOUNDS, cumulated, strict=True):
                yield "_bucket", {**labels, "le": bound}, count
            yield "_sum", labels, durations.sum_s
            yield "_count", labels, cumulated[-1]

    def _bounded(self, code: int | None) -> int | None:
        """The code, or Unknown for one too many of those that gRPC doesn't have: a driver can't make series without
        end.
        """
        if code is None or 0 <= code <= Code.UNAUTHENTICATED or code in self._odd_codes:
            return code
        if len(self._odd_codes) >= _ODD_CODES_MAX:
            return Code.UNKNOWN
        self._odd_codes.add(code)
        return code
