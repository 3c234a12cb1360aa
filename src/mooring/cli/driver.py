"""`mooring driver`: the reference driver as a process of its own, for any sidecar; and the commands for a driver of
one's own.

`mooring driver new NAME` makes a folder with a driver to begin with, tests that pass, and what CI and a cluster need.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.resources
import io
import keyword
import re
import shlex
import shutil
import sys
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import FOLDER, STRING, word_of
from mooring.base.flags import Parsed, UsageError, flag
from mooring.base.folders import refusal
from mooring.base.json_text import from_json
from mooring.cli import driver_run, hostpath
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_-]{0,39}[A-Za-z0-9])?")
_DRIVER_NAME: Final = re.compile(r"(?=.{1,63}$)[a-z]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(?<=[a-z])")
"""A CSIDriver's name is a subdomain's; csi-sanity wants letters at both ends."""

_CLASS: Final = "Skeleton"
_NEEDED: Final = ("mooring", "pytest", "setuptools")

PYTHON, GO = "python", "go"
_FILES: Final[Mapping[str, Mapping[str, str]]] = {
    PYTHON: {
        "driver.py": "driver.py",
        "test_driver.py": "test_driver.py.txt",
        "README.md": "README.md.txt",
        "pyproject.toml": "pyproject.toml.txt",
        "Makefile": "Makefile.txt",
        "Containerfile": "Containerfile.txt",
        "values.yaml": "values.yaml.txt",
        ".gitignore": "gitignore.txt",
        ".github/workflows/driver.yaml": "workflow.yaml.txt",
    },
    GO: {"values.yaml": "go/values.yaml.txt", ".github/workflows/conform.yaml": "go/workflow.yaml.txt"},
}
"""The driver's language → the files that it gets, and where the skeleton has them."""

USAGE: Final = """\
usage: mooring driver hostpath [flags]          the reference driver
       mooring driver run MODULE:CLASS [flags]  a driver of your own
       mooring driver new NAME [flags]          begin one, with tests and CI
mooring driver hostpath --help lists the flags of the first, and so on
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewFlags(ProcessFlags):
    """The flags of `mooring driver new`."""

    folder: str = flag(
        "folder",
        FOLDER,
        "",
        "Where to put it: a folder that is not there yet, or empty; for a driver in Go, its project. Empty: the name.",
    )
    language: str = flag(
        "language",
        word_of(*_FILES),
        PYTHON,
        "python, or go: then only what CI and the chart need is written, beside what is there.",
    )
    driver_name: str = flag("driver-name", STRING, "", "The driver's name, in domain form. Empty: NAME.example.com.")


def _new(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver new`, the name first. Gives the exit code."""
    words = [] if not argv or argv[0].startswith("-") else [argv[0]]
    return run_for_people(_NEW, argv[len(words) :], prog, lambda flags: _write(flags, *words))


def _check(parsed: Parsed[NewFlags]) -> None:
    if (language := parsed.flags.language) not in _FILES:
        raise ConfigError(f"language: must be {' or '.join(_FILES)}, got {language!r}")
    name = parsed.flags.driver_name
    if name and not _DRIVER_NAME.fullmatch(name):
        raise ConfigError(
            f"driver-name: {name!r} is not of the form a domain has, as in csi.example.com: lower-case, with letters "
            "at both ends, and 63 characters at the most"
        )


_NEW: Final[Command[NewFlags]] = Command(
    NewFlags,
    check=_check,
    about="Begins a CSI driver in Python: a folder with a driver that works, and tests that pass, csi-sanity among "
    "them, a Makefile, a Containerfile, a step for CI, and values for Mooring's chart.",
    example="mooring driver new shelf --driver-name shelf.example.com\n"
    "mooring driver new shelf --language go --folder .",
)


