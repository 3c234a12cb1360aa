"""The base class of CSI drivers.

    class MyDriver(Plugin):
        name = "my.example.com"
        vendor_version = "1.0"

        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse: ...
        async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse: ...
        async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse: ...
        async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) ->
        csi.NodeUnpublishVolumeResponse: ...

The services and capabilities that the driver advertises follow from the methods it overrides; a call it does not
advertise is Unimplemented. Before a method runs, the request has passed CSI's rules, and no other changing call for the
same volume (name, snapshot) is running. A method answers with a response or raises `DriverError(code, message)`;
anything else becomes Internal, with a traceback in the log. A caller that gives up cancels the method. Serve a driver
with `driver.server.serving`, or call it through `csi.in_process`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BoolValue

from mooring.base.clock import Clock
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import (
    CONTROLLER,
    GROUP_CONTROLLER,
    METHODS,
    NODE,
    missing_partners,
    plugin_capabilities,
    serves,
)
from mooring.driver.checks import Advertised
from mooring.driver.guard import Guard, Observer, patiently
from mooring.driver.services import Services
from mooring.wire.grpc.codes import Code

_TOPOLOGY = csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS

_CLOSE: Final = 0.85
"""difflib's ratio. `list_volume` and `create_vol` are as close, `clone_volume` is not."""

__all__ = ["Code", "DriverError", "Plugin"]


