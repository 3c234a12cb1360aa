"""Writes what a release consists of to dist/, and checks it: python -m hack.release [--without-images]

| in dist/ | what it is |
|---|---|
| mooring-VERSION-py3-none-any.whl, mooring-VERSION.tar.gz | for pip; built twice, and equal |
| mooring-images-VERSION-ARCH.tar | all images in one OCI layout, with what they share once; built twice, and equal |
| mooring-VERSION.tgz | the Helm chart |
| manifests/NAME.yaml | each folder of deploy/, as `kubectl apply -f` takes it |
| kubectl-mooring-VERSION-linux-ARCH.tar.gz | the plug-in of kubectl: needs python3, 3.11 to 3.13, and no network |
| mooring.yaml | krew's manifest of it |
| mooring-VERSION.cdx.json, mooring-base-VERSION.txt | the parts: Python's packages, and Debian's in the images' base |
| provenance.json | an in-toto statement: from which commit, base and locks this was made |
| SHA256SUMS | of all of them: this file is what gets signed |

It publishes nothing. Names that only the publisher knows are variables: DOWNLOADS, the address below which dist/ will
be found, and SOURCE, that of the repository.
"""

from __future__ import annotations

import argparse
import email
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from hack.locks import ROOT, locked

DIST: Final = ROOT / "dist"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION: Final = PROJECT["version"]
DOWNLOADS: Final = os.environ.get("DOWNLOADS", f"https://downloads.example.com/mooring/{VERSION}")
PYTHONS: Final = ("3.11", "3.12", "3.13")
ARCHES: Final = {"amd64": "manylinux2014_x86_64", "arm64": "manylinux2014_aarch64"}
"""The kubectl plug-in's architectures, and the wheels that run on each."""
NOT_FOR_KUBECTL: Final = ("uvloop", "inotify-simple")
_START: Final = """\
#!/bin/sh
# kubectl mooring: runs on the Python of this machine, 3.11 to 3.13.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
for python in "${MOORING_PYTHON:-python3}" python3.13 python3.12 python3.11; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  [ -d "$here/lib/$version" ] || continue
  PYTHONPATH="$here/lib/$version:$here/lib/all" exec "$python" -c 'from mooring.cli.mooring import main; main()' "$@"
done
echo "kubectl mooring: needs Python 3.11, 3.12 or 3.13 as python3 on PATH, or named in MOORING_PYTHON" >&2
exit 1
"""


class Failed(Exception):
    """What was made is not what it should be, or could not be made. Its text says why."""