def _write(flags: NewFlags, name: str = "") -> int:
    if not name:
        raise UsageError("the name is missing: mooring driver new NAME [flags]")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a driver: give letters, digits, - and _, a letter first, - and _ not last, 41 at "
            "the most"
        )
    if flags.language == PYTHON and name.lower() in _NEEDED:
        raise UsageError(f"{name!r} is no name for a driver: its project needs the package of that name; give another")
    if flags.language == PYTHON and class_name(name) in _names_in_use():
        means = f"its code means something else by {class_name(name)}, as its class would be called"
        raise UsageError(f"{name!r} is no name for a driver: {means}; give another")
    folder = Path(flags.folder or name)
    texts = _texts(name, flags.driver_name or f"{name.lower().replace('_', '-')}.example.com", flags.language)
    try:
        if flags.language == PYTHON and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{str(folder)!r} is there, and not empty: give another folder")
        if there := next((folder / file for file in texts if (folder / file).exists()), None):
            raise ConfigError(f"{str(there)!r} is there already: move it away, or give another folder")
        made: list[Path] = []
        try:
            for path, text in ((folder / file, text) for file, text in texts.items()):
                made += reversed([one for one in (path, *path.parents) if not one.exists()])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        except OSError:  # no half of a driver is left
            for one in reversed(made):
                with contextlib.suppress(OSError):
                    one.rmdir() if one.is_dir() else one.unlink()
            raise
    except OSError as error:
        raise refusal(folder, error, "folder") from None
    sys.stdout.write(_next_steps(folder, name, flags.language))
    return 0


def class_name(name: str) -> str:
    """The class of a driver: ShelfDriver for shelf-driver."""
    return "".join(part[:1].upper() + part[1:] for part in re.split("[-_]", name))


def _names_in_use() -> set[str]:
    """Every name in the code of a new driver, and in its tests, but that of its class."""
    sources = [source for source in _FILES[PYTHON].values() if ".py" in source]
    read = [io.StringIO(_skeleton(source)).readline for source in sources]
    names = {token.string for readline in read for token in tokenize.generate_tokens(readline)}
    return names.union(keyword.kwlist) - {_CLASS}


def _texts(name: str, driver_name: str, language: str) -> dict[str, str]:
    """The files of a new driver, by their names."""
    texts = {file: _skeleton(source) for file, source in _FILES[language].items()}
    pairs = {"skeleton.example.com": driver_name, _CLASS: class_name(name), "skeleton": name}
    pairs |= {"REQUIREMENT": requirement(), "DEVELOPMENT": requirement("[server,ui]")}
    pattern = re.compile("|".join(map(re.escape, pairs)))
    return {file: pattern.sub(lambda found: pairs[found[0]], text) for file, text in texts.items()}


def _skeleton(source: str) -> str:
    return (importlib.resources.files("mooring.driver") / "skeleton" / source).read_text(encoding="utf-8")


def requirement(extras: str = "") -> str:
    """The requirement by which a project finds this Mooring: the place from which it was installed, since no index may
    have it. Source: PEP 610, PEP 508.
    """
    from importlib import metadata  # (20 ms that nobody else needs)

    with contextlib.suppress(metadata.PackageNotFoundError, ValueError, KeyError):
        origin = from_json(metadata.distribution("mooring").read_text("direct_url.json") or "{}")
        if "vcs_info" in origin:
            return f"mooring{extras} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
        if "url" in origin:
            return f"mooring{extras} @ {origin['url']}"
    return f"mooring{extras}"


def _next_steps(folder: Path, name: str, language: str) -> str:
    at = _way(Path(sys.argv[0]).absolute())
    if language == GO:
        return (
            f"{folder}: values for Mooring's chart, and a workflow that runs conform. Next:\n"
            f"  {at}mooring conform './{name} --endpoint=unix://{{socket}} --node-id={{node}}'\n"
            f"Both files have the flags of a driver, which may not be those of yours.\n"
        )
    return (
        f"{folder}: a driver whose volumes are folders, and its tests. Next:\n"
        f"  cd {shlex.quote(str(folder))}\n"
        f"  {at}pytest\n"
        f'  {at}mooring dev --driver driver:{class_name(name)} --option "folder=$PWD/volumes"\n'
        f"Its README.md says what comes then.\n"
    )


def _way(program: Path) -> str:
    """To the commands beside this program, where they are not in the PATH: an environment that nobody has activated."""
    found = shutil.which("mooring")
    is_there = program.name != "mooring" or (found is not None and Path(found).absolute() == program)
    return "" if is_there else f"{shlex.quote(str(program.parent))}/"


_COMMANDS: Final = {"hostpath": hostpath.run, "run": driver_run.run, "new": _new}


def run(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver`. Gives the exit code."""
    name = argv[0] if argv else ""
    if (command := _COMMANDS.get(name)) is not None:
        return command(argv[1:], f"{prog} {name}")
    if name in ("--help", "-h", "-help"):
        sys.stdout.write(USAGE)
        return 0
    sys.stderr.write(f"{prog}: {name!r} is not known: there are hostpath, run and new\n{USAGE}" if argv else USAGE)
    return UsageError("").exit_code
