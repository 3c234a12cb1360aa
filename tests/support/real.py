"""The real parts: finding the programs that hack/kube builds, kubectl, and the Go attacher."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from tests.support.layers import (
    GO_HOSTPATH,
    GO_REGISTRAR,
    H2SPEC,
    REAL_CONTROLLERS,
    REAL_PEERS,
    REAL_SERVER,
    not_tested,
)
from tests.support.programs import Program

_BUILD = Path(__file__).resolve().parents[2] / "hack" / "kube" / "build"

_LAYERS = {
    "etcd": REAL_SERVER,
    "kube-apiserver": REAL_SERVER,
    "kube-controller-manager": REAL_CONTROLLERS,
    "kube-scheduler": REAL_CONTROLLERS,
    "csi-node-driver-registrar": GO_REGISTRAR,
    "hostpathplugin": GO_HOSTPATH,
    "h2spec": H2SPEC,
}


@functools.cache
def _folder() -> Path:
    """Where hack/kube/build puts its programs ($KUBE_TEST_BIN obeyed), built or not."""
    return Path(
        subprocess.run([_BUILD, "--folder"], check=True, capture_output=True, text=True, timeout=30).stdout.strip()
    )


def binary(name: str) -> Path:
    """The program of this name, for a running test or fixture: one that isn't there is a layer not tested (Go peers by
    default).

    What hack/kube/build does not build is looked for in the folder `extra` beside its folder, too.
    """
    places = (_folder() / name, _folder().parent / "extra" / name)
    path = next((path for path in places if os.access(path, os.X_OK)), None)
    if path is None:
        not_tested(_LAYERS.get(name, REAL_PEERS), f"no {name}")
    return path


def kubectl(kubeconfig: Path, *args: str, stdin: str = "", timeout_s: float = 60.0) -> str:
    """What the real kubectl prints. Raises AssertionError with its words when it fails. Works on any API server."""
    done = run_kubectl(kubeconfig, *args, stdin=stdin, timeout_s=timeout_s)
    assert done.returncode == 0, f"kubectl {' '.join(args)} ended with {done.returncode}: {done.stderr}{done.stdout}"
    return done.stdout


def run_kubectl(
    kubeconfig: Path, *args: str, stdin: str = "", timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """The same for a kubectl that may fail: exit code and both outputs."""
    command: list[str | Path] = [
        binary("kubectl"),
        f"--kubeconfig={kubeconfig}",
        f"--cache-dir={kubeconfig.parent / 'kubectl-cache'}",
        *args,
    ]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)


def go_attacher(kubeconfig: Path, socket: Path, log: Path, *flags: str) -> Program:
    """A running Go csi-attacher for the driver behind the socket. Whoever starts it ends it."""
    return Program([binary("csi-attacher"), f"--kubeconfig={kubeconfig}", f"--csi-address={socket}", *flags], log)
