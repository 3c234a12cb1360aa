"""The user of a kubeconfig: token, password, exec plugin, impersonation; all checked, nothing run yet."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from mooring.base.errors import ConfigError
from mooring.kube.client.config import ExecPlugin, InteractiveMode, KubeconfigUser, Tls, clean_token, read_file
from mooring.kube.client.kubefile import KubeconfigEntry

_IN_NAMES: Final = "!#$&'*+^`|"
"""What may stand in a header's name beside letters, digits and `-._~`; the rest is escaped, as client-go does it."""
_EXEC_GROUP: Final = "client.authentication.k8s.io"
_EXEC_VERSIONS: Final = (f"{_EXEC_GROUP}/v1", f"{_EXEC_GROUP}/v1beta1")


def read_user(
    user: KubeconfigEntry, cluster: KubeconfigEntry, tls: Tls, server: str, environ: Mapping[str, str]
) -> KubeconfigUser:
    """tls, server: for exec plugins. A token goes before a password, that before a plugin, as in client-go. Raises
    ConfigError.
    """
    headers = _impersonation(user)
    token, token_file = user.text("token"), user.path("tokenFile")
    username, password = user.text("username"), user.text("password")
    if (token or token_file) and (username or password):
        raise ConfigError(f"{user.where}: has a token and a username; remove one of them")
    if password and not username:
        raise ConfigError(f"{user.where}: has a password without a username")
    if token or token_file:
        return KubeconfigUser(_token(user, token, token_file), token_file, headers=headers)
    if username:
        return KubeconfigUser(username=username, password=password, headers=headers)
    plugin = user.child("exec")
    if plugin is not None:
        return KubeconfigUser(exec_plugin=_exec_plugin(plugin, cluster, tls, server, environ), headers=headers)
    if user.values.get("auth-provider") is not None:
        raise ConfigError(
            f"{user.where}: auth-provider is not supported (nor by kubectl since 1.26); use an exec plugin"
        )
    return KubeconfigUser(headers=headers)


def _token(user: KubeconfigEntry, token: str, token_file: str) -> str:
    """The token that stands in for the file's, or is the only one. Looks whether the file can be used."""
    if token_file and not token:
        content = read_file(token_file, f"{user.where}: tokenFile").decode(errors="replace")
        if clean_token(content) is None:
            raise ConfigError(
                f'{user.where}: tokenFile "{token_file}" holds no token, or one with characters that no token has'
            )
    if not token:
        return ""
    clean = clean_token(token)
    if clean is None:
        raise ConfigError(f"{user.where}: token has characters that no token has")
    return clean


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    name = user.text("as")
    headers = [
        ("Impersonate-Uid", user.text("as-uid")),
        *(("Impersonate-Group", group) for group in user.texts("as-groups")),
    ]
    extra = user.child("as-user-extra")
    for key in extra.values if extra else ():
        assert extra is not None
        headers += [(f"Impersonate-Extra-{quote(key, safe=_IN_NAMES)}", value) for value in extra.texts(key)]
    headers = [pair for pair in headers if pair[1]]
    if headers and not name:
        raise ConfigError(f"{user.where}: has as-uid, as-groups or as-user-extra without as")
    headers = [("Impersonate-User", name), *headers] if name else []
    if not all(text.isascii() and text.isprintable() for _, text in headers):
        raise ConfigError(f"{user.where}: as, as-uid, as-groups and as-user-extra must be plain printable ASCII")
    return tuple(headers)


def _exec_plugin(
    plugin: KubeconfigEntry, cluster: KubeconfigEntry, tls: Tls, server: str, environ: Mapping[str, str]
) -> ExecPlugin:
    version = plugin.text("apiVersion")
    if version not in _EXEC_VERSIONS:
        raise ConfigError(f'{plugin.where}: apiVersion is "{version}", must be {" or ".join(_EXEC_VERSIONS)}')
    environment = dict(environ)
    for item in plugin.children("env"):
        environment[item.text("name")] = item.text("value")
    if not all(name and "=" not in name and "\0" not in name + value for name, value in environment.items()):
        raise ConfigError(f"{plugin.where}: env has an entry whose name or value can't stand in an environment")
    return ExecPlugin(
        plugin.where,
        _command(plugin, environ),
        plugin.texts("args"),
        environment,
        version,
        _cluster_info(cluster, tls, server) if plugin.flag("provideClusterInfo") else None,
        _interactive_mode(plugin, version),
        plugin.text("installHint").strip(),
    )


def _interactive_mode(plugin: KubeconfigEntry, version: str) -> InteractiveMode:
    text = plugin.text("interactiveMode")
    if not text and version.endswith("/v1beta1"):
        return InteractiveMode.IF_AVAILABLE
    try:
        return InteractiveMode(text)
    except ValueError:
        allowed = ", ".join(mode.value for mode in InteractiveMode)
        raise ConfigError(f'{plugin.where}: interactiveMode is "{text}", must be one of {allowed}') from None


def _command(plugin: KubeconfigEntry, environ: Mapping[str, str]) -> str:
    """The program's absolute path: beside the kubeconfig when it has a slash, else searched in PATH."""
    text = plugin.text("command")
    if not text:
        raise ConfigError(f"{plugin.where}: command is not set")
    wanted = str(plugin.folder / text) if "/" in text else text
    found = shutil.which(wanted, path=environ.get("PATH", ""))
    if found is None:
        hint = plugin.text("installHint").strip()
        raise ConfigError(
            f'{plugin.where}: the command "{text}" was not found, or is no program; install it'
            + (f". The kubeconfig says: {hint}" if hint else "")
        )
    return os.path.abspath(found)


def _cluster_info(cluster: KubeconfigEntry, tls: Tls, server: str) -> dict[str, Any]:
    """spec.cluster of the plugin's input."""
    info: dict[str, Any] = {
        "server": server,
        "tls-server-name": tls.server_name,
        "proxy-url": cluster.text("proxy-url"),
    }
    info["insecure-skip-tls-verify"] = tls.insecure
    if tls.authority is not None:
        info["certificate-authority-data"] = base64.b64encode(tls.authority.read()).decode()
    for extension in cluster.children("extensions"):
        if extension.text("name") == f"{_EXEC_GROUP}/exec":
            info["config"] = extension.values.get("extension")
    return {name: value for name, value in info.items() if value}
