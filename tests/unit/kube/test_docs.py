"""The programs in docs/library.md do what the page says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import types
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring import control, kube
from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control import Runtime
from mooring.kube import Invalid, Kind, annotation, finalizers_of, load, merge_patch
from tests.support.builders import a_held_pv, a_va
from tests.support.pages import blocks
from tests.support.programs import Program, free_ports
from tests.support.rest import Rest
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.waiting import eventually

WHERE, WORKSPACES, TEST, WORKSPACES_TEST = range(4)  # the page's programs
DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict[str, Any]
)


def ran(code: str) -> dict[str, Any]:
    """What a program has defined."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "library.md", "exec", dont_inherit=True), names)
    return names


class Running:
    """One of the page's programs on a store in this process, in virtual time."""

    def __init__(self, program: int) -> None:
        self.names = ran(blocks("library.md")[program])
        self._make = ("where", "workspaces")[program]
        self.cluster = LocalCluster(new_store(Random(1), 0.0), clock=LoopClock(0.0), randomness=Random(2))
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Running:
        manager = self.names[self._make](Runtime(self.cluster, LoopClock(0.0), Random(1), Metrics()))
        self._task = asyncio.create_task(manager.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def settled(self) -> None:
        assert self._task is not None
        await asyncio.sleep(1)
        assert not self._task.done(), self._task.exception()


@in_virtual_time
async def test_where_notes_the_nodes_of_a_volume() -> None:
    async with Running(WHERE) as running:
        cluster = running.cluster

        async def where() -> str:
            await running.settled()
            return annotation(await cluster.get(PERSISTENT_VOLUMES, "pv1"), running.names["WHERE"])

        await cluster.create(PERSISTENT_VOLUMES.whole(), a_held_pv())
        for node in ("node2", "node1"):
            await cluster.create(VOLUME_ATTACHMENTS.whole(), a_va(node, node=node))
            attached = merge_patch({"status": {"attached": True}})
            await cluster.patch(VOLUME_ATTACHMENTS, node, attached, subresource="status")
        assert "node1 node2" == await where()
        await cluster.delete(VOLUME_ATTACHMENTS, "node1")
        assert "node2" == await where()


@in_virtual_time
async def test_a_workspace_has_its_claim_and_keeps_the_volume() -> None:
    definition, workspace = (yaml.safe_load(one) for one in blocks("library.md", "yaml"))
    running = Running(WORKSPACES)
    cluster, kind = running.cluster, running.names["WORKSPACES"]
    await cluster.create(DEFINITIONS, definition)
    await cluster.create(PERSISTENT_VOLUMES.whole(), a_held_pv())
    async with running:
        await cluster.create(kind.whole(), workspace, "default")
        await running.settled()
        claim = await cluster.get(PERSISTENT_VOLUME_CLAIMS, "books", "default")
        (owner,) = claim.metadata.owner_references or ()
        assert ("Workspace", "books", True) == (owner.kind, owner.name, owner.controller)
        assert {"storage": "10Gi"} == claim.spec.resources.requests
        await cluster.patch(PERSISTENT_VOLUME_CLAIMS, "books", merge_patch({"spec": {"volumeName": "pv1"}}), "default")
        await running.settled()
        found = await cluster.get(kind, "books", "default")
        assert ({"volume": "pv1"}, (running.names["FINALIZER"],)) == (found.status, finalizers_of(found))
        (event,) = (await cluster.list(EVENTS)).items
        assert ("example.com/v1", "its volume is pv1") == (event.involved_object.api_version, event.message)
        with pytest.raises(Invalid):
            await cluster.patch(kind, "books", merge_patch({"spec": {"size": "much"}}), "default")
        await cluster.delete(kind, "books", "default")
        await running.settled()
        assert [] == list((await cluster.list(kind)).items)
        volume = await cluster.get(PERSISTENT_VOLUMES, "pv1")
        assert "Retain" == volume.spec.persistent_volume_reclaim_policy


def test_the_test_in_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "where", types.SimpleNamespace(**ran(blocks("library.md")[WHERE])))
    names = ran(blocks("library.md")[TEST])
    names["test_nodes_are_noted"]()
    names["ATTACHMENT"]["spec"]["nodeName"] = "node-2"  # then it must fail
    names["asyncio"] = types.SimpleNamespace(**{**vars(asyncio), "timeout": lambda _: asyncio.timeout(0.1)})
    with pytest.raises(TimeoutError):
        names["test_nodes_are_noted"]()


def test_27b5_the_test_with_a_kind_of_ones_own_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = types.SimpleNamespace(**ran(blocks("library.md")[WORKSPACES]))
    monkeypatch.setitem(sys.modules, "workspaces", program)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspaces.yaml").write_text(blocks("library.md", "yaml")[0])
    names = ran(blocks("library.md")[WORKSPACES_TEST])
    names["test_a_claim_is_made"]()
    names["BOOKS"]["spec"]["size"] = "1Gi"  # then it must fail
    with pytest.raises(AssertionError):
        names["test_a_claim_is_made"]()


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def leads(port: int) -> bool:
    return 'leader_election_master_status{name=""} 1.0' in asked(port, "/metrics")[1]


