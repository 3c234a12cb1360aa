"""The words of `mooring dev` when it is ready: what is here, and what to type in another terminal."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator

from mooring.dev.driver_form import Form, Reference, Socket
from mooring.dev.plane import Plane
from mooring.mounts.namespace import MountSpace


@dataclasses.dataclass(frozen=True, slots=True)
class Commands:
    """To be typed in another terminal. dev: this program's. examples: prints objects to paste."""

    dev: str
    examples: str


def invitation(plane: Plane, space: MountSpace, form: Form, commands: Commands, *, kept: bool, can_enter: bool) -> Iterator[str]:
    """The command to type stands last and alone, from the first column on; the others fit 80 columns, but for those with paths."""
    ends = "stay in the --state folder." if kept else "end with this process; --state FOLDER keeps them."
    again = ", Enter shows this again" if can_enter else ""
    yield ""
    yield f"Ready. Objects and volumes {ends}"
    yield f"The driver {plane.driver_name} is on unix://{plane.socket}"
    yield from _about_pods(plane, space, form)
    yield "Not here: containers."
    yield from plane.extras.absent()
    yield f"Claims and a pod to paste: {commands.examples}"
    if plane.nodes is not None and plane.nodes.killable:
        name = plane.nodes.killable[-1]
        yield f"A node dies, and comes back: {commands.dev} kill-node {name}, revive-node {name}"
    yield "From here on: what the controllers write, and every call to the driver."
    yield f"Ctrl-C ends it{again}. In another terminal:"
    yield ""
    yield f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}"
    yield ""


def _about_pods(plane: Plane, space: MountSpace, form: Form) -> Iterator[str]:
    """Whether pods run, and where their volumes are seen."""
    folder = plane.folder / "nodes"
    if plane.nodes is None:
        yield "The driver has no node service: pods get a node, and do not run."
    elif isinstance(form, Socket):
        yield "Pods run once their volumes are there. The driver mounts them where it runs,"
        yield f"and they outlive this process: {folder}"
    elif space.can_mount:
        yield "Pods run once their volumes are mounted. The mounts are this process' own:"
        yield f"  ls /proc/{os.getpid()}/root{folder}/*/pods"
    else:
        yield f"No mounts: {space.obstacle}."
        links = isinstance(form, Reference)
        yield "Volumes are links in place of mounts." if links else "Pods wait for the volumes that the driver would mount."
