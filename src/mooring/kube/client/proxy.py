"""Which HTTP proxy stands between us and the API server: the kubeconfig's, else the environment's, read as Go programs do."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mooring.base.errors import ConfigError

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def checked_proxy(url: str, where: str) -> str:
    """The proxy's URL with its scheme. Raises ConfigError, without the URL: it may hold a password."""
    if "://" not in url:
        url = f"http://{url}"
    parts = split_url(url, where)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f'{where}: a proxy of the kind "{parts.scheme}" is not supported, only http and https')
    return url


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """HTTPS_PROXY or HTTP_PROXY unless NO_PROXY covers the server, as golang.org/x/net/http/httpproxy reads them. Raises ConfigError."""
    parts = urlsplit(server)
    name = f"{parts.scheme.upper()}_PROXY"
    for variable in (name, name.lower()):
        if environ.get(variable):
            bypassed = _is_bypassed(parts, environ.get("NO_PROXY") or environ.get("no_proxy") or "")
            return "" if bypassed else checked_proxy(environ[variable], f"environment variable {variable}")
    return ""


def split_url(url: str, where: str) -> SplitResult:
    """The parts of an absolute URL with a host and a usable port. Raises ConfigError, without the URL."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{where}: is not a URL of the form https://host:port")
    return parts


def _is_bypassed(parts: SplitResult, no_proxy: str) -> bool:
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    address = _address(host)
    if _is_loopback(host):
        return True
    return any(_covers(rule.strip().lower(), host, port, address) for rule in no_proxy.split(",") if rule.strip())


def is_loopback(server: str) -> bool:
    return _is_loopback(urlsplit(server).hostname or "")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _covers(rule: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """One item of NO_PROXY: `*`, an address, a network, or a domain, the last three perhaps with a port."""
    if rule == "*":
        return True
    network = _network(rule)
    if network is not None:
        return address is not None and address in network
    name, colon, wanted_port = rule.rpartition(":")
    if not colon or (not wanted_port.isdecimal() and not rule.startswith("[")):
        name, wanted_port = rule, ""
    if wanted_port and wanted_port != str(port):
        return False
    wanted_address = _address(name.strip("[]"))
    if wanted_address is not None:
        return address == wanted_address
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
