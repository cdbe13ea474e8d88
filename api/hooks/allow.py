"""Where hooks may be: an operator's list, and addresses that no list can allow.

A hook's URL comes from whoever submits a job, and it is this service that calls it, from where it
stands. So only listed places are called, and the address that was checked is the one connected to.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

PORTS = {"http": 80, "https": 443}

URL_MAX = 2_048

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data"})
"""Names by which clouds tell a machine its secrets; their addresses are refused as well."""

METADATA: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local: AWS, Azure, Google, OpenStack
        "100.100.100.200/32",  # Alibaba
        "192.0.0.192/32",  # Oracle
        "168.63.129.16/32",  # Azure's own channel to its machines
        "fd00:ec2::254/128",  # AWS
        "fd20:ce::254/128",  # Google
    )
)

EMBEDDING: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "::ffff:0:0/96",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
    )
)
"""IPv6 that stands for an IPv4 address: another way to write one that is refused."""


def nobody() -> bool:
    """Callers are not asked who they are."""
    return False


class HookRefused(Exception):
    """A place that hooks may not be at; the message says why and what is allowed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL points, as far as it says itself.

    Attributes:
        host: In lower case, without a final dot; an IPv6 address without brackets.
        address: The host, where it is an address.
        shown: The URL without its query, which may hold a secret.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None
    shown: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """The places that an operator lists.

    Attributes:
        hosts: Exact names, in lower case.
        suffixes: `.example.com` for `*.example.com`.
        networks: Addresses, whatever name leads to them.
        loopback: This machine is allowed though not listed, as nobody else can reach the service...
        asks: ... unless callers are asked who they are: then not all of them may do everything.
    """

    hosts: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    loopback: bool = False
    asks: Callable[[], bool] = nobody

    def _is_alone(self) -> bool:
        return self.loopback and not self.asks()

    def names(self, host: str) -> bool:
        """Whether a name is listed."""
        return host in self.hosts or any(host.endswith(suffix) for suffix in self.suffixes)

    def check_url(self, url: str) -> Target:
        """Refuse a URL that no resolver could make allowed.

        Raises:
            HookRefused: If it is none, or if its host never is allowed.
        """
        target = parse(url)
        if target.address is not None:
            self.check_address(target, target.address)
        elif target.host in METADATA_NAMES:
            raise HookRefused(f"host '{target.host}' tells machines their secrets; it is no hook")
        elif self.names(target.host) or (_is_local(target.host) and self._is_alone()):
            pass
        elif not self.networks:
            raise HookRefused(f"host '{target.host}' is not in hook_allow: {self}")
        return target

    def check_address(self, target: Target, address: Address) -> None:
        """Refuse to connect to an address on behalf of a URL.

        Raises:
            HookRefused: If that is not allowed.
        """
        where = f"'{target.host}'" if target.address else f"'{target.host}' ({address})"
        never = why_never(address)
        if never is not None:
            raise HookRefused(f"{where} is {never}, which is never a hook")
        listed = [network for network in self.networks if address in network]
        if address.is_loopback:
            # A list of all addresses means all others: this machine is to be named as such.
            is_local = target.address is not None or _is_local(target.host)
            named = target.address is None and self.names(target.host)
            if any(network.is_loopback for network in listed):
                return
            if (is_local and named) or ((is_local or named) and self._is_alone()):
                return
            raise HookRefused(
                f"{where} is a loopback address; hook_allow does not list it, and others can reach "
                "this service, or it asks who they are"
            )
        if listed:
            return
        if target.address is None and self.names(target.host):
            return
        raise HookRefused(f"{where} is not in hook_allow: {self}")

    def __str__(self) -> str:
        listed = [*sorted(self.hosts), *(f"*{s}" for s in self.suffixes), *map(str, self.networks)]
        return ", ".join(listed[:20]) or "it lists nothing"


NOWHERE = Allowed()


def read_allowed(
    entries: Sequence[str], *, loopback: bool, asks: Callable[[], bool] = nobody
) -> Allowed:
    """The list of an operator: host names, `*.example.com`, addresses and CIDRs.

    Raises:
        ValueError: If an entry is none of them, or can never be allowed.
    """
    hosts: set[str] = set()
    suffixes: list[str] = []
    networks: list[Network] = []
    for entry in entries:
        text = entry.strip().lower().rstrip(".")
        network = _network(text)
        if network is not None:
            networks.append(network)
        elif _is_name(text.removeprefix("*.")):
            if text.startswith("*."):
                suffixes.append(text[1:])
            else:
                hosts.add(text)
        else:
            raise ValueError(
                f"hook_allow: found '{entry}'; an entry is a host, *.domain, address or CIDR"
            )
    return Allowed(frozenset(hosts), tuple(sorted(suffixes)), tuple(networks), loopback, asks)


def parse(url: str) -> Target:
    """Where a URL points; what browsers and resolvers read differently is refused.

    Raises:
        HookRefused: With what is wrong.
    """
    if len(url) > URL_MAX or any(c <= " " or c in '\\\x7f"<>^`{|}' or c > "~" for c in url):
        raise HookRefused("it is not a URL of plain ASCII without blanks and backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise HookRefused(f"it is not a URL: {error}") from None
    if parts.scheme not in PORTS:
        raise HookRefused(f"found scheme '{parts.scheme}'; allowed are http and https")
    if "@" in parts.netloc:
        raise HookRefused("a user or password in a URL is shown to whoever sees the job")
    if parts.fragment or url.endswith("#"):
        raise HookRefused("a fragment is never sent; leave it out")
    if port == 0:
        raise HookRefused("port 0 cannot be connected to")
    host = (parts.hostname or "").rstrip(".")
    address = _address(host, parts)
    if address is None and not _is_name(host):
        raise HookRefused(f"found host '{host[:80]}'; it is neither a name nor an address")
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return Target(url, parts.scheme, host, port or PORTS[parts.scheme], address, shown)


def why_never(address: Address) -> str | None:
    """What makes an address one that no list allows; None if nothing does."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return "bound to one interface"
        if address.is_loopback:
            return None
        if any(address in network for network in EMBEDDING):
            return "an IPv4 address written as IPv6"
    if any(address.version == net.version and address in net for net in METADATA):
        return "a metadata or link-local address"
    for is_so, words in (
        (address.is_unspecified, "the unspecified address"),
        (address.is_multicast, "a multicast address"),
        (address.is_link_local, "a link-local address"),
        (isinstance(address, IPv4Address) and address in _THIS, "an address of no network"),
        (address == IPv4Address("255.255.255.255"), "the broadcast address"),
        (isinstance(address, IPv6Address) and address.is_site_local, "a site-local address"),
    ):
        if is_so:
            return words
    if address.is_reserved and not address.is_loopback:
        return "a reserved address"
    return None


_THIS = IPv4Network("0.0.0.0/8")


def _address(host: str, parts: SplitResult) -> Address | None:
    """The host as an address, where it is one; forms that only some resolvers take are refused."""
    if "[" in parts.netloc:
        try:
            return IPv6Address(host)
        except ValueError:
            raise HookRefused(f"found host '{host[:80]}'; it is no IPv6 address") from None
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are 127.0.0.1 to some and nothing to others.
        try:
            return IPv4Address(host)
        except ValueError:
            raise HookRefused(
                f"found host '{host[:80]}'; an address has four decimal numbers without leading "
                "zeros"
            ) from None
    return None


def _is_name(host: str) -> bool:
    labels = host.split(".")
    return 0 < len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def _is_local(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost")


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def address_of(text: str) -> Address:
    """An address as a resolver gives it. Raises ValueError if it is none."""
    return ip_address(text)
