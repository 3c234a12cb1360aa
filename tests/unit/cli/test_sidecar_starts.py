"""The sidecars as programs: what they load to answer for themselves, and how a start fails."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.support.in_process import in_process
from tests.support.rows import each_row

pytestmark = pytest.mark.slow
ATTACHER, PROVISIONER, RESIZER = "mooring.cli.csi_attacher", "mooring.cli.csi_provisioner", "mooring.cli.csi_resizer"


def test_no_client_is_loaded_to_answer_for_oneself():
    """Start time and memory are budgets. One process asks all of them, and prints what was loaded for whom first."""
    heavy = {"grpc", "mooring.wire.http1", "msgspec", "google.protobuf", "prometheus_client", "rich"}
    code = f"""
import contextlib, importlib, io, sys
for program in sys.argv[1:]:
    for flag, code in ("--version", 0), ("--help", 0), ("--no-such", 2):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = importlib.import_module(program).run([flag], "x")
        loaded = {heavy} & sys.modules.keys()
        if (ended, loaded, bool(out.getvalue()), bool(err.getvalue())) != (code, set(), not code, bool(code)):
            sys.exit(f"{{program}} {{flag}}: {{ended}}, {{loaded}}, {{err.getvalue()}}")
"""
    words = [sys.executable, "-c", code, ATTACHER, PROVISIONER, RESIZER]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (0, "") == (ended.returncode, ended.stderr)


@each_row(
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
    ended = said(program, *flags)
    assert (code, "") == (ended.returncode, ended.stdout)
    assert text in ended.stderr


def said(program, *flags):
    run = importlib.import_module(program).run
    return in_process(lambda words: run(words, "x"), *flags, environ={})


@each_row("program", [ATTACHER, PROVISIONER, RESIZER])
def test_a_process_has_the_exit_code(program):
    words = [sys.executable, "-m", program, "--no-such"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False, env={})
    assert (2, "") == (ended.returncode, ended.stdout)
    assert "Usage of" in ended.stderr


@each_row("program", [ATTACHER, PROVISIONER])
def test_27a3_the_connection_timeout_says_how_long_a_driver_is_waited_for(program, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    words = [f"--kubeconfig={config}", f"--csi-address={tmp_path / 'none.sock'}", "--connection-timeout=300ms"]
    words += [] if program is ATTACHER else ["--feature-gates=VolumeAttributesClass=false"]
    ended = said(program, *words)
    assert 1 == ended.returncode, ended.stderr
    assert "within 0.3 s: the socket does not exist yet" in ended.stderr
