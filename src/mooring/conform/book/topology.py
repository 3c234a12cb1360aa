"""CSI116, CSI117: the keys and values of topologies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.past import Past, topologies, topology_prefix
from mooring.conform.book.rule import Breach, Rule

FORM = Rule(
    "CSI116",
    "a topology's key or value can't be a label",
    "A topology's key MUST be a name of at most 63 letters, digits, dashes, underscores and dots, perhaps "
    "after a domain in lower case and a slash, and no two differ in case alone. Kubernetes wants such a "
    "name as the value, or none.",
    "createvolume",
    "A node's topology becomes labels of its Node: the API server refuses them, and the kubelet does not "
    "register the driver there.",
    "Answer segments like `topology.csi.example.com/zone: eu-1a`.",
)
PREFIX = Rule(
    "CSI117",
    "topology keys have several prefixes",
    "The prefix of topology keys MUST be the same in all answers of the driver.",
    "createvolume",
    "Nothing breaks in Kubernetes, which compares whole keys; another orchestrator may take one prefix for the "
    "driver's.",
    "Name all your keys below one domain of your own.",
    "nodes of ebs, gcp-pd and vultr have keys of several prefixes.",
)

RULES: Final = (FORM, PREFIX)

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok:
        return
    for segments in topologies(exchange):
        if found := next(_faults(segments), ""):
            yield exchange.breaks(FORM, found)
            return
    prefix = past.topology_prefix
    for segments in topologies(exchange):
        for key in segments:
            other = topology_prefix(key)
            prefix = prefix or other
            if other and other != prefix:
                yield exchange.breaks(
                    PREFIX, f"the key {key!r} has not the prefix {prefix!r}, as the driver's other keys"
                )
                return


def _faults(segments: Mapping[str, str]) -> Iterator[str]:
    folded: dict[str, str] = {}
    for key, value in sorted(segments.items()):
        prefix, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
            yield f"the key is {key!r}"
        if value and not _NAME.fullmatch(value):
            yield f"the value of {key!r} is {value!r}"
        if (other := folded.setdefault(key.lower(), key)) != key:
            yield f"the keys {other!r} and {key!r} differ in case alone"
