"""A container runtime that runs nothing, for the real kubelet: every container that is started runs at once, until it
is stopped.

    python -m tests.support.container_runtime SOCKET FOLDER

It speaks the CRI (k8s.io/cri-api, runtime/v1) without its messages: a request is taken apart into its fields, and what
an answer shows of it, such as names and labels, is handed back as it came. FOLDER: where images would lie.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.server import Method, listening
from mooring.wire.grpc.socket_file import make_room
from tests.support.programs import Program
from tests.support.protobuf import chunk
from tests.support.protobuf import number as digits
from tests.support.waiting import eventually

READY, NOT_READY = 0, 1
CREATED, RUNNING, EXITED = 0, 1, 2
IMAGE = b"sha256:none"

Fields = Mapping[int, list[bytes]]


def parse(message: bytes) -> Fields:
    """The fields of bytes, by number; numbers are given as their digits."""
    found: dict[int, list[bytes]] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        if key & 7 == 2:
            found.setdefault(key >> 3, []).append(message[at : at + value])
            at += value
        else:
            assert key & 7 == 0, f"wire type {key & 7}"
            found.setdefault(key >> 3, []).append(str(value).encode())
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(*fields: tuple[int, bytes | int | list[bytes]]) -> bytes:
    """A message of these fields: bytes, a number, or a list of bytes for a repeated one."""
    return b"".join(_field(at, value) for at, value in fields)


def _field(at: int, value: bytes | int | list[bytes]) -> bytes:
    if isinstance(value, int):
        return digits(at, value)
    return b"".join(chunk(at, item) for item in (value if isinstance(value, list) else [value]))


def first(fields: Fields, at: int) -> bytes:
    return fields.get(at, [b""])[0]


@dataclasses.dataclass
class Sandbox:
    """metadata, labels, annotations: as the kubelet sent them."""

    id: bytes
    metadata: bytes
    labels: list[bytes]
    annotations: list[bytes]
    state: int = READY
    made_at: int = dataclasses.field(default_factory=time.time_ns)


@dataclasses.dataclass
class Container(Sandbox):
    sandbox: bytes = b""
    image: bytes = b""
    state: int = CREATED
    started_at: int = 0
    ended_at: int = 0


class ContainerRuntime:
    """Both services. Each method answers a request's fields with a message."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder).encode()
        self._sandboxes: dict[bytes, Sandbox] = {}
        self._containers: dict[bytes, Container] = {}
        self._ids = itertools.count(1)

    def _id(self) -> bytes:
        return f"{next(self._ids):064x}".encode()

    def methods(self) -> dict[str, Method]:
        """For a server."""
        own = {name: getattr(self, name) for name in dir(self) if name[0].isupper()}
        services = ("RuntimeService", "ImageService")
        return {
            f"/runtime.v1.{service}/{name}": _method(answer) for service in services for name, answer in own.items()
        }

    # -- the runtime

    def Version(self, _: Fields) -> bytes:
        return message((1, b"0.1.0"), (2, b"none"), (3, b"1.0.0"), (4, b"v1"))

    def Status(self, _: Fields) -> bytes:
        return message((1, message((1, [message((1, name), (2, 1)) for name in (b"RuntimeReady", b"NetworkReady")]))))

    def RuntimeConfig(self, _: Fields) -> bytes:
        return message((1, message((1, 1))))

    def UpdateRuntimeConfig(self, _: Fields) -> bytes:
        return b""

    ListPodSandboxStats = ListContainerStats = UpdateRuntimeConfig

    # -- sandboxes

    def RunPodSandbox(self, request: Fields) -> bytes:
        config = parse(first(request, 1))
        made = Sandbox(self._id(), first(config, 1), config.get(6, []), config.get(7, []))
        self._sandboxes[made.id] = made
        return message((1, made.id))

    def StopPodSandbox(self, request: Fields) -> bytes:
        if (sandbox := self._sandboxes.get(first(request, 1))) is not None:
            sandbox.state = NOT_READY
            for container in self._of(sandbox.id):
                _end(container)
        return b""

    def RemovePodSandbox(self, request: Fields) -> bytes:
        self._sandboxes.pop(first(request, 1), None)
        for container in self._of(first(request, 1)):
            del self._containers[container.id]
        return b""

    def PodSandboxStatus(self, request: Fields) -> bytes:
        one = self._sandboxes[first(request, 1)]
        address = message((1, b"127.0.0.1"))
        shown = (
            (1, one.id),
            (2, one.metadata),
            (3, one.state),
            (4, one.made_at),
            (5, address),
            (7, one.labels),
            (8, one.annotations),
        )
        return message((1, message(*shown)))

    def ListPodSandbox(self, request: Fields) -> bytes:
        wanted = parse(first(request, 1))
        found = [one for one in self._sandboxes.values() if _fits(one, wanted, labels_at=3)]
        return message(
            (
                1,
                [
                    message((1, o.id), (2, o.metadata), (3, o.state), (4, o.made_at), (5, o.labels), (6, o.annotations))
                    for o in found
                ],
            )
        )

    # -- containers

    def CreateContainer(self, request: Fields) -> bytes:
        config = parse(first(request, 2))
        made = Container(
            self._id(),
            first(config, 1),
            config.get(9, []),
            config.get(10, []),
            sandbox=first(request, 1),
            image=first(config, 2),
        )
        self._containers[made.id] = made
        return message((1, made.id))

    def StartContainer(self, request: Fields) -> bytes:
        container = self._containers[first(request, 1)]
        container.state, container.started_at = RUNNING, time.time_ns()
        return b""

    def StopContainer(self, request: Fields) -> bytes:
        if (container := self._containers.get(first(request, 1))) is not None:
            _end(container)
        return b""

    def RemoveContainer(self, request: Fields) -> bytes:
        self._containers.pop(first(request, 1), None)
        return b""

    def ContainerStatus(self, request: Fields) -> bytes:
        one = self._containers[first(request, 1)]
        times = ((4, one.made_at), (5, one.started_at), (6, one.ended_at))
        shown = (
            (1, one.id),
            (2, one.metadata),
            (3, one.state),
            *times,
            (8, one.image),
            (9, IMAGE),
            (12, one.labels),
            (13, one.annotations),
        )
        return message((1, message(*shown, (17, IMAGE))))

    def ListContainers(self, request: Fields) -> bytes:
        wanted = parse(first(request, 1))
        found = [
            one
            for one in self._containers.values()
            if _fits(one, wanted, labels_at=4) and wanted.get(3, [one.sandbox]) == [one.sandbox]
        ]
        return message((1, [self._listed(one) for one in found]))

    def _listed(self, one: Container) -> bytes:
        made = ((1, one.id), (2, one.sandbox), (3, one.metadata), (4, one.image), (5, IMAGE))
        return message(*made, (6, one.state), (7, one.made_at), (8, one.labels), (9, one.annotations), (10, IMAGE))

    def _of(self, sandbox: bytes) -> list[Container]:
        return [container for container in self._containers.values() if container.sandbox == sandbox]

    # -- images

    def ListImages(self, _: Fields) -> bytes:
        return message((1, _image(b"none:latest")))

    def ImageStatus(self, request: Fields) -> bytes:
        return message((1, _image(first(parse(first(request, 1)), 1))))

    def PullImage(self, _: Fields) -> bytes:
        return message((1, IMAGE))

    def ImageFsInfo(self, _: Fields) -> bytes:
        one = message((1, 1))
        usage = message((1, time.time_ns()), (2, message((1, self._folder))), (3, one), (4, one))
        return message((1, usage), (2, usage))


