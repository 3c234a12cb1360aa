"""The images start what the manifests mean, so that a swap with a Go sidecar is a change of image and nothing else."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack.locks import locked
from mooring.cli.mooring import COMMANDS
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]) - {"kubectl-mooring"}
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def targets() -> dict[str, list[str]]:
    """The entry points by target."""
    stages = re.split(r"^FROM ", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for stage in stages:
        head, *lines = stage.splitlines()
        match = re.fullmatch(r"\S+ AS (\S+)", head)
        assert match, head
        entries = [line.removeprefix("ENTRYPOINT ") for line in lines if line.startswith("ENTRYPOINT ")]
        if entries:
            (entry,) = entries
            found[match[1]] = json.loads(entry)
    return found


def image(target: str) -> str:
    """The name that docs/images.md and manifests give to a target's image."""
    return "mooring" if target == "mooring" else f"mooring-{target}"


def users() -> dict[str, str]:
    """Who a target's program runs as where a pod does not say, by target; as the Containerfile writes it."""
    found, own = {}, ""
    for stage in re.split(r"^FROM ", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)[1:]:
        name = stage.splitlines()[0].partition(" AS ")[2]
        own = "".join(re.findall(r"^USER (\S+)$", stage, re.MULTILINE)) or found.get("installed", "")
        found[name] = own
    return {
        name: own for name, own in found.items() if name != "built"
    }  # its file system goes nowhere but for the wheel


def workloads(folder: Path) -> list[dict[str, Any]]:
    """The Deployments, StatefulSets and DaemonSets of a folder, as it has them."""
    files = (folder / f"{kind}.yaml" for kind in ("deployment", "statefulset", "daemonset"))
    return [found for file in files if file.exists() for found in yaml.safe_load_all(file.read_text())]


def workload(folder: Path) -> dict[str, Any]:
    """The one of a folder."""
    (found,) = workloads(folder)
    return found


def containers(part: str) -> list[dict[str, Any]]:
    found = workload(ROOT / "deploy" / part)["spec"]["template"]["spec"]["containers"]
    made: list[dict[str, Any]] = [one for one in found if one["image"] != "DRIVER"]
    return made


def test_each_program_has_an_image_that_starts_it() -> None:
    assert {name: [name] for name in SCRIPTS} == targets()


def test_only_the_programs_of_a_node_are_root() -> None:
    """Issue 27, C.3. The number, since a kubelet that is to keep root out takes no name's word for it."""
    root = {"csi-node-driver-registrar", "livenessprobe"}
    assert {name: "0:0" if name in root else "${USER_ID}:${USER_ID}" for name in ["installed", *SCRIPTS]} == users()
    assert "\nARG USER_ID=65532\n" in (ROOT / "Containerfile").read_text()


def test_the_base_is_an_argument_and_no_stage_has_another() -> None:
    """So a release names it by its digest, once."""
    text = (ROOT / "Containerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+-slim", base)
    assert text.index("\nARG BASE=") < text.index("\nFROM ")
    assert "\nARG BUILDER=${BASE}\n" in text
    assert {"${BUILDER}", "${BASE}", "installed"} == set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert "--build-arg BASE=python@sha256:" in text
    assert "make images BASE=python@sha256:" in (ROOT / "docs" / "images.md").read_text()


def test_nothing_is_installed_that_no_lock_has() -> None:
    lines = re.findall(r"pip .*install .*", (ROOT / "Containerfile").read_text())
    assert 3 == len(lines)
    for line in lines:
        assert "--no-deps" in line
        assert ("--require-hashes" in line) != ("--no-index" in line)


@each_row("lock", ["hack/image.lock", "hack/build.lock"])
def test_an_image_has_the_versions_that_are_tested(lock: str) -> None:
    ours, tested = locked(lock), locked("requirements.lock")
    assert ours
    assert {name: version for name, (version, _) in ours.items()} == {name: tested[name][0] for name in ours}
    assert not [name for name, (_, text) in ours.items() if "--hash=sha256:" not in text]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = {
        "hack/image.lock": [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["fast"]],
        "hack/build.lock": project["dependency-groups"]["build"],
    }[lock]
    assert {canonicalize_name(Requirement(one).name) for one in asked} <= ours.keys()


SIDECARS = {
    "attacher": ["csi-attacher"],
    "provisioner": ["csi-provisioner"],
    "resizer": ["csi-resizer"],
    "snapshotter": ["csi-snapshotter"],
    "snapshot-controller": ["snapshot-controller"],
    "controller": ["csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter", "livenessprobe"],
    "node": ["csi-node-driver-registrar", "livenessprobe"],
}


@each_row(("part", "named"), SIDECARS.items())
def test_a_sidecars_manifest_leaves_the_start_to_the_image(part: str, named: list[str]) -> None:
    """The Go images have another path to the program: a `command` would keep either side from starting."""
    assert [f"{image(target)}:{VERSION}" for target in named] == [container["image"] for container in containers(part)]
    assert named == [container["name"] for container in containers(part)]
    for container in containers(part):
        assert "command" not in container
        assert all(word.startswith("--") for word in container["args"])


@each_row("part", ["all-in-one", "attachdetach", "binder", "one-process"])
def test_a_manifest_of_our_own_names_the_command(part: str) -> None:
    *_, container = containers(part)
    assert "command" not in container
    assert f"mooring:{VERSION}" == container["image"]
    assert container["args"][0] in COMMANDS


@each_row(
    "part",
    [
        "all-in-one",
        "attachdetach",
        "attacher",
        "binder",
        "controller",
        "node",
        "one-process",
        "provisioner",
        "resizer",
        "snapshot-controller",
        "snapshotter",
    ],
)
def test_kustomize_sets_the_images_that_are_there(part: str) -> None:
    """A name that is none of the manifest's would be passed over in silence."""
    kustomization = yaml.safe_load((ROOT / "deploy" / part / "kustomization.yaml").read_text())
    named = {f"{one['name']}:{one['newTag']}" for one in kustomization["images"] if one["name"] != "DRIVER"}
    assert {container["image"] for container in containers(part)} == named


@each_row("part", ["all-in-one", "controller", "one-process", "provisioner"])
def test_the_capacity_flags_find_their_surroundings(part: str) -> None:
    """--enable-capacity wants them."""
    (container,) = (one for one in containers(part) if one["name"] in ("csi-provisioner", "mooring-controller"))
    assert {"POD_NAMESPACE", "NAMESPACE", "POD_NAME"} == {variable["name"] for variable in container["env"]}


@each_row("target", sorted(SCRIPTS))
def test_it_is_said_how_each_image_is_built(target: str) -> None:
    line = f"podman build --target {target} -t {image(target)}:{VERSION} ."
    assert line in (ROOT / "docs" / "images.md").read_text()
    assert line in (ROOT / "Containerfile").read_text()
