"""Tokens of an identity provider (OpenID Connect): signature, issuer, audience and times checked.

PyJWT checks the signatures, with algorithms that are named here and none that a token asks for
beside them. Keys come from a file, or over HTTPS from the issuer; unknown ones are looked for
again, but not more often than every few seconds, whatever anybody sends.
"""

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import jwt
from jwt.algorithms import AllowedPublicKeys
from jwt.types import Options

from api.auth.caller import Caller
from api.auth.claims import Rules
from api.auth.credentials import Unauthenticated
from api.auth.signed import is_safe_url
from scheduler.errors import Problem, SchedulerError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""With a public key, all of them: a secret that is shared would have to be here too."""

LEEWAY_S = 30.0
"""By which clocks may differ."""

REFETCH_S, KEPT_S = 10.0, 3_600.0
"""Keys are fetched not more often than the first, and anew after the second."""

FETCH_S, KEY_BYTES_MAX = 5.0, 1024 * 1024

VERIFIED_S, VERIFIED_MAX = 30.0, 10_000
"""How long a signature is not checked again, and of how many tokens."""

_OPTIONS: Options = {
    "require": ["exp", "iss", "aud", "sub"],
    "verify_signature": True,
    "verify_exp": True,
    "verify_nbf": True,
    "verify_iat": True,
    "verify_aud": True,
    "verify_iss": True,
}


class KeysUnavailable(SchedulerError):
    """The issuer's keys cannot be had now, and without them nobody can be known."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider.

    Attributes:
        jwks_file: With its keys; else they are fetched.
        jwks_url: Where from; "" = where the issuer's description says.
    """

    issuer: str
    audience: str
    rules: Rules
    jwks_file: str = ""
    jwks_url: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom a token is about, and until when."""

    caller: Caller
    expires_at: float


@dataclass(frozen=True, slots=True)
class _Key:
    """A public key; `algorithm` is the one it is for, "" where its issuer does not say."""

    key: AllowedPublicKeys
    algorithm: str


