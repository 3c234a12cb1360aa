"""What people can try on a plane, as a shell script: to paste piece by piece, or to run as a whole."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

from mooring.apiserver.codecs.yamlbody import dump_yaml
from mooring.dev.objects import claim, pod, volume_attachment
from mooring.dev.seed_objects import CLASS, WAITING_CLASS

CLAIM: Final = "my-claim"
POD: Final = "my-pod"
WAITING_CLAIM: Final = "my-waiting-claim"


def examples(driver_name: str, node_name: str, kubeconfig: str) -> str:
    """kubeconfig: its path, "" where nobody knows it yet. Each line fits 80 columns, unless that path is long."""
    return "\n".join(_lines(driver_name, node_name, kubeconfig)) + "\n"


def _lines(driver_name: str, node_name: str, kubeconfig: str) -> Iterator[str]:
    if kubeconfig:
        yield f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    else:
        yield "# First the line that mooring dev shows: export KUBECONFIG=..."
    yield from ("", "# A claim: a volume is made for it, and bound.")
    yield from _applied(claim(CLAIM, CLASS))
    yield _bound(CLAIM)
    yield "kubectl get pvc,pv"
    yield from ("", f"# Its volume on {node_name}, as an attach/detach controller does it for a pod.")
    yield f"PV=$(kubectl get pvc {CLAIM} -o jsonpath='{{.spec.volumeName}}')"
    attachment = f"{CLAIM}-on-{node_name}"
    yield from _applied(volume_attachment(driver_name, attachment, "$PV", node_name), quoted=False)
    yield "kubectl wait --for=jsonpath='{.status.attached}'=true \\"
    yield f"  volumeattachment/{attachment}"
    yield from ("", "# Detached, and deleted.")
    yield f"kubectl delete volumeattachment {attachment}"
    yield f"kubectl delete pvc {CLAIM}"
    yield from ("", f"# Volumes of {WAITING_CLASS} are made where their first pod goes.")
    yield from _applied(claim(WAITING_CLAIM, WAITING_CLASS), pod(POD, WAITING_CLAIM))
    yield _bound(WAITING_CLAIM)
    yield "kubectl get pods,pvc -o wide"
    yield from ("", "# Nothing ends a pod on a node without a kubelet: by force, then its claim.")
    yield f"kubectl delete pod {POD} --force --grace-period=0"
    yield f"kubectl delete pvc {WAITING_CLAIM}"


def _applied(*objects: dict[str, Any], quoted: bool = True) -> Iterator[str]:
    """quoted: the shell leaves it as it is."""
    yield "kubectl apply -f - <<" + ("'EOF'" if quoted else "EOF")
    yield from "---\n".join(dump_yaml(one).decode() for one in objects).splitlines()
    yield "EOF"


def _bound(claim_name: str) -> str:
    return f"kubectl wait --for=jsonpath='{{.status.phase}}'=Bound pvc/{claim_name}"
