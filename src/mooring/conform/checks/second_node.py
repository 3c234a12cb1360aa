"""Two nodes: another process of the driver's command says who the second one is."""

from __future__ import annotations

from typing import Final

from mooring.base.errors import ConfigError
from mooring.conform.asker import Asker
from mooring.conform.book.errors import REFUSED
from mooring.conform.book.node import TWO_NODES
from mooring.conform.book.publishing import ANOTHER_NODE
from mooring.conform.book.publishing import TWO_NODES as PUBLISHED_TWICE
from mooring.conform.check import Chapter, NotApplicable
from mooring.conform.checks.publishing import stays_where_it_is
from mooring.conform.life import ATTACHES, CREATES, begin, step
from mooring.csi.driver import Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

CHAPTER = Chapter()

_BY_NAME: Final = "; a driver that looks its nodes up needs the names of two: --node-name"


async def _second_id(asker: Asker) -> str:
    """Raises NotApplicable."""
    program = asker.program
    assert program is not None, "these checks are for a driver that this run has started"
    try:
        return await program.node_id_of(asker.options.node_names[1])
    except (ConfigError, OSError, DriverError) as error:
        reason = " ".join(str(error).split())
        raise NotApplicable(f"no second process of the driver answers beside the first: {reason}{_BY_NAME}") from None


@CHAPTER.check(TWO_NODES, "Node", restarts=True, last=True)
async def node_id_of_another_node(asker: Asker) -> None:
    """On another node NodeGetInfo answers another node_id."""
    assert asker.program is not None
    own, other = asker.abilities.node_id, await _second_id(asker)
    if own == other:
        if not asker.program.names_its_node:
            raise NotApplicable(
                f"both processes of the command say {own!r}: put {{node}} where it says on which node it is"
            )
        found = f"node_id is {own!r} for the driver of the second node, too"
        asker.finds(TWO_NODES, Driver.node_get_info, csi.NodeGetInfoRequest(), found)


async def _other_id(asker: Asker) -> str:
    """Raises NotApplicable also where the second node has the first one's id."""
    other = await _second_id(asker)
    if other == asker.abilities.node_id:
        raise NotApplicable(
            f"both processes of the command have the node_id {other!r}: put {{node}} where it says on which node it is"
        )
    return other


@CHAPTER.check(ANOTHER_NODE, CREATES, ATTACHES, "Node", restarts=True, last=True)
async def unpublish_from_second_node(asker: Asker) -> None:
    """ControllerUnpublishVolume for the second node leaves the volume of the first where it is."""
    await stays_where_it_is(asker, await _other_id(asker))


@CHAPTER.check(PUBLISHED_TWICE, CREATES, ATTACHES, "Node", restarts=True, last=True)
async def publish_to_two_nodes(asker: Asker) -> None:
    """A volume of SINGLE_NODE_WRITER that is published to one node is refused for another with FailedPrecondition."""
    other = await _other_id(asker)
    life = await begin(asker)
    await step(life, Driver.controller_publish_volume, REFUSED)
    request = life.publish(node_id=other)
    outcome = await asker.patiently(Driver.controller_publish_volume, request)
    if outcome.code == Code.NOT_FOUND:
        raise NotApplicable(f"the controller does not know the second node, {other!r}{_BY_NAME}")
    if outcome.code != Code.FAILED_PRECONDITION and not outcome.breaches:
        found = (
            f"the volume is published to another node, and the driver answers {outcome.error or 'OK'} in place of "
            "FailedPrecondition"
        )
        asker.finds(PUBLISHED_TWICE, Driver.controller_publish_volume, request, found)
