"""The driver of a program with a recorder beside it. Alone, for it needs protobuf, 3 MiB that a program without a driver has no use for."""

from __future__ import annotations

from mooring.control.flight.recorder import Recorder
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.redact import redacted, without_secrets


class RecordedDriver(Driver):
    def __init__(self, driver: Driver, recorder: Recorder) -> None:
        self._driver, self._recorder = driver, recorder
        recorder.redacted = redacted

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        recorder = self._recorder
        number = recorder.asks(rpc.attribute)
        try:
            answer = await self._driver.invoke(rpc, request, call)
        except DriverError as error:
            recorder.called(number, rpc.attribute, without_secrets(request), None, error)
            raise
        except BaseException:
            recorder.gave_up(number)
            raise
        recorder.called(number, rpc.attribute, without_secrets(request), without_secrets(answer), None)
        return answer
