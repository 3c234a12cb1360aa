"""Looks closer at a program that is at work and does not move: whether it renews its Lease, and has all its rights.

`mooring doctor` asks for the same rights. A program says in its log alone what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mooring.base.clock import Clock
from mooring.inspect.doctor.cluster import read_rights
from mooring.inspect.doctor.finding import Finding, Severity
from mooring.inspect.doctor.inventory import Inventory
from mooring.inspect.doctor.needs import NEEDS
from mooring.inspect.doctor.rights import home_of, missing_to
from mooring.inspect.doctor.sidecars import Sidecar, sidecars_in
from mooring.inspect.renewals import Renewals
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Chain, Command, Link, Mover, State
from mooring.inspect.why.leaders import ended_link, leader
from mooring.kube.cluster import Cluster

QUIET_S: Final = 30.0
"""How long a program may be at work before its rights are asked for."""


async def looked_closer(
    chain: Chain, scene: Scene, cluster: Cluster, clock: Clock, watching: Callable[[str], None]
) -> Chain:
    """The chain, with what keeps the program from its move. watching: is told how long its Lease is watched. Raises
    ApiError.
    """
    link = chain.blocking
    if link is None or link.state is not State.WAITING:
        return chain
    program, driver = program_in(link)
    if program not in NEEDS:
        return chain
    told, held = link, leader(scene, program, driver)
    if held is not None and held.is_late:
        # The times are another machine's: only a Lease that runs out while our own clock counts shows that its holder
        # has ended.
        namespace, _, name = held.key.partition("/")
        seen = await Renewals(cluster, clock, {name}, watching, namespace).look()
        if held.key in seen.silent:
            told = ended_link(link.name, program, driver, held)
    if told is link and scene.now_s - link.since_s >= QUIET_S:
        inventory = Inventory(scene.now_s, of_files=False)
        await read_rights(inventory, cluster)
        told = link_with_rights(link, scene, inventory)
    return msgspec.structs.replace(chain, links=tuple(told if one is link else one for one in chain.links))


def program_in(link: Link) -> tuple[str, str]:
    """The program whose move it is, and its driver, "" for none: `csi-provisioner of csi.example.com`."""
    program, _, rest = link.who.removeprefix("whoever runs ").partition(" of ")
    return program, rest.partition(",")[0]


def link_with_rights(link: Link, scene: Scene, inventory: Inventory) -> Link:
    program, driver = program_in(link)
    sidecar = _sidecar(inventory, scene, program, driver)
    found = missing_to(inventory, sidecar) if sidecar is not None else ()
    lacking = [one for one in found if one.severity is Severity.ERROR]
    if not lacking:
        return link
    return msgspec.structs.replace(
        link,
        state=State.FAILED,
        text=f"{link.who.removeprefix('whoever runs ')} has not moved: {lacking[0].wrong}; {lacking[0].follows}",
        mover=Mover.OPERATOR,
        who="whoever keeps the sidecars' roles",
        retry=f"{program} goes on by itself once it has the right",
        commands=tuple(map(_command, lacking)),
    )


def _sidecar(inventory: Inventory, scene: Scene, program: str, driver: str) -> Sidecar | None:
    """The one that holds the program's Lease; None where several may."""
    found = [one for one in sidecars_in(inventory) if one.program == program]
    held = leader(scene, program, driver)
    if held is not None:
        namespace = held.key.partition("/")[0]
        found = [one for one in found if home_of(one) == namespace]
        found = [one for one in found if held.holder.startswith(one.item.name)] or found
    return found[0] if len(found) == 1 else None


def _command(finding: Finding) -> Command:
    change = finding.change
    if change.where:
        return Command(change.where, f"safe: opens the role, which gets the rule {change.line.removeprefix('- ')}")
    return Command(change.line, "safe: a role with this right alone, and its binding")
