"""The sidecars as programs: what they load to answer for themselves, and how a start fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
ATTACHER, PROVISIONER, RESIZER = "mooring.cli.csi_attacher", "mooring.cli.csi_provisioner", "mooring.cli.csi_resizer"


@pytest.mark.parametrize("program", [ATTACHER, PROVISIONER, RESIZER])
@pytest.mark.parametrize("flag", ["--version", "--help", "--no-such"])
def test_no_client_is_loaded_to_answer_for_oneself(program, flag):
    """Start time and memory are budgets."""
    heavy = {"grpc", "mooring.wire.http1", "msgspec", "google.protobuf", "prometheus_client", "rich"}
    code = (
        f"import sys; from {program} import run; run([sys.argv[1]], 'x'); sys.exit({heavy} & sys.modules.keys() or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code, flag], capture_output=True, text=True, timeout=30, check=False)
    assert (0, "") == (ended.returncode, ended.stderr if flag != "--no-such" else ""), ended.stderr


@pytest.mark.parametrize(
    ("program", "flags", "code", "text"),
    [
        pytest.param(ATTACHER, ["--no-such"], 2, "Usage of", id="FL03"),
        pytest.param(
            ATTACHER, ["--worker-threads=0"], 1, "Option -worker-threads must be greater than zero", id="ST01"
        ),
        pytest.param(
            ATTACHER,
            ["--connection-timeout=0s"],
            1,
            "connection-timeout: must be greater than zero, as in 30s",
            id="27a3-no-wait",
        ),
        pytest.param(ATTACHER, ["--kubeconfig=/nonexistent/file"], 1, "/nonexistent/file", id="kubeconfig"),
        pytest.param(ATTACHER, [], 1, "give --kubeconfig", id="no-cluster"),
        pytest.param(PROVISIONER, ["--no-such"], 2, "Usage of", id="provisioner-no-such-flag"),
        pytest.param(
            PROVISIONER, ["--kubeconfig=/nonexistent/file"], 1, "/nonexistent/file", id="provisioner-kubeconfig"
        ),
        pytest.param(
            PROVISIONER, ["--master=somewhere"], 1, "must begin with https:// or http://", id="provisioner-master"
        ),
        pytest.param(RESIZER, ["--no-such"], 2, "Usage of", id="resizer-no-such-flag"),
        pytest.param(RESIZER, ["--workers=0"], 1, "workers: must be between 1 and 10000", id="resizer-workers"),
        pytest.param(RESIZER, ["--kubeconfig=/nonexistent/file"], 1, "/nonexistent/file", id="resizer-kubeconfig"),
    ],
)
def test_a_start_that_fails_has_its_exit_code_and_says_why(program, flags, code, text):
    ended = subprocess.run(
        [sys.executable, "-m", program, *flags], capture_output=True, text=True, timeout=30, check=False, env={}
    )
    assert (code, "") == (ended.returncode, ended.stdout)
    assert text in ended.stderr


@pytest.mark.parametrize("program", [ATTACHER, PROVISIONER])
def test_27a3_the_connection_timeout_says_how_long_a_driver_is_waited_for(program, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    words = [f"--kubeconfig={config}", f"--csi-address={tmp_path / 'none.sock'}", "--connection-timeout=300ms"]
    words += [] if program is ATTACHER else ["--feature-gates=VolumeAttributesClass=false"]
    ended = subprocess.run(
        [sys.executable, "-m", program, *words], capture_output=True, text=True, timeout=60, check=False, env={}
    )
    assert 1 == ended.returncode, ended.stderr
    assert "within 0.3 s: the socket does not exist yet" in ended.stderr