def _run(*command: str | Path, **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, **options
    )
    if done.returncode:
        raise Failed(f"{Path(command[0]).name} {command[1]}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _twice(what: str, make: Callable[[Path], object]) -> None:
    """make: writes files into a folder. Both times the same, or Failed; into dist/ once."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        made = []
        for folder in (Path(one), Path(other)):
            make(folder)
            made.append({path.name: _sha256(path) for path in sorted(folder.iterdir())})
        if made[0] != made[1]:
            raise Failed(f"two builds of {what} differ: {made[0]} and {made[1]}")
        for path in Path(one).iterdir():
            shutil.copy(path, DIST)
    _say(what, f"{', '.join(made[0])}, twice the same")


def _say(what: str, text: str) -> None:
    print(f"{what:<12} {text}", flush=True)


def packages() -> None:
    build = (sys.executable, "-m", "hatchling", "build", "-t")
    _twice("packages", lambda folder: [_run(*build, kind, "-d", folder) for kind in ("wheel", "sdist")])


def chart() -> None:
    helm = Path(_run(ROOT / "hack/tools/build", "--where", "helm").strip())
    if not helm.exists():
        raise Failed("there is no helm: make release-tools")
    _run(helm, "package", "deploy/chart/mooring", "--destination", DIST)
    _run(helm, "template", "mooring", DIST / f"mooring-{VERSION}.tgz", "--set", "driver.image=i,driver.name=a.b")
    _say("chart", f"mooring-{VERSION}.tgz, and it renders")


def manifests() -> None:
    kubectl = Path(_run(ROOT / "hack/kube/build", "--folder").strip()) / "kubectl"
    (DIST / "manifests").mkdir()
    found = sorted((ROOT / "deploy").glob("*/kustomization.yaml"))
    names = [path.parent.name for path in found if yaml.safe_load(path.read_text())["kind"] == "Kustomization"]
    for name in names:
        text = _run(kubectl, "kustomize", f"deploy/{name}")
        (DIST / "manifests" / f"{name}.yaml").write_text(text)
    _say("manifests", ", ".join(names))


def kubectl_plugin() -> None:
    """The plug-in of each architecture, and krew's manifest of it."""
    platforms = []
    (wheel,) = DIST.glob("*.whl")
    for arch, tag in ARCHES.items():
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            _install(root / "lib" / "all", "--no-index", str(wheel))
            for python in PYTHONS:
                lock = root / "lock"
                lock.write_text(
                    "".join(
                        text for name, (_, text) in locked("hack/image.lock").items() if name not in NOT_FOR_KUBECTL
                    )
                )
                words = ("--only-binary=:all:", f"--platform={tag}", f"--python-version={python}", "--require-hashes")
                _install(root / "lib" / python, *words, "-r", str(lock))
                lock.unlink()
            start = root / "kubectl-mooring"
            start.write_text(_START)
            start.chmod(0o755)
            for name in ("LICENSE", "NOTICE"):
                shutil.copy(ROOT / name, root)
            archive = DIST / f"kubectl-mooring-{VERSION}-linux-{arch}.tar.gz"
            archive.write_bytes(_archived(root))
            if arch == _arch() and VERSION not in _run(start, "--version"):
                raise Failed(f"{archive.name} does not run")
        selector = {"matchLabels": {"os": "linux", "arch": arch}}
        uri = f"{DOWNLOADS}/{archive.name}"
        platforms.append({"selector": selector, "uri": uri, "sha256": _sha256(archive), "bin": "kubectl-mooring"})
    about = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "mooring"},
        "spec": {
            "version": f"v{VERSION}",
            "homepage": os.environ.get("SOURCE", DOWNLOADS),
            "shortDescription": "Say why a volume waits, and who has to move",
            "description": PROJECT["description"],
            "caveats": "Needs Python 3.11, 3.12 or 3.13 as python3, or named in MOORING_PYTHON.",
            "platforms": platforms,
        },
    }
    (DIST / "mooring.yaml").write_text(yaml.safe_dump(about, sort_keys=False))
    _say("kubectl", f"{', '.join(ARCHES)}: run on {_arch()}; mooring.yaml for krew")


def _install(folder: Path, *words: str) -> None:
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-deps",
        "--no-compile",
    )
    _run(*pip, "--target", folder, *words)
    shutil.rmtree(folder / "bin", ignore_errors=True)


def _archived(root: Path) -> bytes:
    """A tar of the folder in which nothing tells when or by whom it was made."""

    def bare(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=bare)
    return gzip.compress(plain.getvalue(), mtime=0)


