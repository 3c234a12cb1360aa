"""The base class of CSI drivers.

    class MyDriver(Plugin):
        name = "my.example.com"
        vendor_version = "1.0"

        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse: ...
        async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse: ...

What the driver advertises follows from the methods it overrides; a call it does not advertise is Unimplemented. Before a method
runs, the request has passed CSI's rules, and no other changing call for the same volume (name, snapshot) is running. A method
answers with a response or raises `DriverError(code, message)`; anything else becomes Internal, with a traceback in the log.
A caller that gives up cancels the method. Serve a driver with `driver.server.serving`, or call it through `csi.in_process`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Final, NoReturn, Self

from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BoolValue

from mooring.base.clock import Clock
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import METHODS, controller_capabilities, missing_partners, plugin_capabilities
from mooring.driver.checks import Advertised
from mooring.driver.guard import Guard, Observer

_CLOSE: Final = 0.85
"""difflib's ratio. `list_volume` and `create_vol` are as close, `clone_volume` is not."""


def _squeezed(name: str) -> str:
    """The same for `ListVolumes`, `listVolumes` and `list_volumes`."""
    return name.replace("_", "").lower()


_CALLS: Final[Mapping[str, str]] = {_squeezed(name): name for name in RPCS}
_SHORT: Final[Mapping[str, str]] = {_squeezed(name.removeprefix("controller_")): name for name in RPCS if name.startswith("controller_")}


def slip(driver: type, base: type) -> str | None:
    """The problem of the methods that a driver's class adds to its base class, None for none."""
    return next(_slips(driver, base), None)


def _slips(driver: type, base: type) -> Iterator[str]:
    own = (name for name in dir(driver) if not name.startswith("_"))
    for name, value in ((name, getattr(driver, name, None)) for name in own):
        if value is getattr(base, name, None):
            continue
        if name in RPCS and not _is_coroutine(value):
            yield f"{driver.__name__}.{name} must be a coroutine: async def {name}(self, request), without yield"
        elif name not in RPCS and (meant := _meant(name, value)):
            yield f"{driver.__name__}.{name} is no call of CSI: did you mean {meant}? (the name of a helper begins with _)"


def _meant(name: str, value: Any) -> str | None:
    """The call whose name was meant. A plain function is taken for one only where capitals and underscores alone differ."""
    squeezed = _squeezed(name)
    if not inspect.isroutine(value):
        return None
    if squeezed in _CALLS or not _is_coroutine(value):
        return _CALLS.get(squeezed)
    if any(name.startswith(f"{call}_") for call in RPCS):  # create_volume_folder: a step of that call
        return None
    close = difflib.get_close_matches(squeezed, _CALLS, n=1, cutoff=_CLOSE)
    return _SHORT.get(squeezed) or (_CALLS[close[0]] if close else None)


def _is_coroutine(value: Any) -> bool:
    """True for a coroutine function, also behind decorators that say what they wrap (functools.wraps)."""
    return callable(value) and inspect.iscoroutinefunction(inspect.unwrap(value))


__all__ = ["Code", "DriverError", "Plugin"]


class Plugin:
    """A CSI driver: override what it can do.

    name: in domain form. controller_flags, plugin_flags, volume_expansion: capability numbers that no method shows, such as
    PUBLISH_READONLY, VOLUME_ACCESSIBILITY_CONSTRAINTS and ONLINE. withheld: methods (`controller_publish_volume`) that this driver
    has but does not offer. All of them stay as they are once the driver is served.
    """

    name: str = ""
    vendor_version: str = ""
    controller_flags: Collection[int] = ()
    plugin_flags: Collection[int] = ()
    volume_expansion: Collection[int] = ()
    withheld: Collection[str] = ()

    _guard: Guard
    _defaults: ClassVar[frozenset[str]] = frozenset({"get_plugin_info", "get_plugin_capabilities", "probe", "controller_get_capabilities"})

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Puts the guard before each method of the new object, so that no call bypasses the rules.

        The guard sits on the object, not on the class: `super().create_volume(request)` in a driver built on another reaches the
        bare method. Raises TypeError for a driver that overrides half of a pair, or whose methods can't be RPC methods.
        """
        if fault := slip(cls, Plugin):
            raise TypeError(fault)
        absent = missing_partners(cls._overridden())
        if absent:
            raise TypeError(f"{cls.__name__} must override {' and '.join(absent)} too: CSI has one capability for both")
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
        return controller_capabilities(self.offered, self.controller_flags)

    @functools.cached_property
    def plugin_capabilities(self) -> frozenset[int]:
        """The services of GetPluginCapabilities, as numbers."""
        return plugin_capabilities(self.offered, self.plugin_flags)

    def observe(self, observer: Observer, clock: Clock) -> None:
        """Calls the observer after each call, without secrets. clock: for the calls' times."""
        self._guard.observe(observer, clock)

    async def _guarded(self, rpc: Rpc[Any, Any], method: Any, request: Message) -> Message:
        answers = rpc.attribute in self.offered or (rpc.attribute in self._defaults and self._has(rpc.service))
        advertised = Advertised(self.controller_capabilities, self.plugin_capabilities)
        return await self._guard.call(rpc, method if answers else None, advertised, request)

    def _has(self, service: str) -> bool:
        return service == "Identity" or csi.PluginCapability.Service.CONTROLLER_SERVICE in self.plugin_capabilities

    # Identity

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version=self.vendor_version)

    async def get_plugin_capabilities(self, request: csi.GetPluginCapabilitiesRequest) -> csi.GetPluginCapabilitiesResponse:
        services = [csi.PluginCapability(service={"type": number}) for number in sorted(self.plugin_capabilities)]
        expansion = [csi.PluginCapability(volume_expansion={"type": number}) for number in sorted(self.volume_expansion)]
        return csi.GetPluginCapabilitiesResponse(capabilities=services + expansion)

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        """Ready at once; override it to say otherwise."""
        return csi.ProbeResponse(ready=BoolValue(value=True))

    # Controller

    async def controller_get_capabilities(self, request: csi.ControllerGetCapabilitiesRequest) -> csi.ControllerGetCapabilitiesResponse:
        capabilities = [csi.ControllerServiceCapability(rpc={"type": number}) for number in sorted(self.controller_capabilities)]
        return csi.ControllerGetCapabilitiesResponse(capabilities=capabilities)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        _absent()

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        _absent()

    async def controller_publish_volume(self, request: csi.ControllerPublishVolumeRequest) -> csi.ControllerPublishVolumeResponse:
        _absent()

    async def controller_unpublish_volume(self, request: csi.ControllerUnpublishVolumeRequest) -> csi.ControllerUnpublishVolumeResponse:
        _absent()

    async def validate_volume_capabilities(self, request: csi.ValidateVolumeCapabilitiesRequest) -> csi.ValidateVolumeCapabilitiesResponse:
        _absent()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        _absent()

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        _absent()

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        _absent()

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        _absent()

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        _absent()

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        _absent()

    async def controller_expand_volume(self, request: csi.ControllerExpandVolumeRequest) -> csi.ControllerExpandVolumeResponse:
        _absent()

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        _absent()

    async def controller_modify_volume(self, request: csi.ControllerModifyVolumeRequest) -> csi.ControllerModifyVolumeResponse:
        _absent()


def _absent() -> NoReturn:
    raise DriverError(Code.UNIMPLEMENTED, "the driver does not override this call")
