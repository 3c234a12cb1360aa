"""The faults that a test may ask for: of the driver's calls, and of the API server as the plane's programs see it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.testing.api_faults import ApiFaults, Requests
from mooring.testing.driver_calls import LOST, CallFault, DriverCalls
from mooring.wire.grpc.codes import Code


class Faults:
    """Each method returns the faults, so that several can be asked for in one line.

    rpc: a call's name, as in CreateVolume. on: the node whose calls are meant, "" for the controller's, None for all. times: how many
    calls are struck, from the next one on. of: a program's name, as in provisioner, or a node's. verb, resource: as rights name them, as in
    create and persistentvolumes; None for any.
    """

    def __init__(self, calls: DriverCalls, api: ApiFaults, run: Callable[[Coroutine[Any, Any, None], str], None]) -> None:
        self._calls, self._api, self._run = calls, api, run

    def lose_answer(self, rpc: str, *, on: str | None = None, times: int = 1) -> Self:
        """The call takes effect, and its caller never learns it: Unavailable."""
        return self._strike(rpc, DriverError(Code.UNAVAILABLE, LOST), after=True, on=on, times=times)

    def fail(
        self, rpc: str, code: str | int = "UNAVAILABLE", text: str = "", *, after: bool = False, on: str | None = None, times: int = 1
    ) -> Self:
        """The call fails with a code of gRPC's, by its number or name. after: it takes effect all the same. Raises ConfigError."""
        return self._strike(rpc, DriverError(_code(code), text or "as the test says"), after=after, on=on, times=times)

    def hang(self, rpc: str, *, after: bool = False, on: str | None = None, times: int = 1) -> Self:
        """The caller waits until its own deadline. after: the call takes effect all the same."""
        return self._strike(rpc, None, after=after, on=on, times=times)

    def slow(self, seconds: float, rpc: str = "", *, on: str | None = None, times: int = 0) -> Self:
        """The call takes effect at once, and its answer comes so late; never, where its caller has less patience. rpc: "" for each call.
        times: 0 for always.
        """
        self._calls.add(CallFault(rpc, None, True, on, times, late_s=seconds))
        return self

    def during(
        self,
        rpc: str,
        work: Callable[[str], Coroutine[Any, Any, Any]],
        *,
        code: str | int | None = None,
        answers: bool = False,
        on: str | None = None,
        times: int = 1,
    ) -> Self:
        """Does the work once the call has taken effect, while its caller waits. work: gets the name of the node that was called, "" for the
        controller. code: the caller's error; without one it waits until its deadline, unless it gets the driver's answer (answers).
        Raises ConfigError.
        """

        async def done(where: str) -> None:
            await work(where)

        def then(where: str) -> None:
            self._run(done(where), f"a fault in {rpc}")

        error = DriverError(_code(code), "as the test says") if code is not None else None
        self._calls.add(CallFault(rpc, error, True, on, times, then, 0.0 if answers else None))
        return self

    def lose_first_api_answers(self) -> Self:
        """Of each program's writes of each kind, the API server's first answer is lost."""
        self._api.loses_first = True
        return self

    def lose_api_answer(self, verb: str | None = None, resource: str | None = None, *, of: str | None = None, times: int = 1) -> Self:
        """The API server carries the request out, and the connection breaks before its answer."""
        self._api.lost.append((Requests(of, verb, resource), times))
        return self

    def forbid(self, verb: str | None = None, resource: str | None = None, *, of: str | None = None) -> Self:
        """The program lacks a right, until `allow`."""
        self._api.forbidden.append(Requests(of, verb, resource))
        return self

    def allow(self, verb: str | None = None, resource: str | None = None, *, of: str | None = None) -> Self:
        """Gives back what `forbid` has taken in the same words. Raises ConfigError for what is not forbidden."""
        try:
            self._api.forbidden.remove(Requests(of, verb, resource))
        except ValueError:
            raise ConfigError("that was not forbidden in these words") from None
        return self

    def api_server_goes(self) -> Self:
        """No program of the plane reaches the API server until it returns; the test itself still does."""
        self._api.is_away = True
        return self

    def api_server_returns(self) -> Self:
        self._api.is_away = False
        return self

    def clear(self) -> Self:
        """No fault is left."""
        self._calls.clear()
        self._api.clear()
        return self

    def _strike(self, rpc: str, error: DriverError | None, *, after: bool, on: str | None, times: int) -> Self:
        self._calls.add(CallFault(rpc, error, after, on, times))
        return self


def _code(code: str | int) -> Code:
    """Raises ConfigError."""
    try:
        return Code[code.upper()] if isinstance(code, str) else Code(code)
    except (KeyError, ValueError):
        raise ConfigError(f"gRPC has no code {code!r}: it has {', '.join(one.name for one in Code)}") from None
