"""Finds the API server and the user: in a kubeconfig file, a list of them, or the pod's service account.

Rules as kubectl's: an explicit path, else the files of KUBECONFIG merged, else ~/.kube/config, else the service account
of the pod. Every mistake is found at the start, and reported with its file, field and remedy. An HTTP proxy is the
kubeconfig's, else the environment's, which is read as Go programs do.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.kube.client.config import ClusterConfig, KubeconfigUser, Pem, Tls, clean_token, read_file
from mooring.kube.client.kubefile import KubeconfigEntry, KubeFile, merged, read_kube_file
from mooring.kube.client.kubeuser import read_user
from mooring.kube.client.tls import client_context

_log = logger(__name__)

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAMES_SHOWN_MAX: Final = 10
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def load(path: str, environ: Mapping[str, str], *, context: str = "") -> ClusterConfig:
    """The way to the cluster. Raises ConfigError.

    path: a kubeconfig file; "" for those that KUBECONFIG lists, without it ~/.kube/config, without that the pod's own
    service account. context: "" for the current one. environ: also what exec plugins get, and where proxies are looked
    up.
    """
    files = [path] if path else _listed(environ) or _of_home(environ)
    if not files:
        return in_cluster(environ, remedy="set KUBECONFIG to a kubeconfig file, or write ~/.kube/config")
    return _from_file(merged([read_kube_file(name, alone=len(files) == 1) for name in files]), environ, context)


def _listed(environ: Mapping[str, str]) -> list[str]:
    """The existing files of KUBECONFIG. Raises ConfigError for none; differs from kubectl, which then takes the pod's
    service account.
    """
    listed = [name for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    present = [name for name in listed if os.path.exists(name)]
    if listed and not present:
        raise ConfigError(f"environment variable KUBECONFIG: no such file: {', '.join(listed)}")
    for name in listed:
        if name not in present:
            _log.warning("A file of KUBECONFIG does not exist", file=name)
    return present


def _of_home(environ: Mapping[str, str]) -> list[str]:
    """~/.kube/config, if there is one that this user may see."""
    file = os.path.join(environ.get("HOME", ""), ".kube", "config")
    return [file] if os.path.isabs(file) and os.path.exists(file) else []


def in_cluster(
    environ: Mapping[str, str], folder: str = SERVICE_ACCOUNT, *, remedy: str = "give --kubeconfig"
) -> ClusterConfig:
    """The pod's API server and service account. remedy: advice in the error for a process in no pod. Raises
    ConfigError.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        ignored = " (KUBECONFIG is set, but does not count here)" if environ.get("KUBECONFIG") else ""
        raise ConfigError(
            "no kubeconfig was given, and this is no pod of a cluster: KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT "
            f"are not set; {remedy}{ignored}"
        )
    where = "in-cluster configuration"
    token_file = f"{folder}/token"
    if clean_token(read_file(token_file, f"{where}: service account token").decode(errors="replace")) is None:
        raise ConfigError(f'{where}: the file "{token_file}" holds no token')
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    _split_url(server, f"{where}: KUBERNETES_SERVICE_HOST with KUBERNETES_SERVICE_PORT")
    tls = Tls(authority=Pem(f"{where}: service account CA", path=f"{folder}/ca.crt"))
    client_context(tls)
    user, proxy = KubeconfigUser(token_file=token_file), environment_proxy(server, environ)
    return ClusterConfig(server, where, _own_namespace(folder), tls, user, proxy, compressed=False)


