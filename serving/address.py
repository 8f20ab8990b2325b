"""Where a server is: `HOST:PORT`, checked before anything is sent there."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse

_LABELS = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?")


def split_address(text: str, port: int) -> tuple[str, int]:
    """The host, without the brackets of IPv6, and the port of an address.

    >>> split_address("ranker", 8500), split_address("[::1]:9000", 8500)
    (('ranker', 8500), ('::1', 9000))

    Args:
        text: `HOST`, `HOST:PORT`, an IPv4 address or an IPv6 address, which has brackets
            where a port follows.
        port: where none is given.

    Raises:
        ValueError: it is no such address.
    """
    try:
        if text.count(":") > 1 and "[" not in text:
            return str(ipaddress.IPv6Address(text)), port
        parts = urllib.parse.urlsplit(f"//{text}")
        # `urlsplit` takes apart more than an address is made of, and drops line ends.
        if parts.netloc != text or parts.username is not None or not parts.hostname:
            raise ValueError("not one host and one port")
        host, found = parts.hostname, port if parts.port is None else parts.port
        if ":" in host:
            ipaddress.IPv6Address(host)
        elif re.fullmatch(r"[\d.]+", host):
            ipaddress.IPv4Address(host)
        elif not _LABELS.fullmatch(host) or len(host) > 253:
            raise ValueError("not the name of a host")
        if text.endswith(":") or found == 0:
            raise ValueError("no port")
    except ValueError as error:
        raise ValueError(
            f"host is {text[:100]!r} ({error}); expected HOST:PORT, such as 127.0.0.1:{port}."
        ) from None
    return host, found


def join_address(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
