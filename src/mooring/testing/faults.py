"""The faults that a test may ask for: of the driver's calls, and of the API server as the plane's programs see it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

import msgspec

from mooring.api.meta import Kind
from mooring.apiserver.local import ServerFaults
from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError, Forbidden, Unreachable
from mooring.testing.driver_calls import LOST, CallFault, DriverCalls
from mooring.wire.grpc.codes import Code

WRITES: Final = ("create", "patch", "replace", "delete")
_BROKEN: Final = "read tcp 127.0.0.1:6443: connection reset by peer"


class Faults:
    """Each method returns the faults, so that several can be asked for in one line.

    rpc: a call's name, as in CreateVolume. on: the node whose calls are meant, "" for the controller's, None for all.
    times: how many calls are struck, from the next one on. of: a program's name, as in provisioner, or a node's. verb,
    resource: as rights name them, as in create and persistentvolumes; None for any.
    """

    def __init__(
        self, calls: DriverCalls, api: ApiFaults, run: Callable[[Coroutine[Any, Any, None], str], None]
    ) -> None:
        self._calls, self._api, self._run = calls, api, run

    def lose_answer(self, rpc: str, *, on: str | None = None, times: int = 1) -> Self:
        """The call takes effect, and its caller never learns it: Unavailable."""
        return self._strike(rpc, DriverError(Code.UNAVAILABLE, LOST), after=True, on=on, times=times)

    def fail(
        self,
        rpc: str,
        code: str | int = "UNAVAILABLE",
        text: str = "",
        *,
        after: bool = False,
        on: str | None = None,
        times: int = 1,
    ) -> Self:
        """The call fails with a code of gRPC's, by its number or name. after: it takes effect all the same. Raises
        ConfigError.
        """
        return self._strike(rpc, DriverError(_code(code), text or "as the test says"), after=after, on=on, times=times)

    def hang(self, rpc: str, *, after: bool = False, on: str | None = None, times: int = 1) -> Self:
        """The caller waits until its own deadline. after: the call takes effect all the same."""
        return self._strike(rpc, None, after=after, on=on, times=times)

    def slow(self, seconds: float, rpc: str = "", *, on: str | None = None, times: int = 0) -> Self:
        """The call takes effect at once, and its answer comes so late; never, where its caller has less patience. rpc:
        "" for each call. times: 0 for always.
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
        """Does the work once the call has taken effect, while its caller waits. work: gets the name of the node that
        was called, "" for the controller. code: the caller's error; without one it waits until its deadline, unless it
        gets the driver's answer (answers). Raises ConfigError.
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

    def lose_api_answer(
        self, verb: str | None = None, resource: str | None = None, *, of: str | None = None, times: int = 1
    ) -> Self:
        """The API server carries the request out, and the connection breaks before its answer."""
        self._api.lost.append((_Requests(of, verb, resource), times))
        return self

    def forbid(self, verb: str | None = None, resource: str | None = None, *, of: str | None = None) -> Self:
        """The program lacks a right, until `allow`."""
        self._api.forbidden.append(_Requests(of, verb, resource))
        return self

    def allow(self, verb: str | None = None, resource: str | None = None, *, of: str | None = None) -> Self:
        """Gives back what `forbid` has taken in the same words. Raises ConfigError for what is not forbidden."""
        try:
            self._api.forbidden.remove(_Requests(of, verb, resource))
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


class _Requests(msgspec.Struct, frozen=True):
    """Some of a program's requests. who, verb, plural: None for any. verb: create, patch, replace, delete, get, list,
    watch.
    """

    who: str | None
    verb: str | None
    plural: str | None

    def means(self, who: str, verb: str, plural: str) -> bool:
        return self.who in (None, who) and self.verb in (None, verb) and self.plural in (None, plural)


class ApiFaults:
    """Of a whole plane."""

    def __init__(self) -> None:
        self.is_away = False
        self.forbidden: list[_Requests] = []
        self.lost: list[tuple[_Requests, int]] = []
        """Requests whose answers are lost, and how many still are."""
        self.loses_first = False
        """Of each program's writes of each kind, the first answer is lost."""
        self._lost_once: set[tuple[str, str, str]] = set()

    def of(self, who: str) -> ServerFaults:
        """For the requests of one program."""
        return _Line(self, who)

    def refusal(self, who: str, verb: str, kind: Kind[Any], name: str) -> ApiError | None:
        """Why a request does not reach the server, None where it does."""
        if self.is_away:
            return Unreachable("dial tcp 127.0.0.1:6443: connect: connection refused")
        if any(one.means(who, verb, kind.plural) for one in self.forbidden):
            said = "update" if verb == "replace" else verb
            subject = f'"{name}" ' if name else ""
            text = (
                f'{kind.resource} {subject}is forbidden: User "{who}" cannot {said} resource "{kind.plural}" in '
                f'API group "{kind.group}"'
            )
            return Forbidden(text, reason="Forbidden")
        return None

    def loss(self, who: str, verb: str, kind: Kind[Any]) -> ApiError | None:
        """The error in place of an answer, None where it arrives."""
        if self.loses_first and verb in WRITES and (who, verb, kind.plural) not in self._lost_once:
            self._lost_once.add((who, verb, kind.plural))
            return Unreachable(_BROKEN)
        for place, (requests, times) in enumerate(self.lost):
            if requests.means(who, verb, kind.plural):
                if times > 1:
                    self.lost[place] = (requests, times - 1)
                else:
                    del self.lost[place]
                return Unreachable(_BROKEN)
        return None

    def clear(self) -> None:
        self.is_away = self.loses_first = False
        self.forbidden.clear()
        self.lost.clear()


class _Line(ServerFaults):
    def __init__(self, faults: ApiFaults, who: str) -> None:
        self._faults, self._who = faults, who

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (refusal := self._faults.refusal(self._who, verb, kind, name)) is not None:
            raise refusal

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (loss := self._faults.loss(self._who, verb, kind)) is not None:
            raise loss
