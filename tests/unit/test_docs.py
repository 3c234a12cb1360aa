"""What the pages point at is there: links, and paths in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.page_commands import commands_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]
)

# Paths in backticks count from the root when they begin with one of its folders, and from src/mooring when they begin with a room.
TOP = "src|tests|docs|hack|deploy|bench|\\.ci"
ROOMS = "|".join(sorted(path.parent.name for path in (ROOT / "src" / "mooring").glob("*/__init__.py")))


def broken(page: Path, text: str) -> list[str]:
    """What the text of a page points at and isn't there, as the page has it."""
    links = [link for link in _links(text) if not _target_exists(page, link)]
    return links + [path for path in _paths(text) if not (ROOT / path).exists() and not list(_decision(path))]


def _links(text: str) -> Iterator[str]:
    for match in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", _without_code(text)):
        if not re.match(r"[a-z]+:", match[1]):
            yield match[1]


def _target_exists(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in _anchors(target.read_text())


def _anchors(text: str) -> set[str]:
    """The headings, as they are in links."""
    titles = re.findall(r"^#+ (.*)$", _without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _paths(text: str) -> Iterator[str]:
    """Paths from the root."""
    for match in re.finditer(r"`([\w./-]+)`", _without_code(text)):
        path = match[1]
        if re.match(rf"({TOP})/", path):
            yield path
        elif re.match(rf"({ROOMS})/", path):
            yield f"src/mooring/{path}"
        elif path.startswith("mooring/"):
            yield f"src/{path}"


def _decision(path: str) -> Iterator[Path]:
    """A decision may be named by its number alone."""
    if re.fullmatch(r"docs/decisions/\d{4}", path):
        yield from ROOT.glob(f"{path}-*.md")


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_points_at_is_there(page: Path) -> None:
    assert [] == broken(page, page.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "[x](docs/nowhere.md)",
        "[x](docs/driver.md#nowhere)",
        "see `src/mooring/nowhere.py`",
        "`apiserver/nowhere.py`",
        "`docs/decisions/9999`",
    ],
)
def test_what_is_not_there_is_found(text: str) -> None:
    assert broken(ROOT / "README.md", text)


def test_what_is_there_is_left_alone() -> None:
    text = "[x](docs/driver.md#try-it) [y](https://example.com) `kube/client/http.py` `docs/decisions/0001` `kubectl get` `.ci/run`"
    assert [] == broken(ROOT / "README.md", text)


def test_every_command_is_spelled_as_make_installs_it() -> None:
    """`mooring dev` in running text is a name; a line to paste begins with .venv/bin."""
    bare = [
        f"{page.name}: {line.strip()}"
        for page in PAGES
        for line in page.read_text().splitlines()
        if re.match(r"    (mooring |python )", line)
    ]
    assert [] == bare


def test_the_image_is_built_from_files_that_exist() -> None:
    sources = [
        word
        for line in re.findall(r"^COPY (?!--from=)(.*)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert sources
    assert [] == [name for name in sources if not (ROOT / name).exists()]
    taken = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert set(sources) == taken


FOREIGN_FLAGS = {
    "all-containers": "kubectl",
    "build-arg": "podman",
    "create-namespace": "helm",
    "cascade": "kubectl",
    "dry-run": "kubectl",
    "emulated-version": "kube-apiserver",
    "field-selector": "kubectl",
    "for": "kubectl",
    "generate-hashes": "uv",
    "make-rshared": "mount",
    "proxy-endpoint": "csi-driver-host-path",
    "server-side": "kubectl",
    "take-ownership": "helm",
    "universal": "uv",
    "use-service-account-credentials": "kube-controller-manager",
}
"""Flags in our pages that are others', and whose."""

SOURCES = "".join(
    path.read_text() for folder in ("src", "tests/sim", "bench") for path in (ROOT / folder).rglob("*.py")
)
CONTROLLERS = "attacher|provisioner|resizer|snapshotter|snapshot-controller|attachdetach|binder|nodehealth|workloads"


def unknown_flags(text: str) -> list[str]:
    """The flags that a text names and no program of ours has.

    `mooring controller` puts a controller's name before a flag that several have, and a bench's switch has a form with `no-`.
    """
    names = {match[1] for match in re.finditer(r"(?<![\w-])--([a-z][a-zA-Z0-9-]+[a-zA-Z0-9])", text)}
    return sorted(name for name in names - FOREIGN_FLAGS.keys() if not any(map(_is_a_flag, _spellings(name))))


def _spellings(name: str) -> set[str]:
    return {name, re.sub(f"^({CONTROLLERS}|no)-", "", name)}


def _is_a_flag(name: str) -> bool:
    return re.search(rf"""["'](--)?{re.escape(name)}["']""", SOURCES) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_flag_in_a_page_is_there(page: Path) -> None:
    assert [] == unknown_flags(page.read_text())


def test_a_flag_that_is_not_there_is_found() -> None:
    assert ["no-such-flag"] == unknown_flags(
        "`--no-such-flag=1`, `--csi-address`, `--attachdetach-workers`, `--dry-run`"
    )


def manifests() -> Iterator[tuple[str, str]]:
    """Each that a page gives to kubectl, with its place."""
    for command in (command for page in PAGES for command in commands_of(page)):
        if found := re.match(r"kubectl .*<<'?(\w+)'?\n(.*)\n\1$", command.text, re.DOTALL):
            yield f"{command.page}:{command.line}", found[2]


def _as_typed(text: str) -> str:
    """With a word for what the shell puts in."""
    return re.sub(r"\$\([^)]*\)", "word", text)


def test_every_kubectl_reads_the_manifests_of_a_page() -> None:
    """One before 1.36 takes a text that begins with a brace for JSON, also YAML in its flow form; the real parts have a newer one."""
    assert list(manifests())
    assert [] == [place for place, text in manifests() if text.lstrip().startswith("{")]


def test_a_container_of_each_pod_in_a_page_uses_its_volumes() -> None:
    """Else the kubelet mounts none, and the node's driver is not called."""
    pods = [
        (place, one["spec"])
        for place, text in manifests()
        for one in yaml.safe_load_all(_as_typed(text))
        if one["kind"] == "Pod"
    ]
    assert pods
    for place, spec in pods:
        used = {
            one["name"]
            for container in spec["containers"]
            for kind in ("volumeMounts", "volumeDevices")
            for one in container.get(kind, ())
        }
        assert {one["name"] for one in spec.get("volumes", ())} == used, place
