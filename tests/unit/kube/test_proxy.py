"""Proxies are found as Go programs find them."""

from __future__ import annotations

import pytest

from mooring.base.errors import ConfigError
from mooring.kube.client.kubeconfig import checked_proxy, environment_proxy
from tests.support.rows import each_row

PROXY = "http://proxy:3128"


@each_row(
    ("server", "no_proxy", "used"),
    [
        ("https://api.example.com:6443", "", True),
        ("https://api.example.com:6443", "*", False),
        ("https://api.example.com:6443", "example.com", False),
        ("https://api.example.com:6443", ".example.com", False),
        ("https://api.example.com:6443", "*.example.com", False),
        ("https://example.com:6443", "*.example.com", True),
        ("https://notexample.com:6443", "example.com", True),
        ("https://api.example.com:6443", "other.com, API.example.com", False),
        ("https://api.example.com:6443", "api.example.com:6443", False),
        ("https://api.example.com:6443", "api.example.com:443", True),
        ("https://api.example.com", "api.example.com:443", False),
        ("https://10.0.0.1:443", "10.0.0.0/8", False),
        ("https://10.0.0.1:443", "11.0.0.0/8,192.168.0.1", True),
        ("https://10.0.0.1:443", "10.0.0.1", False),
        ("https://10.0.0.1:443", "10.0.0.1:80", True),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://[fd00::1]:443", "[fd00::1]:443", False),
        ("https://[fd00::1]:443", "fd00::1", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://localhost:6443", "", False),
        ("https://api.example.com:6443", " , ,", True),
    ],
)
def test_no_proxy_names_hosts_networks_and_domains(server: str, no_proxy: str, used: bool) -> None:
    assert (PROXY if used else "") == environment_proxy(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})


def test_a_plain_server_goes_by_http_proxy() -> None:
    environ = {"http_proxy": PROXY, "HTTPS_PROXY": "http://other:1"}
    assert PROXY == environment_proxy("http://api.example.com", environ)


def test_a_proxy_without_scheme_is_an_http_proxy() -> None:
    assert checked_proxy("proxy:3128", "here") == "http://proxy:3128"


@each_row(
    "url",
    ["socks5://user:hunter2@proxy:1080", "http://user:hunter2@proxy:99999", "http://", "http://user:hunter2@pro xy"],
)
def test_an_unusable_proxy_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        environment_proxy("https://api.example.com", {"HTTPS_PROXY": url})
    assert "HTTPS_PROXY" in str(caught.value)
    assert "hunter2" not in str(caught.value)
