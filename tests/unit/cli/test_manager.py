"""The life of a controller without a driver, with no API server at the other end: nothing is asked before work
begins.
"""

from __future__ import annotations

import pytest

from mooring.base.clock import LoopClock
from mooring.base.flags import parse
from mooring.cli.manager import run_manager
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import ManagerFlags
from tests.unit.cli.sidecar_life import SlowWork

KUBECONFIG = """
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here}}]
current-context: here
"""


def served(argv, environ):
    """A manager's life, ended by its work. Gives what that was made from."""
    parsed = parse(ManagerFlags, argv, {})
    made = []

    def make(runtime):
        made.append(runtime)
        return SlowWork(LoopClock(), fail=ZeroDivisionError("the end"))

    with pytest.raises(ZeroDivisionError):
        run_manager("a-manager", Setup("x", parsed.flags, parsed.given, {}), Machine(environ=environ), make)
    return made[0]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def test_without_verbosity_the_log_tells_that_work_begins(file, capsys):
    served([f"--kubeconfig={file}"], {})
    assert '"Starting" component="a-manager"\n' in capsys.readouterr().err


def test_the_environments_kubeconfig_counts_after_the_flags(file):
    """Here no upstream program has another habit."""
    assert "http://127.0.0.1:1" == served([], {"KUBECONFIG": f"{file}:{file}"}).cluster.config.server
    assert (
        "http://127.0.0.1:1" == served([f"--kubeconfig={file}"], {"KUBECONFIG": "/nonexistent"}).cluster.config.server
    )