class Verifier:
    """Knows the tokens of one issuer. Its methods may be called from any thread.

    Args:
        fetch: Reads a URL; over HTTPS, or from this machine.
    """

    def __init__(
        self,
        issuer: Issuer,
        *,
        fetch: Callable[[str], bytes] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_keys
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._keys: Mapping[str, _Key] = {}
        self._tried_s = self._read_s = float("-inf")
        self._verified: OrderedDict[bytes, tuple[Person, float]] = OrderedDict()

    def at_hand(self, text: str) -> Person | None:
        """Whom a token is about that was verified a moment ago."""
        found = self._verified.get(_key(text))
        if found is None or found[1] < self._monotonic() or found[0].expires_at <= time.time():
            return None
        return found[0]

    def verify(self, text: str) -> Person:
        """Whom a token is about.

        Raises:
            Unauthenticated: If it is not a good token of the issuer for this service.
            Forbidden: If nobody gave its holder a role.
            KeysUnavailable: If there are no keys to check it with.
        """
        try:
            header = jwt.get_unverified_header(text)
            algorithm, kid = header.get("alg"), header.get("kid", "")
            if algorithm not in ALGORITHMS or not isinstance(kid, str):
                raise Unauthenticated("the token is signed in a way that is not allowed")
            claims = self._claims(text, self._key(kid, algorithm), algorithm)
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the token of the identity provider is over") from None
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"the token is not a good one: {_words(error)}") from None
        person = Person(self._issuer.rules.caller_of(claims), float(str(claims["exp"])))
        self._remember(text, person)
        return person

    def load(self) -> None:
        """Read the keys now.

        Raises:
            KeysUnavailable: If that fails.
        """
        with self._lock:
            self._read_keys()

    def _claims(self, text: str, key: _Key, algorithm: str) -> dict[str, object]:
        # The bare key: with a whole JWK PyJWT takes one without `alg` for its commonest one alone.
        found: dict[str, object] = jwt.decode(
            text,
            key.key,
            algorithms=[algorithm],
            audience=self._issuer.audience,
            issuer=self._issuer.issuer,
            leeway=LEEWAY_S,
            options=_OPTIONS,
        )
        return found

    def _key(self, kid: str, algorithm: str) -> _Key:
        with self._lock:
            key = self._known(kid)
            now_s = self._monotonic()
            is_due = key is None or now_s - self._read_s > KEPT_S
            if is_due and now_s - self._tried_s > REFETCH_S:
                try:
                    self._read_keys()
                except KeysUnavailable:
                    # Those that are there are used on; the issuer may be away for a while.
                    if key is None:
                        raise
                key = self._known(kid) or key
            if key is None:
                if not self._keys:
                    raise KeysUnavailable(
                        Problem("", "the identity provider's keys cannot be had; try again")
                    )
                raise Unauthenticated(
                    "the token is signed with a key that its issuer does not have"
                )
        if key.algorithm not in {"", algorithm}:
            raise Unauthenticated(f"the token's key is for {key.algorithm}, not for {algorithm}")
        return key

    def _known(self, kid: str) -> _Key | None:
        if kid:
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    def _read_keys(self) -> None:
        self._tried_s = self._monotonic()
        try:
            self._keys = _usable(json.loads(self._text()))
        except (OSError, ValueError, TypeError, httpx.HTTPError, jwt.PyJWTError) as error:
            raise KeysUnavailable(
                Problem("", f"the keys of {self._issuer.issuer} cannot be read: {_words(error)}")
            ) from None
        self._read_s = self._tried_s

    def _text(self) -> bytes:
        if self._issuer.jwks_file:
            return Path(self._issuer.jwks_file).read_bytes()
        url = self._issuer.jwks_url
        if not url:
            there = self._issuer.issuer.rstrip("/") + "/.well-known/openid-configuration"
            told = json.loads(self._fetch(there))
            if told.get("issuer") != self._issuer.issuer:
                raise ValueError(f"{there} is about another issuer")
            url = str(told["jwks_uri"])
        return self._fetch(url)

    def _remember(self, text: str, person: Person) -> None:
        until_s = self._monotonic() + VERIFIED_S
        with self._lock:
            self._verified[_key(text)] = (person, until_s)
            while len(self._verified) > VERIFIED_MAX:
                self._verified.popitem(last=False)


def fetch_keys(url: str) -> bytes:
    """Read a URL of an identity provider.

    Raises:
        ValueError: If it is not HTTPS, or more than a list of keys would be.
        httpx.HTTPError: If it cannot be read.
    """
    if not is_safe_url(url):
        raise ValueError(f"'{url[:200]}' is not an https:// URL")
    with httpx.Client(timeout=FETCH_S, follow_redirects=False) as client:  # noqa: SIM117 - one block reads worse
        with client.stream("GET", url) as answer:
            answer.raise_for_status()
            read = bytearray()
            for chunk in answer.iter_bytes():
                read += chunk
                if len(read) > KEY_BYTES_MAX:
                    raise ValueError(f"'{url[:200]}' has more than {KEY_BYTES_MAX} bytes")
    return bytes(read)


def _usable(body: object) -> dict[str, _Key]:
    """Public keys that sign, by id; those of unknown kinds are left out."""
    keys = body.get("keys") if isinstance(body, dict) else None
    if not isinstance(keys, list):
        raise ValueError("there is no list 'keys'")
    found = {}
    for entry in keys:
        if not isinstance(entry, dict) or entry.get("kty") not in {"RSA", "EC", "OKP"}:
            continue
        if entry.get("use", "sig") != "sig" or "d" in entry:
            continue
        try:
            key = jwt.PyJWK.from_dict(entry).key
            found[str(entry.get("kid", ""))] = _Key(key, str(entry.get("alg", "")))
        except (jwt.PyJWTError, ValueError):
            continue
    if not found:
        raise ValueError("none of the keys can be used")
    return found


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _words(error: Exception) -> str:
    """Why, in one line; errors of PyJWT tell nothing of the token's contents but its claims."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
