"""Networks of IP, as fields that are as old as Kubernetes have them: not in one spelling alone."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause

_NETWORK_TEXT: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9]+\.)|(?<=\.)0+(?=[0-9])")
"""Those of the parts of an IPv4 address."""
_LENGTH: Final = re.compile(r"[0-9]{1,9}")


def validate_network(text: str, field: str) -> list[FieldCause]:
    """text: an address and the length of its prefix."""
    network, (given, _, length) = network_of(text), text.partition("/")
    if network is None:
        return [field_errors.invalid(field, text, _NETWORK_TEXT)]
    if _LEADING_ZEROS.search(given) or str(int(length)) != length:
        return [field_errors.invalid(field, text, "must not have leading 0s in IP or prefix length")]
    address = ipaddress.ip_address(given)
    if _is_mapped(address):
        return [field_errors.invalid(field, text, "must not have an IPv4-mapped IPv6 address")]
    if address != network.network_address:
        return [field_errors.invalid(field, text, "must not have bits set beyond the prefix length")]
    return []


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """None for what is none, however leniently it is read."""
    given, slash, length = text.partition("/")
    address = _parsed(_LEADING_ZEROS.sub("", given))
    if address is None or not slash or not _LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        return None
    return ipaddress.ip_network((address, int(length)), strict=False)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for what is no address, or one of an interface."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """True for an IPv4 address in the clothes of IPv6."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
