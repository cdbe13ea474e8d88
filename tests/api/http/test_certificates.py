"""Certificates of agents, over real connections with certificates made here."""

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api.auth import Caller, Role
from api.clock import SystemClock
from api.http.certificates import client_certificates, nodes_of
from api.http.serving import Server
from api.main import create_app
from api.settings import Settings
from api.store.schema import open_database
from api.store.tokens import add_token
from client.access import Access
from client.errors import ApiError, Unreachable
from client.http import Client
from client.transport import Retry

PATIENCE_S = 30.0
DAY = dt.timedelta(days=1)


class Authority:
    """Makes certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = self._write(f"{name}.pem", self._sign(self._name, self._key, is_authority=True))

    def make(self, common_name: str, *sans: x509.GeneralName, until: dt.timedelta = DAY) -> str:
        """File with a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        made = self._sign(subject, key, *sans, until=until)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._write(f"{made.serial_number}.pem", made, private)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *sans: x509.GeneralName,
        until: dt.timedelta = DAY,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + until)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: bytes = b"") -> str:
        path = self._folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key)
        return str(path)


@dataclass(frozen=True)
class Place:
    url: str
    authority: Authority
    token: str

    def whoami(self, **fields: str) -> dict[str, object]:
        """Who the service takes somebody for."""
        access = Access(ca_file=self.authority.file, **fields)
        with Client(self.url, 10.0, access=access, retry=Retry(tries=1)) as client:
            return dict(client.whoami())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    served = authority.make("podyard", x509.DNSName("localhost"))
    path = folder / "podyard.db"
    path.write_bytes(sqlite_template.read_bytes())
    settings = Settings(
        database_url=f"sqlite:///{path}",
        tls_cert=served,
        tls_key=served,
        tls_client_ca=authority.file,
    )
    with closing(open_database(settings.database_url)) as database, socket.socket() as listener:
        token = add_token(database, Caller("anna", Role.VIEWER), now_s=SystemClock().now_s())
        app = create_app(settings, database, SystemClock(), None)
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
            **client_certificates(settings.tls_client_ca),
        )
        server = Server(config, app.service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        url = f"https://localhost:{listener.getsockname()[1]}"
        try:
            _until_ready(url, authority.file)
            yield Place(url, authority, token.text)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


def _until_ready(url: str, authority: str) -> None:
    context = ssl.create_default_context(cafile=authority)
    for _ in range(600):
        try:
            httpx.get(f"{url}/healthz", verify=context)
            return
        except httpx.TransportError:
            threading.Event().wait(0.05)
    raise AssertionError("the service did not come up")


def test_certificate_of_a_node_makes_its_agent_known(place: Place) -> None:
    cert = place.authority.make("agent", x509.UniformResourceIdentifier("node:n001"))
    assert place.whoami(cert_file=cert) == {
        "asked": True,
        "name": "node:n001",
        "role": "agent",
        "namespaces": None,
        "nodes": ["n001"],
    }
    access = Access(ca_file=place.authority.file, cert_file=cert)
    with (
        Client(place.url, access=access, retry=Retry(tries=1)) as client,
        pytest.raises(ApiError) as refused,
    ):
        client.node("n002")
    assert refused.value.status == 403


def test_common_name_will_do_where_there_is_no_other(place: Place) -> None:
    cert = place.authority.make("node:n7")
    assert place.whoami(cert_file=cert)["nodes"] == ["n7"]


def test_token_goes_before_a_certificate_and_needs_none(place: Place) -> None:
    cert = place.authority.make("node:n7")
    assert place.whoami(cert_file=cert, token=place.token)["name"] == "anna"
    assert place.whoami(token=place.token)["name"] == "anna"


def test_certificate_for_something_else_makes_nobody_known(place: Place) -> None:
    for fields in ({}, {"cert_file": place.authority.make("n001")}):
        with pytest.raises(ApiError) as refused:
            place.whoami(**fields)
        assert refused.value.status == 401


def test_certificate_that_is_foreign_or_over_is_not_even_spoken_to(
    place: Place, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path, "authority").make("node:n7")
    over = place.authority.make("node:n7", until=-DAY)
    for cert in (foreign, over):
        with pytest.raises(Unreachable):
            place.whoami(cert_file=cert)


def test_service_of_another_authority_is_not_spoken_to(place: Place, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    with (
        Client(place.url, verify=other.file, token=place.token, retry=Retry(tries=1)) as client,
        pytest.raises(Unreachable, match="certificate"),
    ):
        client.whoami()


@pytest.mark.parametrize(
    ("certificate", "nodes"),
    [
        ({}, []),
        ({"subject": ((("commonName", "node:a"),),)}, ["a"]),
        ({"subject": ((("organizationName", "node:a"),),)}, []),
        ({"subject": ((("commonName", "node:"),),)}, []),
        ({"subjectAltName": (("URI", "node:a"), ("DNS", "node:b"), ("DNS", "c"))}, ["a", "b"]),
        (
            {"subject": ((("commonName", "node:x"),),), "subjectAltName": (("URI", "node:a"),)},
            ["a"],
        ),
        ({"subject": "node:a", "subjectAltName": 7}, []),
    ],
)
def test_nodes_are_read_from_names_that_say_so(
    certificate: dict[str, object], nodes: list[str]
) -> None:
    assert sorted(nodes_of(certificate)) == nodes
