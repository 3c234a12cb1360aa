"""An error that repeats is logged once, until its text changes or all is well again."""

from __future__ import annotations

from mooring.base.log import Logger


class LogOnce:
    """over: logged at level 0 when all is well again, "" for nothing."""

    def __init__(self, log: Logger, over: str = "") -> None:
        self._log = log
        self._over = over
        self._last = ""

    def error(self, message: str, error: Exception) -> None:
        """Logs at error level, unless this was the last that was logged."""
        if self._is_new(message, error):
            self._log.error(message, error=error)

    def info(self, message: str, error: Exception) -> None:
        """The same for an error that needs no action."""
        if self._is_new(message, error):
            self._log.info(0, message, why=str(error))

    def _is_new(self, message: str, error: Exception) -> bool:
        text, last = f"{message}: {error}", self._last
        self._last = text
        return text != last

    def reset(self) -> None:
        """All is well."""
        if self._last:
            self._last = ""
            if self._over:
                self._log.info(0, self._over)