def _own_namespace(folder: str) -> str:
    try:
        return Path(folder, "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _from_file(file: KubeFile, environ: Mapping[str, str], context_name: str) -> ClusterConfig:
    name = context_name or file.current_context
    if not name:
        raise ConfigError(f"{file.where}: current-context is not set; {_choice('contexts', file.contexts)}")
    context = _looked_up(file.contexts, name, f"{file.where}: context", "contexts")
    cluster_name, user_name = context.text("cluster"), context.text("user")
    if not cluster_name:
        raise ConfigError(f"{context.where}: names no cluster")
    cluster = _looked_up(file.clusters, cluster_name, f"{context.where}: its cluster", "clusters")
    user = _looked_up(file.users, user_name, f"{context.where}: its user", "users") if user_name else None
    tls = _tls(cluster, user)
    server = _server(cluster, tls)
    return ClusterConfig(
        server,
        context.where,
        context.text("namespace") or "default",
        tls,
        KubeconfigUser() if user is None else read_user(user, cluster, tls, server, environ),
        _proxy(cluster, server, environ),
        compressed=not _is_loopback(urlsplit(server).hostname or ""),
    )


def _looked_up(entries: Mapping[str, KubeconfigEntry], name: str, what: str, plural: str) -> KubeconfigEntry:
    if name not in entries:
        raise ConfigError(f'{what} "{name}" does not exist; {_choice(plural, entries)}')
    return entries[name]


def _choice(plural: str, names: Iterable[str]) -> str:
    known = sorted(names)
    more = ", …" if len(known) > _NAMES_SHOWN_MAX else ""
    return f"{plural}: {', '.join(known[:_NAMES_SHOWN_MAX])}{more}" if known else f"it has no {plural}"


def _server(cluster: KubeconfigEntry, tls: Tls) -> str:
    where, text = f"{cluster.where}: server", cluster.text("server")
    if not text:
        raise ConfigError(f"{where} is not set")
    if "://" not in text:
        secure = tls.authority is not None or tls.insecure or tls.certificate is not None
        text = f"{'https' if secure else 'http'}://{text}"
    parts = _split_url(text, where)
    if parts.scheme not in ("https", "http"):
        raise ConfigError(f'{where}: its scheme is "{parts.scheme}", must be https or http')
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{where}: must be only scheme, host, port and path; credentials belong to the user's entry")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _tls(cluster: KubeconfigEntry, user: KubeconfigEntry | None) -> Tls:
    authority, insecure = cluster.pem("certificate-authority"), cluster.flag("insecure-skip-tls-verify")
    if authority is not None and insecure:
        raise ConfigError(
            f"{cluster.where}: has a certificate-authority and insecure-skip-tls-verify; remove one of them"
        )
    certificate = user.pem("client-certificate") if user else None
    key = user.pem("client-key") if user else None
    if (certificate is None) != (key is None):
        given, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        assert user is not None
        raise ConfigError(f"{user.where}: has a {given} without a {missing}")
    tls = Tls(authority, certificate, key, cluster.text("tls-server-name"), insecure)
    if authority is not None or certificate is not None:
        client_context(tls)  # for what it raises
    return tls


def _proxy(cluster: KubeconfigEntry, server: str, environ: Mapping[str, str]) -> str:
    own = cluster.text("proxy-url")
    return checked_proxy(own, f"{cluster.where}: proxy-url") if own else environment_proxy(server, environ)


def checked_proxy(url: str, where: str) -> str:
    """The proxy's URL with its scheme. Raises ConfigError, without the URL: it may hold a password."""
    if "://" not in url:
        url = f"http://{url}"
    parts = _split_url(url, where)
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f'{where}: a proxy of the kind "{parts.scheme}" is not supported, only http and https')
    return url


def environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """HTTPS_PROXY or HTTP_PROXY unless NO_PROXY covers the server, as golang.org/x/net/http/httpproxy reads them.
    Raises ConfigError.
    """
    parts = urlsplit(server)
    name = f"{parts.scheme.upper()}_PROXY"
    for variable in (name, name.lower()):
        if environ.get(variable):
            bypassed = _is_bypassed(parts, environ.get("NO_PROXY") or environ.get("no_proxy") or "")
            return "" if bypassed else checked_proxy(environ[variable], f"environment variable {variable}")
    return ""


def _split_url(url: str, where: str) -> SplitResult:
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
