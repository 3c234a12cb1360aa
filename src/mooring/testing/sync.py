"""The cluster of a test that is a plain function: the same words as for coroutines, each of which returns when it is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from mooring.base.errors import ConfigError
from mooring.conform.book.rule import Breach
from mooring.testing.cluster import NAMESPACE, AsyncCluster
from mooring.testing.driver_calls import DriverCall
from mooring.testing.faults import Faults
from mooring.testing.objects import ApiObject, AsyncClaim, AsyncNode, AsyncPod, AsyncSnapshot, Json
from mooring.testing.waiting import WAIT_S

T = TypeVar("T")
O_co = TypeVar("O_co", bound=ApiObject, covariant=True)


class Run(Protocol):
    """Does a work on the plane's loop, and gives its result."""

    def __call__(self, work: Coroutine[Any, Any, T]) -> T: ...


class ObjectOfTest(Generic[O_co]):
    """aio: the same for coroutines. wait_s, of each method that waits: its limit, in seconds of the cluster's time."""

    def __init__(self, run: Run, aio: O_co) -> None:
        self._run, self.aio = run, aio

    @property
    def name(self) -> str:
        """The object's name."""
        return self.aio.name

    @property
    def object(self) -> Json:
        """As the API server has it now. Raises NotFound."""
        return self._run(self.aio.read())

    @property
    def is_deleting(self) -> bool:
        """True from its deletion until it is gone."""
        return self._run(self.aio.is_deleting())

    def patch(self, change: Mapping[str, Any], subresource: str = "") -> Self:
        """Changes it by a merge patch."""
        self._run(self.aio.patch(change, subresource))
        return self

    def delete(self, *, force: bool = False) -> Self:
        """Asks for its deletion; `gone` waits for that. force: without waiting for a node."""
        self._run(self.aio.delete(force=force))
        return self

    def gone(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is gone; a claim with the volume that is deleted with it. Raises NotYet."""
        self._run(self.aio.gone(wait_s))
        return self

    def until(self, check: Callable[[Json], Any], what: str, wait_s: float = WAIT_S) -> Self:
        """Waits until the object is as the check wants it. Raises NotYet."""
        self._run(self.aio.until(check, what, wait_s))
        return self

    def why(self) -> str:
        """Why it is stuck, and whose move it is."""
        return self._run(self.aio.why())


class Claim(ObjectOfTest[AsyncClaim]):
    def bound(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is Bound. Raises NotYet."""
        self._run(self.aio.bound(wait_s))
        return self

    def grows_to(self, size: str, wait_s: float = WAIT_S) -> Self:
        """Asks for more, and waits until the claim has it. Raises NotYet."""
        self._run(self.aio.grows_to(size, wait_s))
        return self

    @property
    def volume(self) -> Json:
        """Its PersistentVolume. Raises NotFound."""
        return self._run(self.aio.volume())

    @property
    def handle(self) -> str:
        """The driver's id of its volume."""
        return self._run(self.aio.handle())


class Snapshot(ObjectOfTest[AsyncSnapshot]):
    def ready(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is ready to use. Raises NotYet."""
        self._run(self.aio.ready(wait_s))
        return self


class Node(ObjectOfTest[AsyncNode]):
    @property
    def is_on(self) -> bool:
        """Whether it has power, whatever its Node says."""
        return self.aio.is_on

    @property
    def is_ready(self) -> bool:
        """Whether its Node says so."""
        return self._run(self.aio.is_ready())

    def ready(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is Ready. Raises NotYet."""
        self._run(self.aio.ready(wait_s))
        return self

    def not_ready(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is not. Raises NotYet."""
        self._run(self.aio.not_ready(wait_s))
        return self

    def dies(self) -> Self:
        """The power goes: agent and driver end in the middle of their work, and nothing stays mounted."""
        self._run(self.aio.dies())
        return self

    def agent_restarts(self) -> Self:
        """The agent ends in the middle of its work, as after kill -9, and starts anew; what is mounted stays."""
        self._run(self.aio.agent_restarts())
        return self

    def returns(self) -> Self:
        """The power comes back, and the driver is registered again."""
        self._run(self.aio.returns())
        return self

    def out_of_service(self) -> Self:
        """Taints it: somebody states that the machine is off, and others may take its pods and volumes."""
        self._run(self.aio.out_of_service())
        return self

    def in_service(self) -> Self:
        """Takes that taint off."""
        self._run(self.aio.in_service())
        return self


class Pod(ObjectOfTest[AsyncPod]):
    def running(self, wait_s: float = WAIT_S) -> Self:
        """Waits until it is Running. Raises NotYet."""
        self._run(self.aio.running(wait_s))
        return self

    @property
    def node_name(self) -> str:
        """Where it runs; "" before it has a node."""
        return self._run(self.aio.node_name())

    def folder(self, claim: str | Claim) -> Path:
        """Where the pod finds the volume of a claim."""
        return self._run(self.aio.folder(_name(claim)))


def _name(claim: str | Claim) -> str:
    return claim.name if isinstance(claim, Claim) else claim


class Cluster:
    """aio: the same cluster for coroutines. run: does a coroutine's work, on the plane's loop. See `AsyncCluster` for
    the words.
    """

    def __init__(self, run: Run, aio: AsyncCluster, kubeconfig: Path | None = None) -> None:
        self.run, self.aio, self._kubeconfig = run, aio, kubeconfig

    @property
    def faults(self) -> Faults:
        """Faults of the driver's calls and of the API server."""
        return self.aio.faults

    @property
    def kubeconfig(self) -> Path:
        """For clients over TLS. Raises ConfigError for a cluster that is not served."""
        if self._kubeconfig is None:
            raise ConfigError(
                "this cluster answers no clients over TLS: ask for it with @pytest.mark.mooring_cluster(serves=True)"
            )
        return self._kubeconfig

    def claim(
        self, name: str, size: str = "1Gi", *, storage_class: str = "", namespace: str = NAMESPACE, **spec: Any
    ) -> Claim:
        """Makes a PersistentVolumeClaim, of the driver's own class if no other is named. spec: more fields, as
        Kubernetes calls them.
        """
        return Claim(
            self.run, self.run(self.aio.claim(name, size, storage_class=storage_class, namespace=namespace, **spec))
        )

    def pod(
        self, name: str, *claims: str | Claim, node: str | Node = "", namespace: str = NAMESPACE, **spec: Any
    ) -> Pod:
        """Makes a pod whose one container uses these claims. node: where it runs; "" lets the scheduler choose."""
        where = node if isinstance(node, str) else node.name
        return Pod(self.run, self.run(self.aio.pod(name, *map(_name, claims), node=where, namespace=namespace, **spec)))

    def snapshot(self, name: str, claim: str | Claim, namespace: str = NAMESPACE) -> Snapshot:
        """Makes a VolumeSnapshot of a claim's volume."""
        return Snapshot(self.run, self.run(self.aio.snapshot(name, _name(claim), namespace)))

    def claim_named(self, name: str, namespace: str = NAMESPACE) -> Claim:
        """One that somebody else makes, or has made."""
        return Claim(self.run, self.aio.claim_named(name, namespace))

    def pod_named(self, name: str, namespace: str = NAMESPACE) -> Pod:
        """One that somebody else makes, or has made."""
        return Pod(self.run, self.aio.pod_named(name, namespace))

    def node(self, name: str) -> Node:
        """The node of this name. Raises ConfigError for a node that is not there."""
        return Node(self.run, self.aio.node(name))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of them; none for a driver without a node service."""
        return tuple(Node(self.run, node) for node in self.aio.nodes)

    def node_of(self, pod: Pod) -> Node:
        """The node of a pod that has one."""
        return self.node(pod.node_name)

    def create(self, body: Mapping[str, Any] | str, namespace: str = NAMESPACE) -> Json:
        """Makes any object, from a mapping or as YAML."""
        return self.run(self.aio.create(body, namespace))

    def objects(self, plural: str, namespace: str | None = None) -> list[Json]:
        """All objects of a kind, as in `volumeattachments`. namespace: None for all."""
        return self.run(self.aio.objects(plural, namespace))

    def delete(self, plural: str, name: str, namespace: str = NAMESPACE) -> None:
        """Asks for the deletion of any object."""
        self.run(self.aio.delete(plural, name, namespace))

    def passes(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """So much of the cluster's time passes."""
        self.run(self.aio.passes(hours=hours, minutes=minutes, seconds=seconds))

    def until(self, check: Callable[[], Any], what: str, wait_s: float = WAIT_S) -> Any:
        """The first truthy answer of the check. what: is waited for, in the words of the failure. Raises NotYet."""
        began_s = self.run(self._now())
        while not (found := check()):
            self.run(self.aio.waiting.pause(began_s, what, None, wait_s))
        return found

    async def _now(self) -> float:
        return self.aio.plane.ports.clock.now()

    @property
    def controllers(self) -> tuple[str, ...]:
        """The names of the controllers that run here."""
        return self.aio.controllers

    def kill(self, controller: str) -> None:
        """Ends a controller in the middle of its work, as kill -9 does."""
        self.run(self.aio.kill(controller))

    def start(self, controller: str) -> None:
        """Starts a killed one, which knows nothing but what the API server and the driver tell."""
        self.run(self.aio.start(controller))

    def pause(self, controller: str) -> None:
        """Lets a controller stand still, as after SIGSTOP: it asks nobody, and learns neither answers nor changes."""
        self.run(self.aio.pause(controller))

    def resume(self, controller: str) -> None:
        """A paused one goes on."""
        self.run(self.aio.resume(controller))

    def restart(self, controller: str) -> None:
        """Kills a controller, and starts it."""
        self.run(self.aio.restart(controller))

    def restart_driver(self) -> None:
        """All processes of the driver end, in the middle of their calls, and start anew."""
        self.run(self.aio.restart_driver())

    def calls(self, rpc: str | None = None, *, on: str | None = None) -> Sequence[DriverCall]:
        """The calls to the driver so far, in the order of their ends. on: a node's, "" for the controller's."""
        return self.aio.calls(rpc, on=on)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of each Event about the objects of this name."""
        return self.run(self.aio.events(name))

    def why(self, kind: str, name: str, namespace: str = NAMESPACE) -> str:
        """Why an object is stuck, as `mooring why` says it."""
        return self.run(self.aio.why(kind, name, namespace))

    def allow_breaches(self, *numbers: str) -> None:
        """Rules of CSI that the driver may break without failing the test, by their numbers in the book."""
        self.aio.allow_breaches(*numbers)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """The rules of CSI that the driver has broken and may not."""
        return self.aio.breaches
