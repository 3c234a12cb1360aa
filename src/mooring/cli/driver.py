"""`mooring driver`: the reference driver as a process of its own, for any sidecar; and the commands for a driver of one's own.

`mooring driver new NAME` makes a folder with a driver to begin with, and tests that pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.resources
import json
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import STRING
from mooring.base.flags import Parsed, UsageError, flag
from mooring.cli import driver_run, hostpath
from mooring.cli.people import run_for_people
from mooring.cli.process import Command
from mooring.cli.tables import ProcessFlags

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_DRIVER_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9.-]{0,61}[A-Za-z])?")
"""csi-sanity wants letters at both ends."""

_FILES: Final[Mapping[str, str]] = {
    "driver.py": "driver.py",
    "test_driver.py.txt": "test_driver.py",
    "README.md.txt": "README.md",
    "pyproject.toml.txt": "pyproject.toml",
}

USAGE: Final = """\
usage: mooring driver hostpath [flags]          the reference driver
       mooring driver run MODULE:CLASS [flags]  a driver of your own
       mooring driver new NAME [flags]          begin one: a folder with tests
mooring driver hostpath --help lists the flags of the first, and so on
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewFlags(ProcessFlags):
    """The flags of `mooring driver new`."""

    folder: str = flag(
        "folder", STRING, "", "Where to put it: a folder that is not there yet, or empty. Empty: the name."
    )
    driver_name: str = flag("driver-name", STRING, "", "The driver's name, in domain form. Empty: NAME.example.com.")


def _new(argv: Sequence[str], prog: str) -> int:
    """argv: the words after `mooring driver new`, the name first. Gives the exit code."""
    words = [] if not argv or argv[0].startswith("-") else [argv[0]]
    return run_for_people(_NEW, argv[len(words) :], prog, lambda flags: _write(flags, *words))


def _check(parsed: Parsed[NewFlags]) -> None:
    name = parsed.flags.driver_name
    if name and not _DRIVER_NAME.fullmatch(name):
        raise ConfigError(
            f"driver-name: {name!r} is not of the form a domain has, as in csi.example.com, with letters at both ends"
        )


_NEW: Final[Command[NewFlags]] = Command(
    NewFlags,
    check=_check,
    about="Begins a CSI driver in Python: a folder with a driver that works, and tests that pass, csi-sanity among them.",
    example="mooring driver new shelf --driver-name shelf.example.com",
)


def _write(flags: NewFlags, name: str = "") -> int:
    if not name:
        raise UsageError("the name is missing: mooring driver new NAME [flags]")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is no name for a driver: give letters, digits, - and _, a letter first")
    folder = Path(flags.folder or name)
    texts = _texts(name, flags.driver_name or f"{name.lower().replace('_', '-')}.example.com")
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{str(folder)!r} is there, and not empty: give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"folder {str(folder)!r} can't be used: {error.strerror}") from None
    sys.stdout.write(_next_steps(folder, class_name(name)))
    return 0


def class_name(name: str) -> str:
    """The class of a driver: ShelfDriver for shelf-driver."""
    return "".join(part[:1].upper() + part[1:] for part in re.split("[-_]", name))


def _texts(name: str, driver_name: str) -> dict[str, str]:
    """The files of a new driver, by their names."""
    skeleton = importlib.resources.files("mooring.driver") / "skeleton"
    texts = {file: (skeleton / source).read_text(encoding="utf-8") for source, file in _FILES.items()}
    pairs = {"skeleton.example.com": driver_name, "Skeleton": class_name(name), "skeleton": name}
    pairs |= {"REQUIREMENT": requirement(), "DEVELOPMENT": requirement("[server,ui]")}
    pattern = re.compile("|".join(map(re.escape, pairs)))
    return {file: pattern.sub(lambda found: pairs[found[0]], text) for file, text in texts.items()}


def requirement(extras: str = "") -> str:
    """The requirement by which a project finds this Mooring: the place from which it was installed, since no index may have it. Source: PEP
    610, PEP 508."""
    from importlib import metadata  # (20 ms that nobody else needs)

    with contextlib.suppress(metadata.PackageNotFoundError, ValueError, KeyError):
        origin = json.loads(metadata.distribution("mooring").read_text("direct_url.json") or "{}")
        if "vcs_info" in origin:
            return f"mooring{extras} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
        if "url" in origin:
            return f"mooring{extras} @ {origin['url']}"
    return f"mooring{extras}"


def _next_steps(folder: Path, driver: str) -> str:
    at = _way(Path(sys.argv[0]).absolute())
    return (
        f"{folder}: a driver whose volumes are folders, and its tests. Next:\n"
        f"  cd {shlex.quote(str(folder))}\n"
        f"  {at}pytest\n"
        f"  {at}mooring dev --driver driver:{driver} --option folder=/tmp/volumes\n"
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
