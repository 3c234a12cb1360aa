"""The life of a controller without a driver, with no API server at the other end: nothing is asked before work begins."""

from __future__ import annotations

import pytest

from mooring.base.clock import LoopClock
from mooring.base.flags import parse
from mooring.cli.manager import Manager
from mooring.cli.process import Machine, Setup
from mooring.cli.tables import ManagerFlags
from tests.unit.cli.world import SlowWork

KUBECONFIG = """
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here}}]
current-context: here
"""


def test_without_verbosity_the_log_tells_that_work_begins(tmp_path, capsys):
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    parsed = parse(ManagerFlags, [f"--kubeconfig={file}"], {})
    work = SlowWork(LoopClock(), fail=ZeroDivisionError("the end"))
    manager = Manager("a-manager", Setup("x", parsed.flags, parsed.given, {}), Machine(environ={}), lambda _: work)
    with pytest.raises(ExceptionGroup):
        manager.serve()
    assert '"Starting" component="a-manager"\n' in capsys.readouterr().err
