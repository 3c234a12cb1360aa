"""The text that `mooring dev` prints when it is ready: what runs, what to type in another terminal, and examples as a
shell script.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mooring.apiserver.bodies.yamlbody import dump_yaml
from mooring.csi.driver_form import Form, ReferenceDriver, Socket
from mooring.dev.plane import Plane
from mooring.dev.seed_objects import ATTRIBUTES, WAITS, claim, pod, restored, snapshot
from mooring.mounts.namespace import MountSpace


class Commands(msgspec.Struct, frozen=True):
    """To be typed in another terminal. dev: this program's. examples: prints objects to paste."""

    dev: str
    examples: str


def ready_text(
    plane: Plane, space: MountSpace, form: Form, commands: Commands, *, kept: bool, can_enter: bool
) -> Iterator[str]:
    """The command to type stands last and alone, from the first column on; the others fit 80 columns, but for those
    with paths.
    """
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
        links = isinstance(form, ReferenceDriver)
        yield (
            "Volumes are links in place of mounts."
            if links
            else "Pods wait for the volumes that the driver would mount."
        )


CLAIM: Final = "my-claim"
POD: Final = "my-pod"
SNAPSHOT: Final = "my-snapshot"
RESTORED: Final = "my-restored-claim"
WAITING_CLAIM: Final = "my-waiting-claim"
WAITING_POD: Final = "my-waiting-pod"


def examples(storage_class_name: str, kubeconfig: str, *, reference: bool, snapshots: bool) -> str:
    """A script. kubeconfig: its path, "" for unknown. reference: for the reference driver, which has calls for
    everything. snapshots: there are their kinds. Each line fits 80 columns, unless that path is long.
    """
    return (
        "\n".join(_lines(storage_class_name, kubeconfig, reference=reference, snapshots=reference and snapshots)) + "\n"
    )


def _lines(storage_class_name: str, kubeconfig: str, *, reference: bool, snapshots: bool) -> Iterator[str]:
    if kubeconfig:
        yield f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    else:
        yield "# First, as mooring dev shows: export KUBECONFIG=..."
    yield from ("", "# A claim: a volume is made for it, and bound.")
    yield from _applied(claim(CLAIM, storage_class_name))
    yield _bound(CLAIM)
    yield "kubectl get pvc,pv"
    yield from ("", "# A pod with it: attached to its node, staged, published; then it runs.")
    yield from _applied(pod(POD, CLAIM))
    yield f"kubectl wait --for=condition=Ready pod/{POD}"
    yield "kubectl get pods,volumeattachments -o wide"
    if reference:
        yield from _changes()
    if snapshots:
        yield from _snapshot(storage_class_name)
    yield from ("", "# Taken from the pod, unstaged, detached; then the pod is gone. Deleted.")
    yield f"kubectl delete pod {POD}"
    yield f"kubectl delete pvc {CLAIM}"
    yield from ("", f"# Volumes of {storage_class_name}{WAITS} are made where their first pod goes.")
    yield from _applied(claim(WAITING_CLAIM, f"{storage_class_name}{WAITS}"), pod(WAITING_POD, WAITING_CLAIM))
    yield f"kubectl wait --for=condition=Ready pod/{WAITING_POD}"
    yield "kubectl get pods,pvc -o wide"
    yield f"kubectl delete pod {WAITING_POD}"
    yield f"kubectl delete pvc {WAITING_CLAIM}"


def _changes() -> Iterator[str]:
    """Examples of changes of a volume in use."""
    yield from ("", "# More room: the volume grows at the driver, then on its node.")
    yield _patched('{"resources":{"requests":{"storage":"2Gi"}}}')
    yield f"kubectl wait --for=jsonpath='{{.status.capacity.storage}}'=2Gi pvc/{CLAIM}"
    *_, attributes = ATTRIBUTES
    yield from ("", f"# Another class: the driver changes the volume to {attributes}.")
    yield _patched(f'{{"volumeAttributesClassName":"{attributes}"}}')
    yield f"kubectl wait pvc/{CLAIM} \\"
    yield f"  --for=jsonpath='{{.status.currentVolumeAttributesClassName}}'={attributes}"


def _snapshot(storage_class_name: str) -> Iterator[str]:
    yield from ("", "# A snapshot, and a claim whose volume is filled from it.")
    yield from _applied(snapshot(SNAPSHOT, CLAIM))
    yield "kubectl wait --for=jsonpath='{.status.readyToUse}'=true \\"
    yield f"  volumesnapshot/{SNAPSHOT}"
    yield from _applied(claim(RESTORED, storage_class_name, "2Gi", **restored(SNAPSHOT)))
    yield _bound(RESTORED)
    yield "kubectl get volumesnapshots,volumesnapshotcontents"
    yield f"kubectl delete pvc {RESTORED}"
    yield f"kubectl delete volumesnapshot {SNAPSHOT}"


def _patched(spec: str) -> str:
    return f"kubectl patch pvc {CLAIM} -p \\\n  '{{\"spec\":{spec}}}'"


def _applied(*objects: dict[str, Any]) -> Iterator[str]:
    yield "kubectl apply -f - <<'EOF'"
    yield from "---\n".join(dump_yaml(one).decode() for one in objects).splitlines()
    yield "EOF"


def _bound(claim_name: str) -> str:
    return f"kubectl wait --for=jsonpath='{{.status.phase}}'=Bound pvc/{claim_name}"
