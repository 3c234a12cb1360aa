"""Which Python runs a bench: its version, its compiler, and what the compiler was asked for, on which its speed hangs.

Not every build says so. CPython's own switches stay in its configuration (the official images, uv and pyenv use them);
Debian optimises by other means, and keeps its flags out of there. Then the layout of the code tells: a compiler that
has a profile moves what runs often away from what does not, and so tears the functions of one source file apart.
"""

from __future__ import annotations

import ctypes
import platform
import sysconfig

_OF_ONE_FILE = (
    "New",
    "Size",
    "GetItem",
    "SetItem",
    "Insert",
    "Append",
    "GetSlice",
    "SetSlice",
    "Sort",
    "Reverse",
    "AsTuple",
)
"""Functions of lists that every CPython exports."""

SPREAD_KIB_MAX = 64
"""So far apart they are at the most without a profile. Measured: 7 to 9 in six builds without one (3.8 to 3.13),
1508 in Debian's 3.11.
"""


def optimisations(configured: str, flags: str, spread_kib: int) -> str:
    """configured: the words that `configure` was given. flags: of the compiler. spread_kib: what the function of that
    name gives.
    """
    told, seen = "--enable-optimizations" in configured, spread_kib > SPREAD_KIB_MAX
    profile = "yes" if told else "yes, by the layout of its code" if seen else "no"
    linked = "yes" if "--with-lto" in configured or "-flto" in flags else "not known" if seen and not told else "no"
    return f"profile-guided optimisation: {profile}; link-time optimisation: {linked}"


def spread_kib() -> int:
    """How far apart the functions of one source file are in this process."""
    found = [
        ctypes.cast(getattr(ctypes.pythonapi, f"PyList_{name}"), ctypes.c_void_p).value or 0 for name in _OF_ONE_FILE
    ]
    return (max(found) - min(found)) // 1024


def interpreter() -> str:
    """This Python, as in: Python 3.12.1 (GCC 13.2.0; profile-guided optimisation: yes; link-time optimisation: yes)."""
    configured, flags = (str(sysconfig.get_config_var(name) or "") for name in ("CONFIG_ARGS", "PY_CFLAGS"))
    return (
        f"Python {platform.python_version()} ({platform.python_compiler().strip()}; "
        f"{optimisations(configured, flags, spread_kib())})"
    )


if __name__ == "__main__":
    print(interpreter())
