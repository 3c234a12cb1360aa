"""The Authorization header, kept fresh: token files change hourly, plugins' credentials expire. `current()` is
synchronous and usual.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from collections.abc import Callable
from typing import Final, Protocol

from mooring.base.clock import Clock, Instant
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.kube.client.config import ExecPlugin, KubeconfigUser, Pem, clean_token, read_file
from mooring.kube.client.exec_plugin import PluginAnswer, run_plugin

_log = logger(__name__)

READ_AGAIN_S: Final = 60.0
"""How long a token file's content is trusted; client-go's period."""

PLUGIN_TIMEOUT_S: Final = 60.0
PLUGIN_PAUSE_S: Final = 5.0
"""A plugin is not run again before this has passed: a server that refuses everything must not start it per request."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Credential:
    """A request's credential. Compared by identity. authorization: the header, "" for none."""

    authorization: str = dataclasses.field(default="", repr=False)


class Credentials(Protocol):
    """A user's credentials over time."""

    def current(self) -> Credential | None:
        """The credential for the next request; None: `fetch` first."""

    async def fetch(self) -> Credential:
        """Gets what `current` did not have. Raises ConfigError."""

    async def refused(self, credential: Credential) -> bool:
        """The server answered 401 to this credential. True when there is another one by now, worth a second try."""

    async def close(self) -> None:
        """Ends what is under way."""


def credentials_of(user: KubeconfigUser, clock: Clock, use_certificate: Callable[[Pem, Pem], None]) -> Credentials:
    """use_certificate: told when a plugin hands out a client certificate; may raise ConfigError."""
    if user.token_file:
        return TokenFile(user.token_file, user.token, clock)
    if user.token:
        return Fixed(f"Bearer {user.token}")
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return Fixed(f"Basic {base64.b64encode(pair).decode()}")
    if user.exec_plugin is not None:
        return CredentialPlugin(user.exec_plugin, clock, use_certificate)
    return Fixed("")


class Fixed:
    def __init__(self, authorization: str) -> None:
        self._credential = Credential(authorization)

    def current(self) -> Credential:
        return self._credential

    async def fetch(self) -> Credential:
        return self._credential

    async def refused(self, _credential: Credential) -> bool:
        return False

    async def close(self) -> None:
        pass


class TokenFile:
    """A bearer token in a file that is replaced now and then. While it can't be read, the last token stays in use."""

    def __init__(self, path: str, fallback: str, clock: Clock) -> None:
        self._path = path
        self._token = fallback
        self._clock = clock
        self._credential: Credential | None = Credential(f"Bearer {fallback}") if fallback else None
        self._read_at: Instant | None = None

    def current(self) -> Credential | None:
        now = self._clock.now()
        if self._read_at is None or now - self._read_at >= READ_AGAIN_S:
            self._read(now)
        return self._credential

    async def fetch(self) -> Credential:
        self._read(self._clock.now())
        if self._credential is None:
            raise ConfigError(f'the token file "{self._path}" holds no token that can be used')
        return self._credential

    async def refused(self, credential: Credential) -> bool:
        if self._credential is credential:
            self._read(self._clock.now())
        return self._credential is not credential

    async def close(self) -> None:
        pass

    def _read(self, now: Instant) -> None:
        """Read the token without leaving the loop: it is a few hundred bytes in memory or on a local disk."""
        self._read_at = now
        try:
            token = clean_token(read_file(self._path, "token file").decode(errors="replace"))
        except ConfigError as error:
            _log.error("The token file can't be read, the last token stays in use", error=error, file=self._path)
            return
        if token is None:
            _log.error("The token file holds no token, the last one stays in use", file=self._path)
        elif token != self._token or self._credential is None:
            self._token, self._credential = token, Credential(f"Bearer {token}")


class CredentialPlugin:
    """Credentials from a program, kept until they expire or are refused; never run twice at a time.

    A run goes on when the request that waits for it gives up, and serves the next one. The election's deadline, for
    one, is shorter than the time that many a plugin takes.
    """

    def __init__(self, plugin: ExecPlugin, clock: Clock, use_certificate: Callable[[Pem, Pem], None]) -> None:
        self._plugin = plugin
        self._clock = clock
        self._use_certificate = use_certificate
        self._credential: Credential | None = None
        self._expires_s: float | None = None
        self._ran_at: Instant | None = None
        self._failure: ConfigError | None = None
        self._running: asyncio.Task[Credential] | None = None

    def current(self) -> Credential | None:
        return None if self._expires_s is not None and self._clock.wall_s() >= self._expires_s else self._credential

    async def fetch(self) -> Credential:
        credential = self.current()
        if credential is not None:
            return credential
        if self._failure is not None and self._running is None and self._pause_s() > 0:
            raise ConfigError(str(self._failure))
        return await self._run()

    async def refused(self, credential: Credential) -> bool:
        if self._credential is credential and (self._running is not None or self._pause_s() == 0):
            try:
                await self._run()
            except ConfigError as error:
                _log.error("The exec plugin failed after its credentials were refused", error=error)
        return self._credential is not credential

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    def _pause_s(self) -> float:
        """Seconds until the plugin may run again."""
        return 0.0 if self._ran_at is None else max(0.0, self._ran_at + PLUGIN_PAUSE_S - self._clock.now())

    async def _run(self) -> Credential:
        """The outcome of the run that is under way, or of a new one. Raises ConfigError."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run_once(), name="exec-plugin")
            self._running.add_done_callback(self._ended)
        run = self._running
        try:
            return await asyncio.shield(run)
        except asyncio.CancelledError:
            if run.cancelled():
                raise ConfigError(
                    f'{self._plugin.where}: the plugin "{self._plugin.command}" was ended with its client'
                ) from None
            raise

    def _ended(self, run: asyncio.Task[Credential]) -> None:
        self._running = None
        if not run.cancelled() and (error := run.exception()) is not None:  # nobody may have waited for it to the end
            _log.info(2, "The exec plugin failed", error=error)

    async def _run_once(self) -> Credential:
        await self._clock.sleep(self._pause_s())
        try:
            answer = await run_plugin(self._plugin, PLUGIN_TIMEOUT_S)
            if answer.certificate:
                place = f'the plugin "{self._plugin.command}"'
                self._use_certificate(
                    Pem(f"{self._plugin.where}: certificate from {place}", data=answer.certificate),
                    Pem(f"{self._plugin.where}: key from {place}", data=answer.key),
                )
        except ConfigError as error:
            self._failure = error
            raise
        finally:
            self._ran_at = self._clock.now()
        self._failure, self._expires_s = None, self._expiry(answer)
        self._credential = Credential(f"Bearer {answer.token}" if answer.token else "")
        return self._credential

    def _expiry(self, answer: PluginAnswer) -> float | None:
        """Seconds since the epoch at which the credentials expire, None for never. A token that is expired when it
        arrives may be good by the server's clock: it is used for a pause.
        """
        now = self._clock.wall_s()
        return now + PLUGIN_PAUSE_S if answer.expires_s is not None and answer.expires_s <= now else answer.expires_s
