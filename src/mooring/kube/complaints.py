"""An error that repeats is logged once, until its text changes or all is well again."""

from __future__ import annotations

from mooring.base.log import Logger


class Complaints:
    """over: logged at level 0 when all is well again, "" for nothing."""

    def __init__(self, log: Logger, over: str = "") -> None:
        self._log = log
        self._over = over
        self._last = ""

    def about(self, message: str, error: Exception) -> None:
        """Logs at error level, unless this was the last that was logged."""
        text = f"{message}: {error}"
        if text != self._last:
            self._last = text
            self._log.error(message, error=error)

    def end(self) -> None:
        """All is well."""
        if self._last:
            self._last = ""
            if self._over:
                self._log.info(0, self._over)