class Plugin(Services):
    """A CSI driver: override what it can do.

    name: in domain form. controller_flags, node_flags, plugin_flags, volume_expansion: capability numbers that no
    method shows, such as PUBLISH_READONLY, VOLUME_MOUNT_GROUP, VOLUME_ACCESSIBILITY_CONSTRAINTS and ONLINE. node_id,
    node_volumes_max, node_segments: what NodeGetInfo answers unless it is overridden: the node's id to the driver, the
    volumes it can have (0: no limit is known), its topology. withheld: methods (`controller_publish_volume`) that this
    driver has but does not offer. patience_s: how long a call may take whose caller gave no deadline. refuses_oversize:
    strings and maps longer than CSI allows, which are told in the log else: a kubelet sends Secrets and tokens of any
    size. All of them stay as they are once the driver is served.
    """

    name: str = ""
    vendor_version: str = ""
    controller_flags: Collection[int] = ()
    node_flags: Collection[int] = ()
    plugin_flags: Collection[int] = ()
    volume_expansion: Collection[int] = ()
    node_id: str = ""
    node_volumes_max: int = 0
    node_segments: Any = MappingProxyType({})
    """A mapping, or a property or method that gives one. Any, since a type checker lets nobody override an attribute
    by these.
    """
    withheld: Collection[str] = ()
    patience_s: float | None = 600.0
    refuses_oversize: bool = False

    _guard: Guard
    _defaults: ClassVar[frozenset[str]] = frozenset(METHODS.keys() - vars(Services).keys())

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Puts the guard before each method of the new object, so that no call bypasses the rules.

        The guard sits on the object, not on the class: `super().create_volume(request)` in a driver built on another
        reaches the bare method. Raises TypeError for a driver that overrides half of a pair, or whose methods can't be
        RPC methods.
        """
        if fault := _class_fault(cls, Plugin):
            raise TypeError(fault)
        absent = missing_partners(cls._overridden())
        if absent:
            raise TypeError(
                f"{cls.__name__} must override {' and '.join(absent)} too: CSI has them together or not at all"
            )
        self = super().__new__(cls)
        self._guard = Guard()
        for rpc in METHODS.values():
            setattr(self, rpc.attribute, functools.partial(self._guarded, rpc, getattr(self, rpc.attribute)))
        return self

    @classmethod
    def _overridden(cls) -> frozenset[str]:
        return frozenset(name for name in METHODS if getattr(cls, name) is not getattr(Plugin, name))

    @functools.cached_property
    def offered(self) -> frozenset[str]:
        """The methods that this driver offers beyond those that the base class answers."""
        unknown = set(self.withheld) - METHODS.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__}.withheld: {sorted(unknown)[0]!r} is no method of a driver")
        return self._overridden() - set(self.withheld)

    @functools.cached_property
    def controller_capabilities(self) -> frozenset[int]:
        """The response of ControllerGetCapabilities, as numbers. Raises TypeError for flags that make no sense."""
        return CONTROLLER.derived(self.offered, self.controller_flags)

    @functools.cached_property
    def group_controller_capabilities(self) -> frozenset[int]:
        """The response of GroupControllerGetCapabilities, as numbers."""
        return GROUP_CONTROLLER.derived(self.offered, ())

    @functools.cached_property
    def node_capabilities(self) -> frozenset[int]:
        """The response of NodeGetCapabilities, as numbers. Raises TypeError for flags that make no sense."""
        return NODE.derived(self.offered, self.node_flags)

    @functools.cached_property
    def plugin_capabilities(self) -> frozenset[int]:
        """The services of GetPluginCapabilities, as numbers."""
        return plugin_capabilities(self.offered, self.plugin_flags)

    def observe(self, observer: Observer, clock: Clock) -> None:
        """Calls the observer after each call, without secrets. clock: for the calls' times."""
        self._guard.observe(observer, clock)

    async def _guarded(self, rpc: Rpc[Any, Any], method: Any, request: Message) -> Message:
        answers = rpc.attribute in self.offered or (rpc.attribute in self._defaults and self.serves(rpc.service))
        advertised = Advertised(
            self.controller_capabilities, self.plugin_capabilities, self.node_capabilities, self.refuses_oversize
        )
        patient = functools.partial(patiently, rpc, method, self.patience_s) if answers else None
        return await self._guard.call(rpc, patient, advertised, request)

    def serves(self, service: str) -> bool:
        """True for the services that the driver offers: Identity always, the others where it offers a method of
        theirs.
        """
        return service == "Identity" or serves(self.offered, service)

    # Identity

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version=self.vendor_version)

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        services = [csi.PluginCapability(service={"type": number}) for number in sorted(self.plugin_capabilities)]
        expansion = [
            csi.PluginCapability(volume_expansion={"type": number}) for number in sorted(self.volume_expansion)
        ]
        return csi.GetPluginCapabilitiesResponse(capabilities=services + expansion)

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        """Ready at once; override it to say otherwise."""
        return csi.ProbeResponse(ready=BoolValue(value=True))

    # The capabilities of the other services, and the node

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        capabilities = [
            csi.ControllerServiceCapability(rpc={"type": number}) for number in sorted(self.controller_capabilities)
        ]
        return csi.ControllerGetCapabilitiesResponse(capabilities=capabilities)

    async def group_controller_get_capabilities(
        self, request: csi.GroupControllerGetCapabilitiesRequest
    ) -> csi.GroupControllerGetCapabilitiesResponse:
        capabilities = [
            csi.GroupControllerServiceCapability(rpc={"type": number})
            for number in sorted(self.group_controller_capabilities)
        ]
        return csi.GroupControllerGetCapabilitiesResponse(capabilities=capabilities)

    async def node_get_capabilities(self, request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        capabilities = [csi.NodeServiceCapability(rpc={"type": number}) for number in sorted(self.node_capabilities)]
        return csi.NodeGetCapabilitiesResponse(capabilities=capabilities)

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        """The node as the attributes describe it; override it where they change."""
        if fault := segments_fault(self.node_segments, self.plugin_capabilities):
            raise DriverError(Code.INTERNAL, f"{type(self).__name__}.node_segments {fault}")
        found = _segments_of(self.node_segments)
        topology = csi.Topology(segments=found) if found else None
        return csi.NodeGetInfoResponse(
            node_id=self.node_id, max_volumes_per_node=self.node_volumes_max, accessible_topology=topology
        )


def _squeezed(name: str) -> str:
    """The same for `ListVolumes`, `listVolumes` and `list_volumes`."""
    return name.replace("_", "").lower()


_CALLS: Final[Mapping[str, str]] = {_squeezed(name): name for name in RPCS}


def _short() -> Iterator[tuple[str, str]]:
    """Shorter names of calls: without `controller_` or `node_` (the controller's where both have one), or without
    `volume`.
    """
    for prefix in ("node_", "controller_"):
        for name in RPCS:
            if name.startswith(prefix):
                yield _squeezed(name.removeprefix(prefix)), name
                yield _squeezed(name).replace("volume", ""), name


_SHORT: Final[Mapping[str, str]] = {short: name for short, name in _short() if short not in _CALLS}


def _class_fault(driver: type, base: type) -> str | None:
    """The problem of the methods that a driver's class adds to its base class, None for none."""
    return next(_faults(driver, base), None)


def _faults(driver: type, base: type) -> Iterator[str]:
    own = (name for name in dir(driver) if not name.startswith("_"))
    for name, value in ((name, getattr(driver, name, None)) for name in own):
        if value is getattr(base, name, None):
            continue
        if name in RPCS and not _is_coroutine(value):
            yield f"{driver.__name__}.{name} must be a coroutine: async def {name}(self, request), without yield"
        elif name not in RPCS and (meant := _meant(name, value)):
            yield (
                f"{driver.__name__}.{name} is no call of CSI: did you mean {meant}? (the name of a helper begins "
                "with _)"
            )


def _meant(name: str, value: Any) -> str | None:
    """The call whose name was meant. A plain function is taken for one only where capitals and underscores alone
    differ.
    """
    squeezed = _squeezed(name)
    if not inspect.isroutine(value):
        return None
    if squeezed in _CALLS or not _is_coroutine(value):
        return _CALLS.get(squeezed)
    close = difflib.get_close_matches(squeezed, _CALLS, n=1, cutoff=_CLOSE)
    meant = _SHORT.get(squeezed) or (_CALLS[close[0]] if close else None)
    return None if meant and name.startswith(f"{meant}_") else meant  # create_volume_dir: a step of that call


def _is_coroutine(value: Any) -> bool:
    """True for a coroutine function, also behind decorators that say what they wrap (functools.wraps)."""
    return callable(value) and inspect.iscoroutinefunction(inspect.unwrap(value))


def _segments_of(given: Any) -> Any:
    """The value of `node_segments`, whatever that is. given: the attribute of a driver; a method is called."""
    return given() if callable(given) else given


def segments_fault(given: Any, capabilities: Collection[int]) -> str:
    """Why the segments are no topology, "" where they are. capabilities: of the plugin; without topology there, none
    will do.
    """
    if inspect.iscoroutinefunction(given):
        return "is `async def`: make it a plain one, or override node_get_info"
    found = _segments_of(given)
    if not isinstance(found, Mapping) or not all(isinstance(word, str) for pair in found.items() for word in pair):
        return f"gives {found!r}: give texts by their keys, as in {{'example.com/zone': 'a'}}"
    if absent := [key for key, value in found.items() if not key or not value]:
        return (
            f"has no value for {absent[0]!r}: make it a property where it depends on node_id, which may come after "
            "__init__"
        )
    if not found and _TOPOLOGY in capabilities:
        return (
            "is empty, and plugin_flags announce VOLUME_ACCESSIBILITY_CONSTRAINTS: say where the node is, or drop "
            "the flag"
        )
    return ""
