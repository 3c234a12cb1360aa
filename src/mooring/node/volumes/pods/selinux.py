"""The SELinux label that a volume is mounted with, so that nothing has to be relabelled file by file. Only on hosts
that run SELinux.

A label is used where the driver's CSIDriver says seLinuxMount, for volumes that one pod alone may use; with the gate
SELinuxMount for all. Source: kubelet 1.36, pkg/volume/util/selinux.go; go-selinux for the defaults. Differs: a pod
whose options name no level gets no label, since no object shows the level that the runtime would choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.api.pods import Pod, SELinuxOptions
from mooring.base.errors import MooringError

_FILE_SYSTEM: Final = Path("sys/fs/selinux/enforce")
_CONFIG: Final = Path("etc/selinux/config")
RECURSIVE: Final = "Recursive"


class LabelConflict(MooringError):
    """The pod's containers want the volume under different labels; str() is for the pod's event."""


def default_context(root: Path = Path("/")) -> str:
    """The label that container files have on this host, "" where it runs no SELinux. Blocks for a moment."""
    if not (root / _FILE_SYSTEM).exists():
        return ""
    try:
        policy = _setting(root / _CONFIG, "SELINUXTYPE") or "targeted"
        return _setting(root / "etc/selinux" / policy / "contexts/lxc_contexts", "file").strip('"')
    except OSError:
        return ""


def mount_label(default: str, pod: Pod, volume_name: str) -> str:
    """The label for one volume of the pod, "" for none. default: the host's own. Raises LabelConflict."""
    security = pod.spec.security_context
    if not default or (security is not None and security.se_linux_change_policy == RECURSIVE):
        return ""
    labels = {_label(default, options) for options in _options(pod, volume_name)}
    if len(labels) > 1:
        both = '" and "'.join(sorted(labels)[:2])
        raise LabelConflict(
            f'volume {volume_name}: the pod\'s containers use it with different SELinux labels, "{both}"'
        )
    return labels.pop() if labels else ""


def _options(pod: Pod, volume_name: str) -> Iterator[SELinuxOptions]:
    """The options of every container that mounts the volume and has some. One without says nothing: it is no other
    label beside that of its neighbour.
    """
    security = pod.spec.security_context
    default = security.se_linux_options if security is not None else None
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        if any(mount.name == volume_name for mount in container.volume_mounts or ()):
            own = container.security_context.se_linux_options if container.security_context is not None else None
            if (options := own or default) is not None:
                yield options


def _label(default: str, options: SELinuxOptions) -> str:
    """A file's label: its type is the host's, its user and its level are the pod's."""
    user, _, rest = default.partition(":")
    role, _, rest = rest.partition(":")
    kind, _, _ = rest.partition(":")
    if not options.level or not kind:
        return ""
    return f"{options.user or user}:{role}:{kind}:{options.level}"


def _setting(path: Path, name: str) -> str:
    """Raises OSError."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == name:
            return value.strip()
    return ""
