"""A kubeconfig means to us what it means to kubectl."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client.kubeconfig import load
from tests.support.real import binary
from tests.support.rows import each_row
from tests.unit.kube.kubeconfigs import a_config, written

pytestmark = pytest.mark.real


@each_row(
    "listed",
    ["a", "b:a", "a:b", "c:a", "a:c", "empty:b", "b:missing", "a::b", "c", "empty", "missing", "list:a", "", "-"],
)
def test_kubectl_finds_the_same_server(tmp_path: Path, listed: str) -> None:
    """listed: the files of KUBECONFIG; "" is a variable that is empty, "-" one that is not set."""
    written(tmp_path, a_config(cluster={"server": "https://a:1"}), "a")
    elsewhere = {"contexts": [{"name": "there", "context": {"cluster": "d"}}], "current-context": "there"}
    written(
        tmp_path,
        a_config(**elsewhere, clusters=[{"name": name, "cluster": {"server": f"https://{name}:2"}} for name in "cd"]),
        "b",
    )
    written(tmp_path, {"clusters": [{"name": "c", "cluster": {"server": "https://c:3"}}]}, "c")
    written(tmp_path, "", "empty")
    written(tmp_path, "- a\n", "list")
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", a_config(cluster={"server": "https://home:4"}))
    environ = {"HOME": str(tmp_path)}
    if listed != "-":
        environ["KUBECONFIG"] = ":".join(name and str(tmp_path / name) for name in listed.split(":"))
    view = [binary("kubectl"), "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]
    theirs = subprocess.run(view, env=environ, capture_output=True, text=True, timeout=60, check=False).stdout
    try:
        ours = load("", environ).server
    except ConfigError:
        ours = ""
    assert theirs == ours
