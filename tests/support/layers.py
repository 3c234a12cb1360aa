"""Layers of tests that need something from the machine, and what is said when it isn't there.

A test that can't run calls `not_tested(layer, what)`: it is skipped, and the run's last block names the layer. With
MOORING_REQUIRE_REAL=1 (CI) it fails instead, so that no layer goes missing unseen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, NoReturn

import pytest

MARK: Final = "NOT TESTED: "

REAL_SERVER: Final = "real API server"
REAL_CONTROLLERS: Final = "real controllers"
REAL_PEERS: Final = "Go peers"
REAL_MOUNTS: Final = "mounts"
OTHER_USERS: Final = "another user"
IPV6: Final = "IPv6"
CHECKOUT: Final = "git checkout"
RELEASE_TOOLS: Final = "release tools"
GO_REGISTRAR: Final = "Go registrar"
GO_HOSTPATH: Final = "Go host-path driver"
H2SPEC: Final = "h2spec"
BROWSER: Final = "browser"
XFS: Final = "xfs"
GO_SOURCES: Final = "Kubernetes' sources"
SPECIFICATION: Final = "specification beside the project"

_REAL_PARTS: Final = (
    "to test it: `make real-parts` (Go 1.26, about 11 minutes once), or KUBE_TEST_BIN=folder with the programs; "
    "then `make test`"
)

REMEDIES: Final = {
    REAL_SERVER: _REAL_PARTS,
    REAL_CONTROLLERS: _REAL_PARTS,
    REAL_PEERS: _REAL_PARTS,
    RELEASE_TOOLS: "to test it: `make release-tools` (Go 1.26, about 5 minutes once); then `make test`",
    REAL_MOUNTS: (
        "to test it: run as root on Linux, with mount namespaces, /dev/fuse and loop devices, and with util-linux "
        "installed"
    ),
    OTHER_USERS: "to test it: run as root, who alone can be another user for a while",
    IPV6: "to test it: on a machine with IPv6",
    CHECKOUT: "to test it: in a clone of the repository, with git installed",
    GO_REGISTRAR: (
        "to test it: build node-driver-registrar 2.17 from a checkout, since no module proxy has it, and put "
        "csi-node-driver-registrar "
        "into the folder `extra` beside KUBE_TEST_BIN"
    ),
    GO_HOSTPATH: (
        "to test it: in a checkout of csi-driver-host-path 1.18, CGO_ENABLED=0 go build ./cmd/hostpathplugin; "
        "put hostpathplugin into "
        "the folder `extra` beside KUBE_TEST_BIN"
    ),
    H2SPEC: (
        "to test it: GOFLAGS=-mod=mod go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1, and put "
        "h2spec into the folder `extra` "
        "beside KUBE_TEST_BIN"
    ),
    BROWSER: "to test it: hack/packages chromium chromedriver:chromium-driver, as root on Debian; elsewhere put both"
    " programs on PATH",
    XFS: "to test it: install xfsprogs, on a kernel that has xfs",
    GO_SOURCES: (
        "to test it: `make real-parts`, which brings the Go module k8s.io/api into Go's cache; parts built "
        "elsewhere leave it out"
    ),
    SPECIFICATION: (
        "nothing is wrong: this is a check for maintainers, who have the original declarations in a folder beside "
        "the project"
    ),
}

NEVER_REQUIRED: Final = {SPECIFICATION, GO_REGISTRAR, GO_HOSTPATH, GO_SOURCES, H2SPEC, BROWSER, XFS, IPV6, CHECKOUT}
"""Nothing that the lock or `make real-parts` installs brings these."""


def is_required(layer: str) -> bool:
    """True when it is a failure that this layer is missing."""
    return layer not in NEVER_REQUIRED and os.environ.get("MOORING_REQUIRE_REAL", "") not in ("", "0")


def not_tested(layer: str, what: str) -> NoReturn:
    """Skips the running test, or fails it where the layer is required. layer: a key of REMEDIES. what: what is
    missing.
    """
    assert layer in REMEDIES, f"unknown layer {layer!r}: add it to REMEDIES with what helps"
    reason = f"{MARK}{layer}: {what}"
    if is_required(layer):
        pytest.fail(f"{reason} (MOORING_REQUIRE_REAL is set)", pytrace=False)
    pytest.skip(reason)


def summary(reasons: Iterable[str]) -> list[str]:
    """The lines of the block about what was not tested, [] when all was. reasons: of all skipped tests, as pytest words
    them.
    """
    missing: dict[str, dict[str, int]] = {}
    for reason in reasons:
        text = reason.removeprefix("Skipped: ").partition("\n")[0]  # notes of the test's own may follow
        if text.startswith(MARK):
            layer, _, what = text.removeprefix(MARK).partition(": ")
            counts = missing.setdefault(layer, {})
            counts[what] = counts.get(what, 0) + 1
    lines = []
    for layer, counts in sorted(missing.items()):
        total = sum(counts.values())
        lines.append(f"NOT TESTED: {layer} ({total} {'test' if total == 1 else 'tests'})")
        lines.extend(f"    {what}" for what in sorted(counts))
        lines.append(f"    {REMEDIES.get(layer, 'see tests/support/layers.py')}")
    return lines
