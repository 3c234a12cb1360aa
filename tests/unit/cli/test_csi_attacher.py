"""csi-attacher as a program: what it loads, how it ends. Its flags are in test_process.py."""

from __future__ import annotations

import dataclasses
import http.client
import signal
import subprocess
import sys

import pytest

from mooring.base.backoff import retry_backoff
from mooring.base.flags import flags_of, parse
from mooring.cli.csi_attacher import COMMAND, AttacherFlags
from mooring.cli.process import Setup
from mooring.sidecars.attacher.options import AttacherOptions
from tests.support.programs import free_ports
from tests.support.waiting import eventually

PROGRAM = [sys.executable, "-m", "mooring.cli.csi_attacher"]

# Names and defaults must stay external-attacher 4.12's.
DEFAULTS = {
    "automaxprocs": False,
    "csi-address": "/run/csi/socket",
    "default-fstype": "",
    "feature-gates": {},
    "http-endpoint": "",
    "kube-api-burst": 10,
    "kube-api-qps": 5.0,
    "kubeconfig": "",
    "leader-election": False,
    "leader-election-labels": {},
    "leader-election-lease-duration": 15.0,
    "leader-election-namespace": "",
    "leader-election-renew-deadline": 10.0,
    "leader-election-retry-period": 5.0,
    "log-flush-frequency": 5.0,
    "log-json-info-buffer-size": "",
    "log-json-split-stream": False,
    "log-text-info-buffer-size": "",
    "log-text-split-stream": False,
    "logging-format": "text",
    "max-entries": 0,
    "max-grpc-log-length": -1,
    "metrics-address": "",
    "metrics-path": "/metrics",
    "reconcile-sync": 60.0,
    "resync": 600.0,
    "retry-interval-max": 300.0,
    "retry-interval-start": 1.0,
    "timeout": 15.0,
    "v": 0,
    "version": False,
    "vmodule": "",
    "worker-threads": 10,
}


OURS = {
    "connection-timeout": 30.0,
    "exit-on-lost-connection": False,
    "leader-election-warm-standby": True,
    "tracing": False,
}


def test_flags_and_defaults_are_upstreams():
    assert {**DEFAULTS, **OURS} == {name: row.default for name, row in flags_of(AttacherFlags).items()}


def options(*words):
    parsed = parse(AttacherFlags, words)
    gates = {name: gate.default for name, gate in COMMAND.gates.items()} | parsed.flags.feature_gates
    return Setup("x", parsed.flags, parsed.given, gates).options(AttacherOptions)


def test_every_flag_reaches_the_controller():
    changed = options(
        "--timeout=3s",
        "--worker-threads=4",
        "--retry-interval-start=2s",
        "--retry-interval-max=7s",
        "--resync=8s",
        "--reconcile-sync=9s",
        "--max-entries=11",
        "--default-fstype=xfs",
        "--feature-gates=MutableCSINodeAllocatableCount=false",
    )
    assert (3.0, 4, 2.0, 7.0, 8.0, 9.0, 11, "xfs", False) == dataclasses.astuple(changed)
    assert AttacherOptions() == options()


def test_a_start_above_the_maximum_is_capped():
    given = options("--retry-interval-start=1m", "--retry-interval-max=5s")
    assert 5.0 == retry_backoff(given.retry_interval_start_s, given.retry_interval_max_s).delay_s(1)


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.slow
def test_SG_C9_it_answers_probes_before_the_driver_does_and_ends_with_0(tmp_path):
    """Differs from upstream, which listens only when the driver is ready, and dies by the signal."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (port,) = free_ports(1)
    flags = [
        f"--kubeconfig={tmp_path}/kubeconfig",
        f"--csi-address={tmp_path}/csi.sock",
        f"--http-endpoint=127.0.0.1:{port}",
    ]
    with subprocess.Popen([*PROGRAM, *flags], stderr=subprocess.PIPE, text=True) as process:
        try:
            status, text = eventually(lambda: _get(port, "/readyz"), 20, "the probe is answered")
            assert (503, "not ready: no connection to the CSI driver yet\n") == (status, text)
            assert 200 == _get(port, "/healthz")[0]
            assert "process_start_time_seconds" in _get(port, "/metrics")[1]
            assert 404 == _get(port, "/healthz/leader-election")[0]
            process.send_signal(signal.SIGTERM)
            assert 0 == process.wait(10)
        finally:
            process.kill()
        assert "Ended in good order" in process.stderr.read()


def _get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return None
    finally:
        connection.close()
