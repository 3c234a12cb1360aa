"""The cause that an error text names: whose move it is, and the next command. Pure.

The texts are those of the Go sidecars, of kubelet and scheduler, and of Mooring, which keeps them to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.codes import MEANINGS, code_in
from mooring.inspect.why.logs import log_command, pods_command

USER_CODES: Final = ("InvalidArgument", "OutOfRange", "Unauthenticated", "AlreadyExists")
"""The codes after which the driver waits for other parameters, secrets or sizes."""


class Diagnosis(msgspec.Struct, frozen=True):
    """cause: a sentence, "" where the error text has to do."""

    mover: Mover
    who: str
    cause: str = ""
    code: str = ""
    commands: tuple[Command, ...] = ()

    @property
    def meaning(self) -> str:
        return MEANINGS.get(self.code, "")


def diagnosed(error: str, *, driver: str, namespace: str, program: str, scene: Scene | None = None) -> Diagnosis:
    """driver: whose call failed. namespace: that of the claim, for commands. program: which made the call, as
    `csi-provisioner`.

    scene: shows which pod leads, or that there are no pods.
    """
    for pattern, told in _CAUSES:
        found = pattern.search(error)
        if found is not None:
            return msgspec.structs.replace(told(found, namespace, scene), code=code_in(error))
    code, logs = code_in(error), log_command(scene, program, driver)
    if not code:
        return Diagnosis(Mover.CLUSTER, program, commands=(logs,))
    if code in USER_CODES:
        who = (
            f"whoever wrote the class, the secret or the object of {program} (the driver {driver} does not accept them)"
        )
        return Diagnosis(Mover.USER, who, code=code, commands=(logs,))
    return Diagnosis(Mover.DRIVER, f"the driver {driver}", code=code, commands=(logs,))


def failed_link(
    step: str, told: Diagnosis, text: str, since_s: float, error: str, retry: str, also: tuple[Command, ...] = ()
) -> Link:
    """text: where the error names no cause. also: commands after those of the diagnosis. What only waits for others has
    not failed.
    """
    state = State.WAITING if told.mover is Mover.CLUSTER and told.cause else State.FAILED
    return Link(
        step,
        state,
        told.cause or text,
        told.mover,
        told.who,
        since_s,
        error,
        told.code,
        told.meaning,
        retry,
        (*told.commands, *also),
    )


def _secret(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    name, namespace = found["name"], found["namespace"]
    return Diagnosis(
        Mover.USER,
        "whoever keeps the driver's secrets",
        f'the secret "{namespace}/{name}" does not exist',
        commands=(
            Command(
                f"kubectl -n {namespace} create secret generic {name} --from-literal=KEY=VALUE",
                "safe: makes the secret; its keys are those of the driver's manual",
            ),
        ),
    )


def _forbidden(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    user, verb, resource, group = found["user"], found["verb"], found["resource"], found["group"] or ""
    account = re.fullmatch(r"system:serviceaccount:([^:]+):(.+)", user)
    what = f"{resource}.{group}" if group else resource
    name = re.sub(r"[^a-z0-9]+", "-", f"csi-{verb}-{resource}".lower())
    subject = f"--serviceaccount={account[1]}:{account[2]}" if account else f"--user={user}"
    return Diagnosis(
        Mover.OPERATOR,
        "whoever keeps the sidecars' roles",
        f"{user} has no right to {verb} {what}",
        commands=(
            Command(
                f"kubectl create clusterrole {name} --verb={verb} --resource={what}",
                "safe: a role with this right alone",
            ),
            Command(
                f"kubectl create clusterrolebinding {name} --clusterrole={name} {subject}",
                "safe: gives it to the sidecar",
            ),
        ),
    )


def _quota(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    quota = found["quota"]
    return Diagnosis(
        Mover.USER,
        "the owner of the namespace, or who keeps its quota",
        f'the quota "{quota}" of the namespace is used up',
        commands=(
            Command(
                f"kubectl -n {namespace} describe resourcequota {quota}",
                "reads only: what is used, and by how much it is over",
            ),
            Command(
                f"kubectl -n {namespace} patch resourcequota {quota} --type=merge -p "
                f'\'{{"spec": {{"hard": {{"{_over(found.string)}": "AMOUNT"}}}}}}\'',
                "safe: raises the limit, if there is room for more",
            ),
        ),
    )


def _over(error: str) -> str:
    """The resource that the quota counts, as in `exceeded quota: q, requested: persistentvolumeclaims=1, used: …`."""
    found = re.search(r"requested: ([\w./-]+)=", error)
    return found[1] if found else "persistentvolumeclaims"


def _no_driver_on_node(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    driver = found["driver"]
    return Diagnosis(
        Mover.OPERATOR,
        f"whoever runs the driver {driver} on the nodes",
        f"the driver {driver} is not registered on the node: its node plugin does not run there, or its "
        "registrar failed",
        commands=(
            Command("kubectl get csinodes -o wide", "reads only: on which nodes the driver is registered"),
            pods_command(scene, "kubelet", driver),
        ),
    )


def _used_by(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    return Diagnosis(
        Mover.USER, "the owner of the pods that have the volume", "the volume may be attached to one node at a time"
    )


def _timed_out(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    return Diagnosis(Mover.CLUSTER, "the kubelet of the node", "the kubelet waits for the attach, or for its driver")


def _untold(found: re.Match[str], namespace: str, scene: Scene | None) -> Diagnosis:
    cause = "the driver does not delete the snapshot; the Go csi-snapshotter writes the driver's error to its log alone"
    return Diagnosis(
        Mover.DRIVER, "the driver of the snapshot", cause, commands=(pods_command(scene, "csi-snapshotter", ""),)
    )


_CAUSES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str, Scene | None], Diagnosis]], ...]] = (
    (re.compile(r'secret (?P<name>[\w.-]+) in namespace (?P<namespace>[\w-]+): secrets "[^"]+" not found'), _secret),
    (re.compile(r'secret "?(?P<namespace>[\w-]+)/(?P<name>[\w.-]+)"?.{0,40}not found'), _secret),
    (
        re.compile(
            r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"(?: in API group '
            r'"(?P<group>[^"]*)")?'
        ),
        _forbidden,
    ),
    (re.compile(r"exceeded quota: (?P<quota>[\w.-]+)"), _quota),
    (re.compile(r"driver name (?P<driver>\S+) not found in the list of registered CSI drivers"), _no_driver_on_node),
    (re.compile(r"CSINode \S+ does not contain driver (?P<driver>\S+)"), _no_driver_on_node),
    (re.compile(r"Multi-Attach error"), _used_by),
    (re.compile(r"^Failed to delete snapshot$"), _untold),
    (re.compile(r"timed out waiting for the condition|timeout expired waiting for volumes to attach"), _timed_out),
)
"""The first that matches is the cause."""
