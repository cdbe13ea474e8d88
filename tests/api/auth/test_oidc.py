"""Tokens of an identity provider, checked with keys that a real server on this machine gives."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from api.auth import Caller, Forbidden, Role
from api.auth import oidc as module
from api.auth.claims import Rule, Rules
from api.auth.credentials import Unauthenticated
from api.auth.oidc import Issuer, KeysUnavailable, Verifier
from api.auth.signed import is_safe_url, looks_like_one

AUDIENCE = "podyard"
RULES = Rules("sub", (Rule("groups", "llm", Role.SUBMITTER, frozenset({"research"})),))
ANNA = Caller("oidc:anna", Role.SUBMITTER, frozenset({"research"}))

PrivateKey = EllipticCurvePrivateKey | RSAPrivateKey


class Provider:
    """An identity provider: makes tokens and serves its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {"k1": ec.generate_private_key(ec.SECP256R1())}
        self.asked = 0
        self.is_away = False
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += self.path == "/keys"
                found = provider.answers().get(self.path)
                body = json.dumps(found).encode()
                self.send_response(503 if provider.is_away else 404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Not to the tests' output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def answers(self) -> Mapping[str, object]:
        return {
            "/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
            },
            "/keys": {"keys": [self.public(kid) for kid in self.keys]},
        }

    def public(self, kid: str) -> dict[str, Any]:
        key = self.keys[kid].public_key()
        algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePublicKey) else RSAAlgorithm
        return {**json.loads(algorithm.to_jwk(key)), "kid": kid, "use": "sig"}  # type: ignore[arg-type]  # the one for the key

    def token(self, kid: str = "k1", algorithm: str = "ES256", **claims: object) -> str:
        now_s = int(time.time())
        body: dict[str, object] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "anna",
            "groups": ["llm"],
            "iat": now_s,
            "exp": now_s + 300,
        }
        body |= claims
        body = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(body, self.keys[kid], algorithm=algorithm, headers={"kid": kid})

    def verifier(self, monotonic: Callable[[], float] = time.monotonic) -> Verifier:
        return Verifier(Issuer(self.url, AUDIENCE, RULES), monotonic=monotonic)


@pytest.fixture(scope="module")
def one_provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


@pytest.fixture
def provider(one_provider: Provider) -> Provider:
    one_provider.keys = {"k1": one_provider.keys["k1"]}
    one_provider.asked, one_provider.is_away = 0, False
    return one_provider


