"""/healthz, /livez, /readyz: `ok`, or with ?verbose every check by name, as `kubectl get --raw` shows it."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.apiserver.discovery.groups import HEALTH
from mooring.apiserver.web.messages import TEXT, Reply


def is_health(path: tuple[str, ...]) -> bool:
    """True for paths that need no credentials: all checks, or one of them, as /readyz/ping."""
    return len(path) <= 2 and path[0] in HEALTH


def health(path: tuple[str, ...], query: Mapping[str, str], failure: str) -> Reply | None:
    """path: begins with one of HEALTH. failure: what is wrong with the storage; "" while nothing is. None for a check that isn't there."""
    which, *rest = path
    checks = {"ping": "", "log": "", "storage": failure if which != "livez" else ""}
    if rest:
        if len(rest) != 1 or rest[0] not in checks:
            return None
        checks = {rest[0]: checks[rest[0]]}
    excluded = query.get("exclude", "")
    lines = [_line(name, "" if name == excluded else why, is_excluded=name == excluded) for name, why in checks.items()]
    name = "/".join(path)
    if any(why for check, why in checks.items() if check != excluded):
        return Reply(500, f"{''.join(lines)}{name} check failed\n".encode(), TEXT)
    if "verbose" in query:
        return Reply(200, f"{''.join(lines)}{name} check passed\n".encode(), TEXT)
    return Reply(200, b"ok", TEXT)


def _line(name: str, why: str, *, is_excluded: bool) -> str:
    if is_excluded:
        return f"[+]{name} excluded: ok\n"
    return f"[-]{name} failed: {why}\n" if why else f"[+]{name} ok\n"
