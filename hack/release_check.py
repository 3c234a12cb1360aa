"""The checklist of a release, carried out: python -m hack.release_check [--base IMAGE@sha256:...] [NAME ...]

Prints a line for each check, and ends with 1 when one of them failed. Before a release: write its section into
CHANGELOG.md, commit, tag the commit, then `make release-check BASE=python@sha256:...`. It publishes nothing. The tests
are another matter: .ci/run.
"""

from __future__ import annotations

import argparse
import configparser
import email
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack.locks import LOCKS, ROOT, direct_requirements, locked

GENERATED = {
    "stubs": ["hack/generate-stubs", "--check"],
    "chart": ["-m", "hack.chart", "--check"],
    "monitoring": ["-m", "hack.monitoring", "--check"],
}
_KINDS = """
from tests.support.api_needs import INSTALLED, kinds
print(*sorted({f"{one.name}|{one.group}/{one.version}" for one in kinds() if one.group in INSTALLED}))
"""
_IMAGE = re.compile(r"\bmooring(?:-[a-z-]+)?:(\d+\.\d+\.\d+)\b")


class Failed(Exception):
    """A check found something. Its text says what, and what to do."""


@dataclass(frozen=True)
class Release:
    """What is to be released. base: the image that images are built on."""

    base: str

    @property
    def project(self) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        return found

    @property
    def version(self) -> str:
        found: str = self.project["version"]
        return found


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def versions(release: Release) -> str:
    """One version in all places that name it."""
    named: dict[str, set[str]] = {
        "src/mooring/__init__.py": set(re.findall(r'__version__ = "(.*)"', _text("src/mooring/__init__.py")))
    }
    for path in [
        ROOT / "Containerfile",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "deploy").rglob("*.yaml")),
    ]:
        named[str(path.relative_to(ROOT))] = set(_IMAGE.findall(path.read_text()))
        if path.name == "kustomization.yaml":
            images = yaml.safe_load(path.read_text()).get("images", ())
            named[str(path.relative_to(ROOT))] |= {str(one["newTag"]) for one in images if one["name"] != "DRIVER"}
    wrong = [f"{name} has {' and '.join(sorted(found))}" for name, found in named.items() if found - {release.version}]
    _need(not wrong, f"not {release.version}: {', '.join(wrong)}")
    return f"{release.version} in {len([found for found in named.values() if found])} files"


def chart(release: Release) -> str:
    """The chart has the package's version."""
    about = yaml.safe_load(_text("deploy/chart/mooring/Chart.yaml"))
    tag = yaml.safe_load(_text("deploy/chart/mooring/values.yaml"))["images"]["tag"]
    found = {about["version"], about["appVersion"], tag}
    _need(
        found == {release.version},
        f"{' and '.join(sorted(found))} in deploy/chart/mooring, not {release.version}: make chart",
    )
    return f"{about['name']} {about['version']}, Kubernetes {about['kubeVersion']}"


def changelog(release: Release) -> str:
    """The release has its section, and nothing waits for the next one."""
    sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", _text("CHANGELOG.md"), re.MULTILINE))
    heads = [head for head in sections if re.fullmatch(rf"\[{re.escape(release.version)}\] - \d{{4}}-\d\d-\d\d", head)]
    _need(bool(heads), f"no section `## [{release.version}] - YYYY-MM-DD` in CHANGELOG.md")
    _need(bool(sections[heads[0]].strip()), f"its section of {release.version} is empty")
    _need(
        not sections.get("[Unreleased]", "").strip(),
        f"[Unreleased] is not empty: move it into that of {release.version}",
    )
    return f"{heads[0]}: {sections[heads[0]].count(chr(10) + '- ')} items"


def lock(release: Release) -> str:
    """The locks hold what pyproject.toml asks for; the images have versions that are tested; each file has its hash."""
    tested = locked("requirements.lock")
    wanted = direct_requirements()
    missing = [str(one) for name, one in wanted.items() if name not in tested or tested[name][0] not in one.specifier]
    _need(not missing, f"not in requirements.lock, or at a version that doesn't fit: {', '.join(missing)}: make lock")
    asked = {name for name, (_, text) in tested.items() if "pyproject.toml" in text}
    _need(
        asked == wanted.keys(),
        f"requirements.lock is of another pyproject.toml ({', '.join(sorted(asked ^ wanted.keys()))}): make lock",
    )
    for name in LOCKS[:3]:
        other = [
            f"{one} {version}" for one, (version, _) in locked(name).items() if tested.get(one, ("",))[0] != version
        ]
        _need(not other, f"{name} has what requirements.lock has not: {', '.join(other)}: make lock")
    bare = [one for name in LOCKS for one, (_, text) in locked(name).items() if "--hash=sha256:" not in text]
    _need(not bare, f"without a hash: {', '.join(bare)}: make lock")
    return f"{len(tested)} packages, {len(locked('hack/image.lock'))} of them in the images"