def _image(name: bytes) -> bytes:
    return message((1, IMAGE), (2, name), (4, 1), (7, message((1, name))))


def _end(container: Container) -> None:
    if container.state != EXITED:
        container.state, container.ended_at = EXITED, time.time_ns()


def _fits(one: Sandbox, wanted: Fields, labels_at: int) -> bool:
    if first(wanted, 1) not in (b"", one.id):
        return False
    if 2 in wanted and int(first(parse(first(wanted, 2)), 1) or b"0") != one.state:
        return False
    return all(label in one.labels for label in wanted.get(labels_at, []))


def _method(answer: Callable[[Fields], bytes]) -> Method:
    async def method(request: bytes) -> bytes:
        try:
            return answer(parse(request))
        except KeyError as missing:
            raise DriverError(Code.NOT_FOUND, f"no {missing}") from None

    return method


# -- the program


async def _serve(socket: Path, folder: Path) -> None:
    make_room(socket)
    async with listening(ContainerRuntime(folder).methods(), socket, grace_s=0):
        await asyncio.get_running_loop().create_future()


def start(socket: Path, folder: Path) -> Program:
    """The runtime as a program, which outlives any kubelet; it answers."""
    program = Program([sys.executable, "-m", "tests.support.container_runtime", socket, folder], folder / "runtime.log")
    eventually(socket.exists, 30, "the runtime serves")
    return program


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
