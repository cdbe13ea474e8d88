"""The gate that settings ask for; what is wrong with them is said before anything is served."""

from pathlib import Path
from typing import TYPE_CHECKING

from api.auth.buckets import Buckets
from api.auth.signed import is_safe_url
from api.clock import Clock
from api.hooks.configured import sender_by
from api.http.audit_writer import AuditWriter
from api.http.certificates import check_certificates
from api.http.gate import Gate
from api.http.keyring import Keyring
from api.log import get_logger
from api.settings import Settings
from api.store.engine import Database
from api.store.errors import StartupError
from api.store.tokens import key_version

if TYPE_CHECKING:
    from api.auth.oidc import Verifier

log = get_logger(__name__)

OFF, REQUIRED = "off", "required"


def gate_by(settings: Settings, database: Database, clock: Clock) -> Gate:
    """The gate of a service.

    Raises:
        StartupError: If the identity provider's settings make no sense.
    """
    is_asked = settings.auth != OFF
    always = is_asked and (settings.auth == REQUIRED or settings.knows_without_tokens)
    return Gate(
        keyring=Keyring(database, clock, always=always),
        audit=AuditWriter(database, clock, settings.audit_history_s),
        buckets=Buckets(settings.rate_per_s, settings.rate_burst),
        verifier=verifier_by(settings) if is_asked else None,
        follows=is_asked,
    )


def check_files(settings: Settings) -> None:
    """Read what settings refer to, before anything is opened.

    Raises:
        StartupError: If something is not there, or is not what it should be.
    """
    try:
        sender_by(settings)
    except ValueError as error:
        raise StartupError(str(error)) from None
    verifier_by(settings)
    for path in (settings.tls_cert, settings.tls_key, settings.tls_client_ca):
        if path is not None and not Path(path).is_file():
            raise StartupError(f"the file '{path}' for TLS does not exist")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise StartupError("TLS needs both a certificate and a key")
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        raise StartupError("tls_client_ca is of use with tls_cert and tls_key alone")
    if settings.tls_cert is not None:
        try:
            check_certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        except ValueError as error:
            raise StartupError(str(error)) from None


def is_asking(settings: Settings, database: Database) -> bool:
    """Whether callers are asked who they are, by now."""
    return settings.auth != OFF and (
        settings.auth == REQUIRED or settings.knows_without_tokens or key_version(database) > 0
    )


def check_exposed(settings: Settings, database: Database) -> None:
    """Refuse to serve others without asking them who they are.

    Raises:
        StartupError: If the address can be reached from other machines, nobody would be asked, and
            nobody said that this is meant.
    """
    if settings.is_loopback:
        return
    if is_asking(settings, database):
        if settings.tls_cert is None:
            log.warning("tokens_unencrypted", host=settings.host, advice="tls_cert, or a proxy")
        return
    if not settings.insecure:
        why = "auth is off" if settings.auth == OFF else "there are no tokens yet"
        raise StartupError(
            f"'{settings.host}' can be reached from other machines and {why}: make a token with "
            "`podyard token create --role admin`, listen on 127.0.0.1, or say --insecure"
        )


def verifier_by(settings: Settings) -> "Verifier | None":
    """Knows the tokens of the identity provider; None where there is none.

    Raises:
        StartupError: If the settings are not as they should be.
    """
    if settings.oidc_issuer is None:
        return None
    if not settings.oidc_audience:
        raise StartupError("oidc_issuer needs oidc_audience: what its tokens call this service")
    if not settings.oidc_roles_file:
        raise StartupError("oidc_issuer needs oidc_roles_file: who may do what")
    if not settings.oidc_jwks_file:
        for name in ("oidc_jwks_url", "oidc_issuer"):
            url = getattr(settings, name)
            if url and not is_safe_url(url):
                raise StartupError(f"{name}: found '{url[:200]}'; it must be an https:// URL")
    from api.auth.claims import read_rules
    from api.auth.oidc import Issuer, KeysUnavailable, Verifier

    try:
        rules = read_rules(settings.oidc_roles_file)
    except ValueError as error:
        raise StartupError(f"oidc_roles_file: {error}") from None
    verifier = Verifier(
        Issuer(
            settings.oidc_issuer,
            settings.oidc_audience,
            rules,
            settings.oidc_jwks_file or "",
            settings.oidc_jwks_url or "",
        )
    )
    if settings.oidc_jwks_file:
        try:
            verifier.load()
        except KeysUnavailable as error:
            raise StartupError(f"oidc_jwks_file: {error}") from None
    return verifier
