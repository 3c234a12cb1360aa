"""Checks of several common flags together, and the limits of the API client."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Final, TypeVar

from mooring.base.diagnostics import split_address
from mooring.base.errors import ConfigError
from mooring.base.flags import Parsed
from mooring.cli.election import times
from mooring.cli.limits import check_positive
from mooring.cli.tables import ClusterFlags, ManagerFlags, SidecarFlags
from mooring.csi.address import socket_path

F = TypeVar("F", bound=SidecarFlags)
M = TypeVar("M", bound=ManagerFlags)

_DEFAULT: Final = (5.0, 10)  # client-go's own, in place of 0


def check_common(parsed: Parsed[F]) -> None:
    """Raises ConfigError for a sidecar's common flags that can be read but not used."""
    flags = parsed.flags
    if flags.http_endpoint and flags.metrics_address:
        raise ConfigError(
            "only one of `--metrics-address` and `--http-endpoint` can be set; metrics-address is deprecated, drop it"
        )
    _check_address("metrics-address", flags.metrics_address)
    check_manager(parsed)
    check_positive({"connection-timeout": flags.connection_timeout_s}, "30s")
    socket_path(flags.csi_address)


def check_manager(parsed: Parsed[M]) -> None:
    """The same for a controller without a driver."""
    flags = parsed.flags
    _check_address("http-endpoint", flags.http_endpoint)
    if not flags.metrics_path.startswith("/"):
        raise ConfigError(f'metrics-path: "{flags.metrics_path}" must begin with /, as in /metrics')
    if flags.leader_election:
        times(flags).check()
    request_limit(flags, parsed.given)


def _check_address(name: str, address: str) -> None:
    if not address:
        return
    try:
        split_address(address)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class RequestLimit:
    """A token bucket before the API server. qps: None for no bucket."""

    qps: float | None = None
    burst: int = 0


def request_limit(flags: ClusterFlags, given: Collection[str]) -> RequestLimit:
    """The limit that the flags ask for. Raises ConfigError when there is a rate and no burst.

    Differs from the Go sidecars: without either flag there is no bucket, since the API server protects itself (priority
    and fairness) and five requests a second make two attachments a second. As there, 0 is the library's default and < 0
    is no limit.
    """
    if "kube-api-qps" not in given and "kube-api-burst" not in given:
        return RequestLimit()
    qps, burst = flags.kube_api_qps, flags.kube_api_burst
    if qps < 0:
        return RequestLimit()
    if qps == 0:
        return RequestLimit(_DEFAULT[0], burst if burst > 0 else _DEFAULT[1])
    if not qps < float("inf"):
        raise ConfigError(f"kube-api-qps: {qps} is no rate; a negative number is no limit")
    if burst <= 0:
        raise ConfigError(
            f"kube-api-burst: burst is required to be greater than 0 when kube-api-qps is, as in 10; got {burst}"
        )
    return RequestLimit(qps, burst)