def sbom(release: Release) -> str:
    """The parts list is made, and has the packages of the images."""
    with tempfile.TemporaryDirectory() as folder:
        done = _run("hack/sbom", folder)
        _need(done.returncode == 0, f"hack/sbom ended with {done.returncode}: {done.stderr.strip()}")
        parts = json.loads((Path(folder) / f"mooring-{release.version}.cdx.json").read_text())
    listed = {one["name"]: one["version"] for one in parts["components"]}
    _need(
        listed == {name: version for name, (version, _) in locked("hack/image.lock").items()},
        f"it has other packages: {listed}",
    )
    own = parts["metadata"]["component"]["version"]
    _need(own == release.version, f"it is of {own}")
    return f"CycloneDX {parts['specVersion']}, {len(listed)} packages"


def generated(release: Release) -> str:
    """No file that is written by a program is stale."""
    stale = {name: done for name, words in GENERATED.items() if (done := _run(sys.executable, *words)).returncode}
    _need(
        not stale,
        "; ".join(f"{name}: {(done.stderr or done.stdout).strip().splitlines()[-1]}" for name, done in stale.items()),
    )
    return ", ".join(GENERATED)


def kinds(release: Release) -> str:
    """docs/versions.md names the custom kinds in the versions that the code has."""
    done = _run(sys.executable, "-c", _KINDS)
    _need(done.returncode == 0, done.stderr.strip())
    page = _text("docs/versions.md")
    wanted = [word.split("|") for word in done.stdout.split()]
    missing = [f"{kind} {version}" for kind, version in wanted if f"| {kind} | {version} |" not in page]
    _need(
        bool(wanted) and not missing,
        f"not in docs/versions.md: {', '.join(missing)}: python -m tests.support.api_needs",
    )
    return ", ".join(sorted({version for _, version in wanted}))


def wheel(release: Release) -> str:
    """It is built, says of itself what pyproject.toml says, and holds the package alone."""
    with tempfile.TemporaryDirectory() as folder:
        done = _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        _need(done.returncode == 0, f"hatchling ended with {done.returncode}: {done.stderr.strip()}")
        (built,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(built) as archive:
            names = archive.namelist()
            info = f"mooring-{release.version}.dist-info"
            _need(f"{info}/METADATA" in names, f"{built.name} is of another version")
            told = email.message_from_bytes(archive.read(f"{info}/METADATA"))
            entries = configparser.ConfigParser()
            entries.optionxform = str  # type: ignore[assignment,method-assign]
            entries.read_string(archive.read(f"{info}/entry_points.txt").decode())
    project = release.project
    strange = [name for name in names if not name.startswith(("mooring/", info))]
    _need(not strange, f"it also holds {', '.join(strange)}")
    licences = [name for name in project["license-files"] if f"{info}/licenses/{name}" not in names]
    _need(not licences, f"it lacks {', '.join(licences)}")
    _need(dict(entries["console_scripts"]) == project["scripts"], "its commands are not those of pyproject.toml")
    needs = [one for one in told.get_all("Requires-Dist", ()) if "extra ==" not in one]
    _need(_asked(needs) == _asked(project["dependencies"]), f"it asks for {', '.join(needs)}")
    fields = [
        ("Name", "name"),
        ("Version", "version"),
        ("Requires-Python", "requires-python"),
        ("License-Expression", "license"),
    ]
    wrong = [f"{field} is {told[field]}" for field, key in fields if told[field] != project[key]]
    _need(not wrong, ", ".join(wrong))
    return f"{built.name}, {len(names)} files, {len(project['scripts'])} commands"


def _asked(texts: list[str]) -> dict[str, str]:
    return {canonicalize_name(one.name): str(one.specifier) for one in map(Requirement, texts)}


def base(release: Release) -> str:
    """The images are built on a base that is named by its digest."""
    _need(
        bool(re.search(r"@sha256:[0-9a-f]{64}$", release.base)),
        f"'{release.base}' is no digest: BASE=python@sha256:... (docs/images.md)",
    )
    return release.base


def tag(release: Release) -> str:
    """The commit that is released has the tag of its version, and nothing beside it is changed."""
    changed = _run("git", "status", "--porcelain").stdout.splitlines()
    _need(
        not changed, f"not committed: {', '.join(line[3:] for line in changed[:5])}{' ...' if len(changed) > 5 else ''}"
    )
    tags = _run("git", "tag", "--points-at", "HEAD").stdout.split()
    _need(
        f"v{release.version}" in tags,
        f"the commit has no tag v{release.version}{f', but {chr(44).join(tags)}' if tags else ''}",
    )
    return f"v{release.version}"


CHECKS: dict[str, Callable[[Release], str]] = {
    one.__name__: one for one in (versions, chart, changelog, lock, sbom, generated, kinds, wheel, base, tag)
}


def _text(name: str) -> str:
    return (ROOT / name).read_text()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="release_check", description="Carries out the checklist of a release.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(CHECKS)}")
    parser.add_argument("--base", default="", help="the image that images are built on, by digest")
    options = parser.parse_args(words)
    if unknown := [name for name in options.names if name not in CHECKS]:
        parser.error(f"no such check: {', '.join(unknown)}")
    failed = 0
    for name in options.names or CHECKS:
        try:
            print(f"ok      {name:<10} {CHECKS[name](Release(options.base))}", flush=True)
        except (Failed, ValueError) as error:  # ValueError: of hack.locks
            failed += 1
            print(f"FAILED  {name:<10} {error}", flush=True)
    print(f"{failed} of {len(options.names or CHECKS)} failed" if failed else "ready to be released")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
