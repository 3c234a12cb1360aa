"""Lives typed on two servers at once: one of each kind to begin with, and the words of both compared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.support.kubectl_manifests import BERTH_DEFINITION, BERTHS
from tests.support.rest import Rest
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

Life = Callable[[Terminal], None]
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def serve_berths(api: Rest) -> None:
    """The custom kind is there, in everything that kubectl asks first."""
    made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", BERTH_DEFINITION)
    assert made.status in (201, 409), made
    eventually(lambda: api.get(BERTHS).status == 200, 30, "the kind is served")
    eventually(
        lambda: "Berth" in api.get("/openapi/v3/apis/kubectl.test/v1").body.decode(), 30, "its schema is published"
    )
    eventually(
        lambda: "berths" in api.request("GET", "/apis", headers={"Accept": _AGGREGATED}).body.decode(),
        30,
        "it is discovered",
    )


def assert_the_same_is_said(real: Terminal, embedded: Terminal, life: Life) -> None:
    """Line by line."""
    with ThreadPoolExecutor(2) as pool:
        lives = [pool.submit(life, terminal) for terminal in (real, embedded)]
    different = [ours.differs_from(theirs) for theirs, ours in zip(real.said, embedded.said, strict=False)]
    assert not any(different), "\n\n".join(filter(None, different))
    for ended in lives:
        ended.result()


def a_harbour(terminal: Terminal) -> None:
    """One of each, made by kubectl."""
    terminal.type("""
        create namespace {name}
        create -f - < volume,class,node,attachment,csi node,driver,attributes
        create -f - < claim,other claim,pod,capacity,lease,secret,config,berth
    """)
    terminal.words["uid"] = terminal.type("get pvc claim -o jsonpath={.metadata.uid}")
    terminal.type("create -f - < event,earlier event")