@pytest.mark.slow
def test_27b5_two_of_a_program_elect_one_and_tell_how_they_are(tmp_path: Path) -> None:
    """Election, metrics, health and signals, as the page promises them."""
    state = tmp_path / "state"
    server = Program(
        [Path(sys.executable).parent / "mooring", "apiserver", "--state", state, "--memory"], tmp_path / "server.log"
    )
    running: list[tuple[Program, int]] = []
    try:
        eventually(lambda: "export KUBECONFIG" in server.output_alive(), 30, "the API server answers")
        config = load(str(state / "kubeconfig"), {})
        assert config.tls.authority is not None
        (tmp_path / "ca.pem").write_bytes(config.tls.authority.read())
        api = Rest(config.server, tmp_path / "ca.pem", config.user.token)
        definition = yaml.safe_load(blocks("library.md", "yaml")[0])
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).ok(201)
        api.close()
        for number, port in enumerate(free_ports(2)):
            file = tmp_path / f"workspaces{number}.py"
            file.write_text(blocks("library.md")[WORKSPACES].replace('":8080"', f'"127.0.0.1:{port}"'))
            environment = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
            running.append(
                (Program([sys.executable, file], tmp_path / f"workspaces{number}.log", env=environment), port)
            )
        for program, port in running:
            ready = lambda program=program, port=port: (  # noqa: E731
                program.output_alive() is not None and asked(port, "/readyz") == (200, "ok")
            )
            eventually(ready, 30, "it is ready")
        eventually(lambda: any(leads(port) for _, port in running), 30, "one leads")
        assert 1 == sum(leads(port) for _, port in running)
        assert [(200, "ok")] * 2 == [asked(port, "/healthz/leader-election") for _, port in running]
        running.sort(key=lambda one: not leads(one[1]))
        (leader, _), (standby, port) = running
        leader.send(signal.SIGTERM)
        assert 0 == leader.wait_exit(), leader.log_tail()
        eventually(lambda: leads(port), 30, "the other one leads at its next try, within 11 s")
        server.send(signal.SIGSTOP)
        try:
            silent = lambda: (  # noqa: E731
                (answer := asked(port, "/readyz"))[0] == 503 and "the API server does not answer" in answer[1]
            )
            eventually(silent, 30, "it is not ready without an API server")
            assert (200, "ok") == asked(port, "/healthz")
        finally:
            server.send(signal.SIGCONT)
        standby.send(signal.SIGINT)
        assert 0 == standby.wait_exit(), standby.log_tail()
    finally:
        for program, _ in running:
            program.kill()
        server.kill()


@each_row(
    ("how", "told"),
    [
        ({"lease": "guard"}, "lease: 'guard' is no namespace/name, as in default/labels"),
        (
            {"lease": "default/Guard"},
            "lease: 'default/Guard' is no namespace/name, as in default/labels: a lowercase RFC 1123 subdomain",
        ),
        ({"lease": "a/b/c"}, "lease: 'a/b/c' is no namespace/name"),
        ({"http": "8080"}, "8080"),
    ],
)
def test_27b5_a_lease_or_an_address_that_can_not_be_used_ends_the_program_in_one_line(
    how: dict[str, str], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        control.run("mine", lambda _: pytest.fail("nothing is built"), **how)
    assert str(ended.value.code).startswith("mine: ")
    assert told in str(ended.value.code)


@pytest.mark.slow
def test_the_example_runs_as_a_program_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text(blocks("library.md")[WHERE])
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
            api.post(
                "/api/v1/persistentvolumes",
                a_held_pv(annotations={"example.com/attached-to": "nowhere"}, finalizers=None),
            ).ok(201)
            seen = lambda: api.get("/api/v1/persistentvolumes/pv1").json["metadata"]["annotations"][  # noqa: E731
                "example.com/attached-to"
            ]
            eventually(lambda: seen() == "", 20, "it has noted that the volume is attached nowhere")
            example.send(signal.SIGINT)
            assert 0 == example.wait_exit(), example.log_tail()
            assert '"Starting" program="where"' in example.output()
            assert '"annotated"' in example.output()
        finally:
            example.kill()
            api.close()
    finally:
        dev.kill()


@pytest.mark.slow
def test_a_wrong_kubeconfig_ends_the_programs_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: none")
    for program, config in ((WHERE, "missing"), (WORKSPACES, "config"), (WHERE, "")):
        command = [sys.executable, "-c", blocks("library.md")[program]]
        environ = {"KUBECONFIG": config and str(tmp_path / config)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        (line,) = done.stderr.splitlines()
        assert line.startswith(("where: ", "workspaces: "))
        assert config in line
        assert (1, "") == (done.returncode, done.stdout)


@pytest.mark.long
@pytest.mark.slow
def test_the_programs_of_the_pages_are_typed(tmp_path: Path) -> None:
    """As users check theirs: mypy finds the package as it is installed, by its py.typed."""
    pages = {
        "library.md": ("where.py", "workspaces.py", "test_where.py", "test_workspaces.py"),
        "driver.md": ("shelf.py", "sanity.py"),
    }
    for page, names in pages.items():
        for name, code in zip(names, blocks(page), strict=True):
            (tmp_path / name).write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.mypy_cache", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert "Success: no issues found in 6 source files\n" == done.stdout, done.stdout + done.stderr


@each_row("package", [control, kube])
def test_dir_shows_the_public_names_and_no_others(package: types.ModuleType) -> None:
    assert sorted(package.__all__) == dir(package)
    missing = [name for name in package.__all__ if not hasattr(package, name)]
    assert [] == missing
    assert not hasattr(package, "nothing_of_that_name")


def test_what_the_page_shows_is_public() -> None:
    assert {"parse_quantity", "add_finalizer", "Kind", "ConfigError"} <= set(dir(kube))
    assert {"Controller", "Manager", "Retry", "Topic", "run"} <= set(dir(control))
