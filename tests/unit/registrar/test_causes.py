"""The kubelet's words for a refusal, and the cause that is named for each."""

from __future__ import annotations

import pytest

from mooring.sidecars.registrar.causes import likely_cause

ENDPOINT = "/var/lib/kubelet/plugins/csi.test/csi.sock"
PREFIX = "RegisterPlugin error -- plugin registration failed with err: "
NODE = (
    PREFIX + "error updating Node object with CSI driver node info: error updating node: timed out waiting for the condition; caused by: "
)
CSINODE = PREFIX + "error updating CSINode object with CSI driver node info: error updating CSINode: timed out waiting for the condition; "
CSINODE += 'caused by: CSINode.storage.k8s.io "n" is invalid: '


# As kubelet 1.36.3 said them, but for names; those of our own agent are in test_readiness.py.
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        pytest.param(
            "RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver d at endpoint /d/csi.sock: "
            'kubernetes.io/csi: ValidatePlugin for CSI driver "d" failed. Another driver with the same name is already registered with a '
            'higher supported version: "1.0.0"',
            "another registrar has registered a driver of this name",
            id="registered-already",
        ),
        pytest.param(
            NODE + 'detected topology value collision: driver reported "k":"new" but existing label is "k":"old"',
            "remove that label",
            id="collision",
        ),
        pytest.param(
            CSINODE
            + 'spec.drivers: Invalid value: {"Name":"d","NodeID":"another","TopologyKeys":null,"Allocatable":null}: field is immutable',
            "former node id",
            id="another-node-id",
        ),
        pytest.param(
            NODE
            + 'failed to patch status "{\\"metadata\\":{\\"annotations\\":{\\"csi.volume.kubernetes.io/nodeid\\":\\"{}\\"},\\"labels\\":'
            '{\\"bad key!\\":\\"x\\"}}}" for node "n": Node "n" is invalid: metadata.labels: Invalid value: "bad key!"',
            "no valid labels",
            id="topology-no-label",
        ),
        pytest.param(
            NODE + 'nodes "n" is forbidden: is not allowed to modify labels: x.kubernetes.io/y',
            "topology keys need a domain",
            id="forbidden",
        ),
        pytest.param(
            PREFIX + "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            "did not answer NodeGetInfo within 2 minutes",
            id="too-slow",
        ),
        pytest.param(
            PREFIX + 'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix '
            '/nowhere/csi.sock: connect: connection refused"',
            ENDPOINT,
            id="unreachable",
        ),
        pytest.param(
            PREFIX + "no connection to the CSI driver at '/nowhere' within 10 s: the socket does not exist yet", ENDPOINT, id="agent"
        ),
        pytest.param(
            NODE + 'Patch "https://10.0.0.1:443/api/v1/nodes/n/status": dial tcp 10.0.0.1:443: connect: connection refused',
            "the API server did not answer",
            id="no-api-server",
        ),
        pytest.param(
            NODE + 'failed to parse node\'s "csi.volume.kubernetes.io/nodeid" annotation value ("{") err=unexpected end of JSON input',
            "remove or mend it",
            id="annotation",
        ),
        pytest.param(PREFIX + "error adding CSI driver node info: driverNodeID must not be empty", "gave no node id", id="no-node-id"),
        pytest.param(
            CSINODE + 'spec.drivers[0].nodeID: Invalid value: "xxx": must be 256 characters or less',
            "1 to 256 characters",
            id="long-node-id",
        ),
        pytest.param(
            PREFIX + "rpc error: code = Unimplemented desc = unknown service csi.v1.Node", "no node service", id="no-node-service"
        ),
        pytest.param(PREFIX + "rpc error: code = Internal desc = no metadata", "NodeGetInfo failed", id="driver-failed"),
    ],
)
def test_NDR4_a_refusal_is_explained(error: str, cause: str) -> None:
    assert cause in likely_cause(error, ENDPOINT)


def test_an_unknown_refusal_is_not_explained_by_a_guess() -> None:
    assert "" == likely_cause("the moon is full", ENDPOINT)


def test_a_socket_path_with_braces_is_shown_as_it_is() -> None:
    assert "/a{0}b" in likely_cause("dial unix /x", "/a{0}b")
