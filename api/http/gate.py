"""Who somebody is: by a token, a browser's session, a certificate, or an identity provider."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from api.auth import Caller, Role
from api.auth.buckets import Buckets
from api.auth.credentials import Credentials, Unauthenticated, read_credentials
from api.auth.signed import looks_like_one
from api.auth.tokens import SESSION
from api.http.audit_writer import AuditWriter
from api.http.certificates import NODES_KEY
from api.http.keyring import STALE_S, Keyring

if TYPE_CHECKING:
    from api.auth.oidc import Person, Verifier

AGENT_PREFIX = "node:"


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was made out.

    Attributes:
        token: Id of the token or session; "" where it was none of ours.
        expires_at: When they are not known any more; None = never.
    """

    caller: Caller
    token: str = ""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """What `Authenticate` and the login ask.

    Attributes:
        verifier: None where there is no identity provider.
        follows: False where nobody is ever asked who they are.
    """

    keyring: Keyring
    audit: AuditWriter
    buckets: Buckets
    verifier: "Verifier | None" = None
    follows: bool = True

    async def identify(self, scope: Scope) -> Identity:
        """Who sent a request.

        Raises:
            Unauthenticated: If nobody known.
            Forbidden: If somebody known whom nobody gave a role.
        """
        given = read_credentials(scope["headers"])
        nodes = scope.get(NODES_KEY)
        if given is None or (given.is_cookie and nodes):
            if nodes:
                return Identity(agent_of(nodes))
            if given is None:
                raise Unauthenticated("this service asks who you are")
        return await self.identify_text(given)

    async def identify_text(self, given: Credentials) -> Identity:
        """Whose a token is; raises as `identify`."""
        text = given.text
        if given.is_cookie is not text.startswith(SESSION):
            # A session is of use in a cookie alone, which no script can read or send elsewhere.
            raise Unauthenticated("the token is none of this service")
        if self.verifier is not None and looks_like_one(text):
            person = self.verifier.at_hand(text)
            if person is None:
                person = await run_in_threadpool(self.verifier.verify, text)
            return _of_person(person)
        return await self._of_token(text)

    async def _of_token(self, text: str) -> Identity:
        keyring = self.keyring
        if keyring.age_s > STALE_S:
            await run_in_threadpool(keyring.refresh)
        token = keyring.token_of(text)
        if token is None and keyring.may_be_new(text):
            await run_in_threadpool(keyring.refresh)
            token = keyring.token_of(text)
        if token is None:
            raise Unauthenticated("the token is none of this service, revoked or over")
        return Identity(token.caller, token.id, token.expires_at)

    def is_still(self, identity: Identity) -> bool:
        """Whether somebody who was made out before would be again; looks into memory alone."""
        if identity.token:
            return self.keyring.is_good(identity.token)
        return identity.expires_at is None or time.time() < identity.expires_at

    def start(self) -> None:
        """Read the tokens, and follow them from now on; touches the database."""
        if self.follows:
            self.keyring.refresh()
            self.keyring.start()
        self.audit.start()

    def stop(self) -> None:
        """Write down what is still to be."""
        if self.follows:
            self.keyring.stop()
        self.audit.stop()

    def count(self, caller: Caller) -> None:
        """Count a request of somebody.

        Raises:
            TooFast: If they sent too many.
        """
        self.buckets.take(caller.name, time.monotonic())


def agent_of(nodes: frozenset[str]) -> Caller:
    """The caller of a certificate that names nodes."""
    return Caller(AGENT_PREFIX + ",".join(sorted(nodes)[:5]), Role.AGENT, nodes=nodes)


def _of_person(person: "Person") -> Identity:
    return Identity(person.caller, "", person.expires_at)