class Time:
    """A clock that tests move."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_token_of_the_provider_is_known_and_remembered_for_a_while(provider: Provider) -> None:
    clock = Time()
    verifier, text = provider.verifier(monotonic=clock), provider.token()
    assert looks_like_one(text)
    assert verifier.at_hand(text) is None
    found = verifier.verify(text)
    assert found.caller == ANNA
    assert verifier.at_hand(text) == found
    clock.now_s += module.VERIFIED_S + 1
    assert verifier.at_hand(text) is None
    assert provider.asked == 1


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": int(time.time()) - 86_400}, "is over"),
        ({"nbf": int(time.time()) + 86_400}, "not yet valid"),
        ({"aud": "other"}, "[Aa]udience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://other.example"}, "[Ii]ssuer"),
        ({"iss": None}, "iss"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
    ],
)
def test_token_with_other_claims_is_refused(
    provider: Provider, claims: dict[str, object], why: str
) -> None:
    with pytest.raises(Unauthenticated, match=why):
        provider.verifier().verify(provider.token(**claims))  # type: ignore[arg-type]  # claims alone


def test_person_without_a_role_is_known_but_may_nothing(provider: Provider) -> None:
    with pytest.raises(Forbidden, match="'oidc:anna' has no role"):
        provider.verifier().verify(provider.token(groups=["other"]))


def test_token_of_a_foreign_key_is_refused(provider: Provider) -> None:
    good = provider.keys["k1"]
    provider.keys["k1"] = ec.generate_private_key(ec.SECP256R1())
    text = provider.token()
    provider.keys["k1"] = good
    with pytest.raises(Unauthenticated, match="Signature"):
        provider.verifier().verify(text)


def test_token_that_was_changed_is_refused(provider: Provider) -> None:
    head, body, signature = provider.token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "root"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        provider.verifier().verify(f"{head}.{forged}.{signature}")


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_token_without_a_public_key_signature_is_refused(
    provider: Provider, algorithm: str
) -> None:
    """HS256 with something of the public key as its secret is the oldest trick there is."""
    claims = jwt.decode(provider.token(), options={"verify_signature": False})
    secret = None if algorithm == "none" else str(provider.public("k1")["x"]).encode()
    text = jwt.encode(claims, secret, algorithm=algorithm, headers={"kid": "k1"})  # type: ignore[arg-type]  # none has no key
    with pytest.raises(Unauthenticated, match="not allowed"):
        provider.verifier().verify(text)


def test_key_that_says_its_algorithm_is_for_no_other(tmp_path: Path, provider: Provider) -> None:
    provider.keys["r"] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "keys.json"
    issuer = Issuer(provider.url, AUDIENCE, RULES, jwks_file=str(path))
    path.write_text(json.dumps({"keys": [provider.public("r")]}))
    assert Verifier(issuer).verify(provider.token("r", "PS256")).caller == ANNA
    path.write_text(json.dumps({"keys": [provider.public("r") | {"alg": "RS256"}]}))
    with pytest.raises(Unauthenticated, match="the token's key is for RS256, not for PS256"):
        Verifier(issuer).verify(provider.token("r", "PS256"))


def test_new_key_is_looked_for_but_not_with_every_token(provider: Provider) -> None:
    clock = Time()
    verifier = provider.verifier(monotonic=clock)
    verifier.verify(provider.token())
    provider.keys["k2"] = ec.generate_private_key(ec.SECP256R1())
    text = provider.token("k2")
    for _ in range(5):
        with pytest.raises(Unauthenticated, match="a key that its issuer does not have"):
            verifier.verify(text)
    assert provider.asked == 1
    clock.now_s += module.REFETCH_S + 1
    assert verifier.verify(text).caller == ANNA
    assert provider.asked == 2


def test_known_keys_are_used_on_while_the_provider_is_away(provider: Provider) -> None:
    clock = Time()
    verifier = provider.verifier(monotonic=clock)
    verifier.verify(provider.token())
    provider.is_away = True
    clock.now_s += module.KEPT_S + 1
    assert verifier.verify(provider.token(jti="2")).caller == ANNA
    with pytest.raises(KeysUnavailable):
        provider.verifier().verify(provider.token())


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}']
)
def test_keys_that_are_none_are_refused(body: bytes) -> None:
    verifier = Verifier(
        Issuer("https://x.example", AUDIENCE, RULES, jwks_url="https://x.example/keys"),
        fetch=lambda _: body,
    )
    with pytest.raises(KeysUnavailable):
        verifier.load()


def test_description_of_another_issuer_is_refused() -> None:
    told = json.dumps({"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"})
    verifier = Verifier(Issuer("https://x.example", AUDIENCE, RULES), fetch=lambda _: told.encode())
    with pytest.raises(KeysUnavailable, match="is about another issuer"):
        verifier.load()


@pytest.mark.parametrize("text", ["eyJ..", "eyJhIjoxfQ.e30.x", "eyJ!.!.!", f"eyJ{8_000 * 'a'}.."])
def test_text_that_only_looks_like_a_token_is_refused(provider: Provider, text: str) -> None:
    with pytest.raises(Unauthenticated):
        provider.verifier().verify(text)


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://idp.example/keys", True),
        ("http://127.0.0.1:8080/keys", True),
        ("http://localhost/keys", True),
        ("http://idp.example/keys", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("http://[", False),
    ],
)
def test_keys_are_fetched_where_nobody_can_change_them(url: str, *, is_safe: bool) -> None:
    assert is_safe_url(url) is is_safe
