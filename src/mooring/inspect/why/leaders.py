"""Whether a driver's sidecar renews its Lease. Pure."""

from __future__ import annotations

from mooring.api.names import sanitised
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, TOGETHER, Leader, leader_of
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State


def leader(scene: Scene, program: str, driver: str) -> Leader | None:
    """The newest Lease of the program; None without one that can be seen: it may run without election."""
    if program in CONTROLLER_LOCKS:
        return _newest(scene, CONTROLLER_LOCKS[program])
    return _newest(scene, LOCKS[program].format(sanitised(driver)), TOGETHER.format(sanitised(driver)))


def _newest(scene: Scene, *names: str) -> Leader | None:
    found = (leader_of(one, scene.now_s) for one in scene.leases.values() if one.metadata.name in names)
    return max(found, key=lambda one: one.renewed_s, default=None)


def silent_link(scene: Scene, step: str, program: str, driver: str) -> Link | None:
    """The link of a step whose program does not renew its Lease, None where it does, or where nobody can know. driver:
    "" for a controller of all drivers, whose Lease may be read only where its namespace shows it.
    """
    held = leader(scene, program, driver)
    return None if held is None or held.is_live else ended_link(step, program, driver, held)


def ended_link(step: str, program: str, driver: str, held: Leader) -> Link:
    namespace = held.key.partition("/")[0]
    return Link(
        step,
        State.FAILED,
        f"{program}{f' of {driver}' if driver else ''} does not run: nobody renews its Lease {held.key}"
        + (f", last held by {held.holder}" if held.holder else ""),
        Mover.OPERATOR,
        f"whoever runs {f'the driver {driver}' if driver else program}",
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
