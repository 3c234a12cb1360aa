"""Records for the way to an API server: `kubeconfig.load` makes them, `HttpCluster` takes them. Secrets are kept out of
every repr.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path

from mooring.base.border import reason
from mooring.base.errors import ConfigError

_FILE_BYTES_MAX = 16 * 2**20  # a kubeconfig, a token or a certificate is a few KiB; /dev/zero is not


@dataclasses.dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key, inline or in a file that may be replaced at any time (path). where: names it in
    messages.
    """

    where: str
    path: str = ""
    data: bytes = dataclasses.field(default=b"", repr=False)

    def read(self) -> bytes:
        """The PEM text. Raises ConfigError."""
        return read_file(self.path, self.where) if self.path else self.data


@dataclasses.dataclass(frozen=True, slots=True)
class Tls:
    """How client and server know each other."""

    #: What the server's certificate is checked with, None for the system's.
    authority: Pem | None = None
    #: The client's, with its key: both or neither.
    certificate: Pem | None = None
    key: Pem | None = None
    #: What the server's certificate must be made out to, "" for the host of the URL.
    server_name: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        assert (self.certificate is None) == (self.key is None)
        assert not (self.insecure and self.authority)


class InteractiveMode(enum.Enum):
    """Whether an exec plugin may talk to the terminal."""

    NEVER = "Never"
    IF_AVAILABLE = "IfAvailable"
    ALWAYS = "Always"


@dataclasses.dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials."""

    #: The place in the kubeconfig, for messages.
    where: str
    #: An absolute path.
    command: str
    arguments: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    #: The whole environment.
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    #: What the plugin is told about the cluster, None without provideClusterInfo.
    cluster: Mapping[str, object] | None = dataclasses.field(default=None, repr=False)
    mode: InteractiveMode = InteractiveMode.NEVER
    install_hint: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class KubeconfigUser:
    """A user. At most one of token or token_file, username, exec_plugin; all empty is anonymous, or known by
    certificate.

    token: also used while token_file can't be read. headers: sent with each request (impersonation).
    """

    token: str = dataclasses.field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = dataclasses.field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster to talk to, and as whom."""

    #: `https://host:port`, perhaps with a path, no slash at its end.
    server: str
    #: Where all this was read, for messages.
    source: str = "given in code"
    #: The context's namespace, else "default".
    namespace: str = "default"
    tls: Tls = Tls()
    user: KubeconfigUser = KubeconfigUser()
    #: URL of an HTTP proxy, "" for none; may hold a password.
    proxy: str = dataclasses.field(default="", repr=False)
    #: Ask for gzip in big answers: worth it over a slow link; near the server it costs both sides more than it saves.
    compressed: bool = True

    def __post_init__(self) -> None:
        assert self.server.startswith(("https://", "http://")), self.server
        assert not self.server.endswith("/"), self.server


def read_file(path: str, where: str) -> bytes:
    """A small file's content. where: its mention, for the message. Raises ConfigError when it can't be read or is too
    big.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(
            f'{where}: the file "{path}" does not exist; check the path, or that it is mounted here'
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        why = reason(error) if isinstance(error, OSError) else error
        raise ConfigError(f'{where}: the file "{path}" can\'t be read: {why}') from None
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f'{where}: the file "{path}" is larger than {_FILE_BYTES_MAX} bytes; is it the right one?')
    return content


def clean_token(text: str) -> str | None:
    """A bearer token without blanks around it; None when it can't stand in a header (empty, control characters, not
    ASCII).
    """
    token = text.strip()
    return token if token and token.isascii() and token.isprintable() else None
