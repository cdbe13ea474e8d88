"""Certificates of clients: read once a connection, and put into the scope of its requests.

The TLS library has checked by then that the client has the key and that the certificate is one of
`tls_client_ca` and not over. uvicorn tells apps nothing of it; its protocol class is made to be
derived from for such things.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from typing import TypedDict

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

NODES_KEY = "podyard.certificate_nodes"
"""Where the nodes that a client's certificate names are put into the scope of a request."""

NODE_PREFIX = "node:"
NAMES_MAX = 1_000


class CertificateProtocol(HttpToolsProtocol):
    """HTTP over a connection whose other end may have shown a certificate."""

    _nodes: frozenset[str] = frozenset()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._nodes = nodes_of(tls.getpeercert() or {})

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._nodes:
            self.scope[NODES_KEY] = self._nodes  # type: ignore[literal-required]  # our own


class ClientCertificates(TypedDict, total=False):
    """Options of uvicorn."""

    http: type[asyncio.Protocol]
    ssl_ca_certs: str
    ssl_cert_reqs: int


def client_certificates(authority: str | None) -> ClientCertificates:
    """How uvicorn is to ask clients for certificates; who has none may still send a token.

    Args:
        authority: File of the authority that made them; None = they are not asked for.
    """
    if authority is None:
        return {}
    return {
        "http": CertificateProtocol,
        "ssl_ca_certs": authority,
        "ssl_cert_reqs": ssl.CERT_OPTIONAL,
    }


def check_certificates(cert: str, key: str | None, authority: str | None) -> None:
    """Read the files that a service with TLS is started with.

    Raises:
        ValueError: Naming those that are no certificate, or no key for it.
    """
    files = f"'{cert}' with the key '{key}'"
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A password would be asked for at a terminal that a service does not have.
        context.load_cert_chain(cert, key, password="")
        if authority is not None:
            files = f"'{authority}'"
            context.load_verify_locations(authority)
    except (OSError, ValueError) as error:
        raise ValueError(f"{files} cannot be used for TLS: {error}") from None


def nodes_of(certificate: Mapping[str, object]) -> frozenset[str]:
    """The nodes whose agent a certificate is for; none if it is for something else.

    Args:
        certificate: As `ssl.SSLSocket.getpeercert` tells of one that was checked.
    """
    said = [value for _, value in _pairs(certificate.get("subjectAltName"))]
    named = _named(said)
    if not named:
        subject = certificate.get("subject")
        parts = subject if isinstance(subject, tuple) else ()
        pairs = (pair for part in parts for pair in _pairs(part))
        named = _named(value for kind, value in pairs if kind == "commonName")
    return frozenset(named[:NAMES_MAX])


def _named(values: Iterable[str]) -> list[str]:
    found = (v.removeprefix(NODE_PREFIX) for v in values if v.startswith(NODE_PREFIX))
    return [name for name in found if name and "\0" not in name]


def _pairs(value: object) -> list[tuple[str, str]]:
    if not isinstance(value, tuple):
        return []
    return [(str(p[0]), str(p[1])) for p in value if isinstance(p, tuple) and len(p) == 2]
