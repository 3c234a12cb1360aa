"""The controller in docs/library.md does what the page says."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from mooring import kube
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import annotation
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.store import ObjectStore
from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.kube import load, merge_patch
from tests.support.objects import a_pv, a_va
from tests.support.programs import Program
from tests.support.rest import Rest
from tests.support.virtual_loop import in_virtual_time
from tests.support.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


def blocks() -> list[str]:
    """The page's programs: the controller, and its test."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def ran(code: str) -> dict[str, Any]:
    """What a program has defined."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


@in_virtual_time
async def test_the_example_works() -> None:
    names = ran(blocks()[0])
    clock, chance = LoopClock(0.0), Chance(1)
    cluster = LocalCluster(ObjectStore(RESOURCES, chance), clock=clock, chance=chance)
    running = asyncio.create_task(names["run"](cluster, clock, chance))

    async def where() -> str:
        await asyncio.sleep(1)
        assert not running.done(), running.exception()
        return annotation(await cluster.get(PERSISTENT_VOLUMES, "pv1"), names["WHERE"])

    await cluster.create(PERSISTENT_VOLUMES.whole(), a_pv())
    for node in ("node2", "node1"):
        await cluster.create(VOLUME_ATTACHMENTS.whole(), a_va(node, node=node))
        attached = merge_patch({"status": {"attached": True}})
        await cluster.patch(VOLUME_ATTACHMENTS, node, attached, subresource="status")
    assert "node1 node2" == await where()
    await cluster.delete(VOLUME_ATTACHMENTS, "node1")
    assert "node2" == await where()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_the_test_in_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "where", types.SimpleNamespace(**ran(blocks()[0])))
    names = ran(blocks()[1])
    names["test_nodes_are_noted"]()
    names["ATTACHMENT"]["spec"]["nodeName"] = "node-2"  # then it must fail
    names["asyncio"] = types.SimpleNamespace(**{**vars(asyncio), "timeout": lambda _: asyncio.timeout(0.1)})
    with pytest.raises(TimeoutError):
        names["test_nodes_are_noted"]()


@pytest.mark.slow
def test_the_example_runs_as_a_program_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text(blocks()[0])
    dev = Program([Path(sys.executable).parent / "mooring", "dev", "--state", tmp_path / "dev"], tmp_path / "dev.log")
    try:
        eventually(lambda: "Ctrl-C ends it" in dev.output_alive(), 20, "mooring dev is ready")
        config = load(str(tmp_path / "dev" / "kubeconfig"), {})
        assert config.tls.authority is not None
        (tmp_path / "ca.pem").write_bytes(config.tls.authority.read())
        api = Rest(config.server, tmp_path / "ca.pem", config.user.token)
        environment = {**os.environ, "KUBECONFIG": str(tmp_path / "dev" / "kubeconfig")}
        example = Program([sys.executable, tmp_path / "where.py"], tmp_path / "where.log", env=environment)
        try:
            api.post("/api/v1/persistentvolumes", a_pv(annotations={"example.com/attached-to": "nowhere"}, finalizers=None)).ok(201)
            seen = lambda: api.get("/api/v1/persistentvolumes/pv1").json["metadata"]["annotations"]["example.com/attached-to"]  # noqa: E731
            eventually(lambda: seen() == "", 20, "it has noted that the volume is attached nowhere")
            example.send(signal.SIGINT)
            assert 0 == example.wait_exit(), example.log_tail()
            assert "" == example.output()
        finally:
            example.kill()
            api.close()
    finally:
        dev.kill()


def test_every_public_name_is_there() -> None:
    missing = [name for name in kube.__all__ if not hasattr(kube, name)]
    assert [] == missing
    assert not hasattr(kube, "nothing_of_that_name")
