"""Examples to try on a plane, as a shell script."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.codecs.yamlbody import dump_yaml
from mooring.dev.seed_objects import ATTRIBUTES, WAITS, claim, pod, restored, snapshot

CLAIM: Final = "my-claim"
POD: Final = "my-pod"
SNAPSHOT: Final = "my-snapshot"
RESTORED: Final = "my-restored-claim"
WAITING_CLAIM: Final = "my-waiting-claim"
WAITING_POD: Final = "my-waiting-pod"


def examples(storage_class_name: str, kubeconfig: str, *, reference: bool, snapshots: bool) -> str:
    """A script. kubeconfig: its path, "" for unknown. reference: for the reference driver, which has calls for everything.
    snapshots: there are their kinds. Each line fits 80 columns, unless that path is long.
    """
    return "\n".join(_lines(storage_class_name, kubeconfig, reference=reference, snapshots=reference and snapshots)) + "\n"


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
    """What happens to a volume in use."""
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
