"""Whether a driver's sidecar renews its Lease. Pure."""

from __future__ import annotations

import msgspec

from mooring.api.coordination import Lease
from mooring.api.names import sanitised
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, SKEW_S, TOGETHER
from mooring.inspect.scene import Scene, moment_s
from mooring.inspect.why.chain import Command, Link, Mover, State


class Leader(msgspec.Struct, frozen=True):
    """The program's Lease. key: namespace and name. renewed_s: seconds since 1970."""

    key: str
    holder: str
    renewed_s: float
    is_live: bool


def leader(scene: Scene, program: str, driver: str) -> Leader | None:
    """The newest Lease of the program; None without one that can be seen: it may run without election."""
    return _newest(scene, LOCKS[program].format(sanitised(driver)), TOGETHER.format(sanitised(driver)))


def _newest(scene: Scene, *names: str) -> Leader | None:
    found = (leader_of(one, scene.now_s) for one in scene.leases.values() if one.metadata.name in names)
    return max(found, key=lambda one: one.renewed_s, default=None)


def leader_of(lease: Lease, now_s: float) -> Leader:
    """now_s: seconds since 1970."""
    spec = lease.spec
    renewed_s = moment_s(spec.renew_time)
    holds_s = (spec.lease_duration_seconds or 15) + SKEW_S
    is_live = bool(spec.holder_identity) and now_s - renewed_s < holds_s
    return Leader(f"{lease.metadata.namespace}/{lease.metadata.name}", spec.holder_identity or "", renewed_s, is_live)


def silent_controller_link(scene: Scene, step: str, program: str) -> Link | None:
    """The same for a controller of all drivers. Its Lease may be read only where its namespace shows it."""
    return _silence(step, program, _newest(scene, CONTROLLER_LOCKS[program]), f"whoever runs {program}")


def silent_link(scene: Scene, step: str, program: str, driver: str) -> Link | None:
    """The link of a step whose program does not renew its Lease, None where it does, or where nobody can know."""
    return _silence(step, f"{program} of {driver}", leader(scene, program, driver), f"whoever runs the driver {driver}")


def _silence(step: str, program: str, held: Leader | None, who: str) -> Link | None:
    if held is None or held.is_live:
        return None
    namespace = held.key.partition("/")[0]
    return Link(
        step,
        State.FAILED,
        f"{program} does not run: nobody renews its Lease {held.key}"
        + (f", last held by {held.holder}" if held.holder else ""),
        Mover.OPERATOR,
        who,
        since_s=held.renewed_s,
        commands=(
            Command(
                f"kubectl -n {namespace} get pods", "reads only: whether its pod is there, and why it does not run"
            ),
            Command(
                f"kubectl -n {namespace} get deployments,statefulsets",
                "reads only: what is to make that pod; kubectl scale brings it back",
            ),
        ),
    )
