"""The pages are right: links and paths lead somewhere, flags exist, and README leads to every page.

Each test asks its question of all pages at once; what it finds has the page and the line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from tests.support.page_commands import commands_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
        *(path for folder in ("docs", "bench", "tests") for path in (ROOT / folder).rglob("*.md")),
    ]
)

# A path in backticks begins with a folder of the root, with a room, or with src/mooring's own name. One beside the page
# counts, too: the pages in tests/ and bench/ name their neighbours.
TOP = "src|tests|docs|hack|deploy|bench|\\.ci"
ROOMS = "|".join(sorted(path.parent.name for path in (ROOT / "src" / "mooring").glob("*/__init__.py")))


def found_in_pages(look: Callable[[Path, str], list[str]]) -> list[str]:
    """What `look` finds in the text of each page, with its place."""
    texts = ((page, page.read_text()) for page in PAGES)
    return [
        f"{page.relative_to(ROOT)}:{text[: text.find(found)].count(chr(10)) + 1}: {found}"
        for page, text in texts
        for found in look(page, text)
    ]


def broken(page: Path, text: str) -> list[str]:
    """Links and paths in the text of a page that lead nowhere, as the page has them."""
    links = [link for link in _links(text) if not _target_exists(page, link)]
    bases = (ROOT, ROOT / "src", ROOT / "src" / "mooring", page.parent)
    return links + [
        path for path in _paths(text) if not any((base / path).exists() for base in bases) and not list(_decision(path))
    ]


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
    for match in re.finditer(r"`([\w./-]+)`", _without_code(text)):
        if re.match(rf"({TOP}|{ROOMS}|mooring)/", match[1]):
            yield match[1]


def _decision(path: str) -> Iterator[Path]:
    """A decision may be named by its number alone."""
    if re.fullmatch(r"docs/decisions/\d{4}", path):
        yield from ROOT.glob(f"{path}-*.md")


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def test_what_a_page_points_at_is_there() -> None:
    assert [] == found_in_pages(broken)


def test_what_is_not_there_is_found() -> None:
    for text in (
        "[x](docs/nowhere.md)",
        "[x](docs/driver.md#nowhere)",
        "see `src/mooring/nowhere.py`",
        "`apiserver/nowhere.py`",
        "`docs/decisions/9999`",
    ):
        assert broken(ROOT / "README.md", text), text


CODE_PAGES = ("architecture.md", "find-your-way.md", "one-attachment.md", "one-claim.md")
"""Pages of docs that lead through the code."""


def unknown_names(text: str, known: set[str]) -> list[str]:
    """The names in backticks, with their dots or a call's arguments, that no source has."""
    quoted = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", _without_code(text))
    return [name for name in quoted if not known.issuperset(name.split("."))]


def test_the_names_in_pages_about_the_code_are_there() -> None:
    sources = [path for folder in ("src", "hack") for path in (ROOT / folder).rglob("*.py")]
    defined = re.compile(r"\b(?:def|class) (\w+)|(\w+)(?:: |=| = )|\"(\w+)\"")
    known = {"py", "pyproject", "toml"}
    for path in sources:
        known |= {path.stem, path.parent.name, *("".join(found) for found in defined.findall(path.read_text()))}
    pages = {name: (ROOT / "docs" / name).read_text() for name in CODE_PAGES}
    assert {} == {name: found for name, text in pages.items() if (found := unknown_names(text, known))}
    assert ["Nobody.knows_this"] == unknown_names("`Nobody.knows_this` what `decide_claim(view)` does", known)


def test_what_is_there_is_left_alone() -> None:
    text = (
        "[x](docs/driver.md#try-it) [y](https://example.com) `kube/client/http.py` `docs/decisions/0001` `kubectl "
        "get` `.ci/run`"
    )
    assert [] == broken(ROOT / "README.md", text)


def test_readme_leads_to_every_page() -> None:
    """By links from page to page, also by a link to the folder that a page is in."""
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page.is_dir():
            ahead += page.glob("*.md")
        elif page.suffix == ".md" and page.exists() and page not in reached:
            reached.add(page)
            ahead += [
                (page.parent / target).resolve()
                for link in _links(page.read_text())
                if (target := link.partition("#")[0])
            ]
    assert [] == [page.relative_to(ROOT).as_posix() for page in PAGES if page not in reached]


def test_every_command_is_spelled_as_make_installs_it() -> None:
    """`mooring dev` in running text is a name; a line to paste begins with .venv/bin."""
    bare = [
        f"{page.relative_to(ROOT)}:{number}: {line.strip()}"
        for page in PAGES
        for number, line in enumerate(page.read_text().splitlines(), 1)
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
    "bundle": "cosign",
    "create-namespace": "helm",
    "cascade": "kubectl",
    "dry-run": "kubectl",
    "emulated-version": "kube-apiserver",
    "field-selector": "kubectl",
    "for": "kubectl",
    "generate-hashes": "uv",
    "kube-version": "helm",
    "make-rshared": "mount",
    "proxy-endpoint": "csi-driver-host-path",
    "server-side": "kubectl",
    "take-ownership": "helm",
    "universal": "uv",
    "use-service-account-credentials": "kube-controller-manager",
}
"""Flags in our pages that are others', and whose."""

CONTROLLERS = "attacher|provisioner|resizer|snapshotter|snapshot-controller|attachdetach|binder|nodehealth|workloads"


def unknown_flags(text: str) -> list[str]:
    """The flags that a text names and no program of ours has.

    `mooring controller` puts a controller's name before a flag that several have, and a bench's switch has a form with
    `no-`.
    """
    names = {match[1] for match in re.finditer(r"(?<![\w-])--([a-z][a-zA-Z0-9-]+[a-zA-Z0-9])", text)}
    return sorted(name for name in names - FOREIGN_FLAGS.keys() if not any(map(_is_a_flag, _spellings(name))))


def _spellings(name: str) -> set[str]:
    return {name, re.sub(f"^({CONTROLLERS}|no)-", "", name)}


def _is_a_flag(name: str) -> bool:
    return name in _quoted_words()


@functools.cache
def _quoted_words() -> frozenset[str]:
    """The texts in our programs that are a flag's name alone, with its dashes or without."""
    sources = [path for folder in ("src", "tests/sim", "bench") for path in (ROOT / folder).rglob("*.py")]
    quoted = re.compile(r"""["'](?:--)?([a-z][a-zA-Z0-9-]+)(?=["'])""")
    return frozenset(word for path in sources for word in quoted.findall(path.read_text()))


def test_every_flag_in_a_page_is_there() -> None:
    assert [] == found_in_pages(lambda _, text: [f"--{name}" for name in unknown_flags(text)])


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
    """One before 1.36 takes a text that begins with a brace for JSON, also YAML in its flow form; the real parts have a
    newer one.
    """
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


FIGURE = re.compile(r"(?<![\w.,])\d[\d.,]*\d|(?<![\w.,])\d(?![\w.])")


def test_the_results_that_users_choose_by_are_those_of_the_benches() -> None:
    """Each figure of the page's tables stands in a table or sentence beside the benches."""
    rows = [line for line in (ROOT / "docs" / "results.md").read_text().splitlines() if line.startswith("|")]
    figures = {found for row in rows for cell in row.split("|")[2:] for found in FIGURE.findall(cell)}
    known = {
        found for name in ("RESULTS.md", "SCALE.md") for found in FIGURE.findall((ROOT / "bench" / name).read_text())
    }
    assert len(figures) > 50
    assert [] == sorted(figures - known)