def _arch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def images() -> dict[str, str]:
    """The digests by name. All of them in one OCI layout; built from nothing once more, and equal."""
    tool = shutil.which("podman")
    if tool is None:
        raise Failed("images need podman; --without-images leaves them out")
    names = _run(ROOT / "hack/images").split()
    digests = {name: _digest(tool, name) for name in names}
    _run(ROOT / "hack/images", "mooring")
    again = _digest(tool, f"mooring:{VERSION}")
    if again != digests[f"mooring:{VERSION}"]:
        raise Failed(f"two builds of mooring:{VERSION} differ: {digests[f'mooring:{VERSION}']} and {again}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            _run(tool, "push", "--quiet", f"localhost/{name}", f"oci:{folder}/layout:{name}")
        layout = Path(folder) / "layout"
        archive = DIST / f"mooring-images-{VERSION}-{_arch()}.tar"
        archive.write_bytes(gzip.decompress(_archived(layout)))
    base = json.loads(_run(tool, "image", "inspect", f"localhost/mooring:{VERSION}"))[0]["Labels"]
    (DIST / f"mooring-base-{VERSION}.txt").write_text("\n".join(_of_debian(tool)) + "\n")
    _say("images", f"{archive.name} with {len(names)}, on {base['org.opencontainers.image.base.name']}; twice the same")
    return {**digests, "base": base["org.opencontainers.image.base.digest"]}


def _of_debian(tool: str) -> list[str]:
    """Debian's packages in an image, with their versions."""
    made = _run(tool, "create", f"localhost/mooring:{VERSION}").strip()
    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(tool, "cp", f"{made}:/var/lib/dpkg/status", folder)
            about = email.message_from_string
            parts = [about(one) for one in (Path(folder) / "status").read_text().split("\n\n") if one.strip()]
    finally:
        _run(tool, "rm", made)
    return [f"{one['Package']} {one['Version']} {one['Architecture']}" for one in parts]


def _digest(tool: str, name: str) -> str:
    return str(json.loads(_run(tool, "image", "inspect", f"localhost/{name}"))[0]["Digest"])


def parts_lists() -> None:
    """The lists that `make sbom` writes, with what each package says of its licence."""
    _run(ROOT / "hack/sbom", DIST)
    path = DIST / f"mooring-{VERSION}.cdx.json"
    parts = json.loads(path.read_text())
    for one in parts["components"]:
        about = importlib.metadata.metadata(one["name"])
        said = next((about[key] for key in ("License-Expression", "License") if about[key]), "")
        kinds = [kind.rpartition(" :: ")[2] for kind in about.get_all("Classifier") or () if kind.startswith("License")]
        name = said if 0 < len(said) < 100 else " or ".join(kinds)
        if not name:
            raise Failed(f"{one['name']} says nothing of its licence")
        one["licenses"] = [{"license": {"name": name}}]
    path.write_text(json.dumps(parts, indent=2) + "\n")
    _say("parts lists", f"{path.name}, with licences, and that of development")


def provenance(digests: dict[str, str]) -> None:
    """In the form of in-toto: what was made, from what, by which command."""
    commit = _run("git", "rev-parse", "HEAD").strip()
    locks = [
        {"uri": name, "digest": {"sha256": _sha256(ROOT / name)}} for name in ("hack/image.lock", "hack/build.lock")
    ]
    base = (
        [{"uri": "base of the images", "digest": {"sha256": digests["base"].removeprefix("sha256:")}}]
        if digests
        else []
    )
    source = {"uri": os.environ.get("SOURCE", "mooring"), "digest": {"gitCommit": commit}}
    named = [{"name": str(path.relative_to(DIST)), "digest": {"sha256": _sha256(path)}} for path in _files()]
    named += [
        {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in digests.items()
        if name != "base"
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": named,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"version": VERSION},
                "resolvedDependencies": [source, *locks, *base],
            },
            "runDetails": {"builder": {"id": os.environ.get("BUILDER_ID", "make release")}},
        },
    }
    (DIST / "provenance.json").write_text(json.dumps(statement, indent=1) + "\n")
    _say("provenance", f"of {len(named)} files and images, from {commit[:12]}")


def checksums() -> None:
    lines = [f"{_sha256(path)}  {path.relative_to(DIST)}\n" for path in _files()]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    _say("SHA256SUMS", f"{len(lines)} files")


def _files() -> Iterable[Path]:
    return (path for path in sorted(DIST.rglob("*")) if path.is_file())


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="release", description="Writes a release to dist/, and checks it.")
    parser.add_argument("--without-images", action="store_true", help="leave the images out: no podman")
    options = parser.parse_args(words)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    try:
        packages()
        chart()
        manifests()
        kubectl_plugin()
        parts_lists()
        digests = {} if options.without_images else images()
        provenance(digests)
        checksums()
    except Failed as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    if options.without_images:
        print("NOT MADE: the images", file=sys.stderr)
    print("dist/ is whole. To sign it: cosign sign-blob --key KEY --bundle SHA256SUMS.bundle dist/SHA256SUMS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
