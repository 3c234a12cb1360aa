"""The kubelet's words for a refusal, and the cause that is named for each."""

from __future__ import annotations

import pytest

from mooring.registrar.causes import likely_cause

ENDPOINT = "/var/lib/kubelet/plugins/csi.test/csi.sock"
PREFIX = "RegisterPlugin error -- plugin registration failed with err: "


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            "RegisterPlugin error -- plugin validation failed with err: CSI driver d is already registered with a higher supported version",
            "another registrar has registered a driver of this name",
        ),
        (PREFIX + "detected topology value collision: driver reported k:new but existing label is k:old", "remove that label"),
        (PREFIX + 'CSINode "n" is invalid: updates to nodeID are forbidden, field is immutable', "former node id"),
        (PREFIX + 'nodes "n" is forbidden: is not allowed to modify labels: x.kubernetes.io/y', "topology keys need a domain"),
        (PREFIX + "rpc error: code = DeadlineExceeded desc = context deadline exceeded", "did not answer NodeGetInfo within 2 minutes"),
        (PREFIX + f'rpc error: code = Unavailable desc = "dial unix {ENDPOINT}: connect: no such file or directory"', ENDPOINT),
        (PREFIX + f"no connection to the CSI driver at '{ENDPOINT}' within 10 s: the socket does not exist yet", ENDPOINT),
        (PREFIX + "the Node's annotation csi.volume.kubernetes.io/nodeid is no JSON", "annotation csi.volume.kubernetes.io/nodeid"),
        (PREFIX + "error updating CSINode: nodeID must not be empty", "gave no node id"),
        (PREFIX + "rpc error: code = Unimplemented desc = unknown service csi.v1.Node", "no node service"),
        (PREFIX + "rpc error from NodeGetInfo: code = Internal desc = no metadata", "NodeGetInfo failed"),
    ],
)
def test_NDR4_a_refusal_is_explained(error: str, cause: str) -> None:
    assert cause in likely_cause(error, ENDPOINT)


def test_an_unknown_refusal_is_not_explained_by_a_guess() -> None:
    assert "" == likely_cause("the moon is full", ENDPOINT)


def test_a_socket_path_with_braces_is_shown_as_it_is() -> None:
    assert "/a{0}b" in likely_cause("connection refused", "/a{0}b")
