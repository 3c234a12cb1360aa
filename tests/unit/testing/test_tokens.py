"""A driver that asks for tokens of service accounts (`tokenRequests` of its CSIDriver) gets real ones of the pod's
account.
"""

from __future__ import annotations

import base64
import json

import pytest

from mooring.api.storage import CSI_DRIVERS
from mooring.kube.cluster import Patch, PatchType
from mooring.testing.opening import ClusterOfTest

CONTEXT = "csi.storage.k8s.io/serviceAccount"
WISHES = {"tokenRequests": [{"audience": "vault"}], "podInfoOnMount": True}


def claims(token: str) -> dict[str, object]:
    part = token.split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


@pytest.mark.parametrize(("spec", "account"), [({}, "default"), ({"serviceAccountName": "reader"}, "reader")])
def test_a_driver_gets_a_token_of_the_pod_s_account(
    mooring_cluster: ClusterOfTest, spec: dict[str, str], account: str
) -> None:
    cluster = mooring_cluster
    if account != "default":
        cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    patch = Patch(PatchType.MERGE, {"spec": WISHES})
    cluster.run(cluster.aio.plane.users.patch(CSI_DRIVERS, cluster.aio.plane.info.name, patch))
    web = cluster.pod("web", cluster.claim("data").bound(), **spec).running()
    context = cluster.calls("NodePublishVolume")[-1].request.volume_context
    (audience,) = tokens = json.loads(context[f"{CONTEXT}.tokens"])
    said = claims(tokens[audience]["token"])
    assert ("vault", account) == (audience, context[f"{CONTEXT}.name"])
    assert (["vault"], f"system:serviceaccount:default:{account}") == (said["aud"], said["sub"])
    assert account == web.object["spec"]["serviceAccountName"]
