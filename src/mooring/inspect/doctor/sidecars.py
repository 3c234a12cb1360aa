"""Which containers are CSI sidecars: by the image's name, or by the command that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.objects import BARE_PODS, BarePod, Container, Item, PodSpec, Workload

PROGRAMS: Final = (
    "csi-attacher",
    "csi-provisioner",
    "csi-resizer",
    "csi-snapshotter",
    "snapshot-controller",
    "csi-node-driver-registrar",
    "livenessprobe",
)
OTHER_NAMES: Final = {
    "external-attacher": "csi-attacher",
    "external-provisioner": "csi-provisioner",
    "external-resizer": "csi-resizer",
    "external-snapshotter": "csi-snapshotter",
    "node-driver-registrar": "csi-node-driver-registrar",
}
SUBCOMMANDS: Final = {
    "attacher": "csi-attacher",
    "provisioner": "csi-provisioner",
    "resizer": "csi-resizer",
    "snapshotter": "csi-snapshotter",
    "snapshot-controller": "snapshot-controller",
    "registrar": "csi-node-driver-registrar",
    "livenessprobe": "livenessprobe",
    "attachdetach": "attachdetach",
    "binder": "binder",
}
"""The program that each subcommand of `mooring`, or word of its --enable, stands for."""
_NAMES: Final = {**dict.fromkeys(PROGRAMS), **OTHER_NAMES}
_FLAG: Final = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)


class Flag(msgspec.Struct, frozen=True):
    """value: "" for a bare one. path: where it stands in its container."""

    name: str
    value: str
    path: tuple[str | int, ...]


class Pods(msgspec.Struct, frozen=True):
    """A pod, or what makes pods. replicas: how many; of a DaemonSet as many as nodes, so 2. path: to the pod's spec."""

    item: Item[Workload] | Item[BarePod]
    spec: PodSpec
    replicas: int
    path: tuple[str, ...]

    @property
    def account(self) -> str:
        return self.spec.service_account_name or self.spec.service_account or "default"


class Sidecar(msgspec.Struct, frozen=True):
    """One program in a container. is_ours: Mooring's, not the Go one. number: of the container in its pod."""

    program: str
    is_ours: bool
    pods: Pods
    container: Container
    number: int
    flags: tuple[Flag, ...]

    @property
    def item(self) -> Item[Workload] | Item[BarePod]:
        return self.pods.item

    @property
    def about(self) -> str:
        return f"{self.pods.item}, container {self.container.name}"

    @property
    def version(self) -> str:
        """The tag of the image, "" for none."""
        name, _, tag = self.container.image.partition("@")[0].rpartition(":")
        return tag if name and "/" not in tag else ""

    def is_since(self, major: int, minor: int = 0) -> bool:
        """True for the release and later ones of the Go program, and for Mooring's. One without a number is new."""
        found = re.match(r"v?(\d+)\.(\d+)", self.version)
        return self.is_ours or found is None or (int(found[1]), int(found[2])) >= (major, minor)

    def flag(self, name: str) -> Flag | None:
        """The flag of this name; the last one counts."""
        return next((one for one in reversed(self.flags) if one.name == name), None)

    def is_on(self, name: str) -> bool:
        found = self.flag(name)
        return found is not None and found.value.lower() not in ("false", "f", "0")

    def gates(self) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for one in self.flags:
            if one.name == "feature-gates":
                for word in one.value.split(","):
                    name, _, value = word.strip().partition("=")
                    found[name] = value.lower() in ("true", "t", "1")
        return found

    def path(self, *more: str | int) -> tuple[str | int, ...]:
        """The path to the container, and into it."""
        return (*self.pods.path, "containers", self.number, *more)

    def where(self, flag: Flag | None = None) -> str:
        """The place of the flag, or of the arguments."""
        return self.item.where(*self.path(*(flag.path if flag is not None else ("args",))))


def pods_in(inventory: Inventory) -> Iterator[Pods]:
    for item in inventory.workloads():
        replicas = 2 if item.kind.name == "DaemonSet" else item.obj.spec.replicas
        yield Pods(item, item.obj.spec.template.spec, replicas, ("spec", "template", "spec"))
    for pod in inventory.all(BARE_PODS):
        yield Pods(pod, pod.obj.spec, 1, ("spec",))


def sidecars_in(inventory: Inventory) -> tuple[Sidecar, ...]:
    return tuple(sidecar for pods in pods_in(inventory) for sidecar in sidecars_of(pods))


def sidecars_of(pods: Pods) -> Iterator[Sidecar]:
    for number, container in enumerate(pods.spec.containers):
        programs, is_ours = programs_of(container)
        for program in programs:
            yield Sidecar(program, is_ours, pods, container, number, tuple(_flags(container)))


def programs_of(container: Container) -> tuple[tuple[str, ...], bool]:
    """The programs that a container runs (several for `mooring controller`), and whether they are Mooring's."""
    image = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    first = container.command[0].rpartition("/")[2] if container.command else ""
    if first == "mooring" or (not first and image == "mooring"):
        words = (*container.command[1:], *container.args)
        return _mooring(words[0] if words else "", container), True
    is_ours = image == "mooring" or image.startswith("mooring-")
    program = _named(first) or _named(image)
    return ((program,) if program else ()), is_ours


def _named(name: str) -> str:
    """The program that has the name, with what mirrors put before it; "" for none."""
    for known in _NAMES:
        if name == known or name.endswith(f"-{known}"):
            return _NAMES[known] or known
    return ""


def _mooring(word: str, container: Container) -> tuple[str, ...]:
    if word == "controller":
        enabled = next((one.value for one in _flags(container) if one.name == "enable"), "")
        return tuple(SUBCOMMANDS[one] for one in enabled.split(",") if one in SUBCOMMANDS)
    named = SUBCOMMANDS.get(word) or _named(word)
    return (named,) if named else ()


def _flags(container: Container) -> Iterator[Flag]:
    words = [(word, ("command", number)) for number, word in enumerate(container.command)]
    words += [(word, ("args", number)) for number, word in enumerate(container.args)]
    for at, (word, path) in enumerate(words):
        found = _FLAG.fullmatch(word)
        if found is None:
            continue
        value = found["value"]
        if value is None:
            following = words[at + 1][0] if at + 1 < len(words) else "-"
            value = "" if following.startswith("-") else following
        yield Flag(found["name"], value, path)
