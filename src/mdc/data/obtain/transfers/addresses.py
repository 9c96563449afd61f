"""Which network addresses a list of strangers may lead to: public ones, and those that the user names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from mdc.plan.records import UserError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 networks whose gateways pass on to the IPv4 address in the last 32 bits (RFC 6052)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation ("127.0.0.1/32"); UserError for anything else."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise UserError(
                f"download.runtime.allow_addresses: {text!r} is not a network ({error}); allowed: CIDR, as 10.1.0.0/16"
            ) from None
    return tuple(found)


def allowed(address: str, exceptions: Iterable[Network] = ()) -> bool:
    """Whether a connection to ``address`` (numeric) is allowed: it is public, or in one of the ``exceptions``.

    Not public are private, loopback, link-local, multicast, reserved and unspecified addresses (the IANA special
    registries, as Python's ipaddress has them), and IPv6 addresses that carry such an IPv4 address in them.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])  # without the interface
    except ValueError:
        return False
    return all(
        _is_public(one) or any(one.version == network.version and one in network for network in exceptions)
        for one in _meant(found)
    )


def _meant(address: Address) -> Iterator[Address]:
    """The address itself, or the IPv4 address that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    else:
        yield address


def _is_public(address: Address) -> bool:
    # `is_global` alone has let through different addresses in different versions of Python
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or getattr(address, "is_site_local", False)
    )
    return address.is_global and not special
