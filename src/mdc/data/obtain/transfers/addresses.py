"""Which network addresses a list of strangers may lead to: public ones, and those that the user names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 networks whose gateways pass on to the IPv4 address in the last 32 bits (RFC 6052)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# the IANA special registries, as Python's ipaddress has them
_SPECIAL = ("private", "loopback", "link_local", "multicast", "reserved", "unspecified", "site_local")


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation ("127.0.0.1/32")."""
    return tuple(map(ipaddress.ip_network, texts))


def allowed(address: str, exceptions: Iterable[Network] = ()) -> bool:
    """Whether a connection to ``address`` (numeric) is allowed: it is public, or in one of the ``exceptions``.

    Not public are also IPv6 addresses that carry an IPv4 address in them which is not.
    """
    try:
        found: Address = ipaddress.ip_address(address.partition("%")[0])  # without the interface
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        gateway = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        found = found.ipv4_mapped or found.sixtofour or gateway or found
    # `is_global` alone has let through different addresses in different versions of Python
    public = found.is_global and not any(getattr(found, f"is_{kind}", False) for kind in _SPECIAL)
    return public or any(found.version == network.version and found in network for network in exceptions)
