"""`mooring binder`: binds claims to volumes and pods to nodes, for a cluster that has no kube-controller-manager or
kube-scheduler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mooring.base.errors import ConfigError
from mooring.base.flagkinds import FlagKind
from mooring.base.flags import Parsed, flag
from mooring.cli.limits import check_positive, check_workers
from mooring.cli.process import Command, Machine, Setup, run_command
from mooring.cli.settings import check_manager
from mooring.cli.tables import AsKubectlFlags, ManagerFlags
from mooring.cluster.binder.options import PARTS, BinderOptions

if TYPE_CHECKING:
    from mooring.control.caches import Caches
    from mooring.control.manager import Work
    from mooring.control.runtime import Runtime


def _read_parts(text: str) -> tuple[str, ...]:
    """As kube-controller-manager: names, `*` for all, `-name` for all but that one."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


_PARTS: Final[FlagKind[tuple[str, ...]]] = FlagKind("name,...", _read_parts, show=lambda words: f"[{','.join(words)}]")
_WORKERS_MAX: Final = 1000


def parts_of(words: Sequence[str]) -> frozenset[str]:
    """The parts that run. Raises ConfigError for a name that none has."""
    for word in words:
        if word != "*" and word.removeprefix("-") not in PARTS:
            raise ConfigError(f"controllers: {word!r} is not known; there are {', '.join(PARTS)}, and * for all")
    off = {word[1:] for word in words if word.startswith("-")}
    only_off = bool(words) and all(word.startswith("-") for word in words)
    on = set(PARTS) if "*" in words or only_off else {word for word in words if word in PARTS}
    found = frozenset(on - off)
    if not found:
        raise ConfigError("controllers: nothing is left to run; name a part, or * for all")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class BinderFlags(BinderOptions, AsKubectlFlags, ManagerFlags):
    controllers: tuple[str, ...] = flag(
        "controllers",
        _PARTS,
        ("*",),
        f"The parts that run: * for all, NAME for one, -NAME to leave one out. There are: {', '.join(PARTS)}.",
    )


def check(parsed: Parsed[BinderFlags]) -> None:
    check_manager(parsed)
    flags = parsed.flags
    parts_of(flags.controllers)
    check_positive({"bind-timeout": flags.bind_timeout_s}, "10m")
    check_workers({"workers": flags.workers}, _WORKERS_MAX)


COMMAND: Final[Command[BinderFlags]] = Command(
    BinderFlags,
    check=check,
    about="Binds claims to volumes and pods to nodes, and protects objects in use, for a cluster that has no "
    "kube-controller-manager "
    "or kube-scheduler to do it.",
    example="mooring binder --kubeconfig ./state/kubeconfig --controllers=-scheduler",
)


def run(argv: Sequence[str], prog: str, machine: Machine | None = None) -> int:
    """argv: the words after `mooring binder`. Gives the exit code."""
    return run_command(COMMAND, argv, prog, lambda setup: _serve(setup, machine or Machine()))


def _serve(setup: Setup[BinderFlags], machine: Machine) -> int:
    from mooring.cli.manager import run_manager  # here, so that --version and --help need not load it

    return run_manager("mooring-binder", setup, machine, lambda runtime: make_work(setup, runtime))


def make_work(setup: Setup[BinderFlags], runtime: Runtime, caches: Caches | None = None) -> Work:
    """The controllers for one term. caches: a share of the process', None for their own."""
    from mooring.cluster.binder.controller import make_binder

    options = setup.options(BinderOptions, parts=parts_of(setup.flags.controllers))
    return make_binder(runtime, options, caches=caches)
