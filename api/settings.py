"""What can be set from outside: flags of `podyard serve`, else `PODYARD_*`, else defaults."""

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Role(StrEnum):
    """Which parts of the service a process runs."""

    ALL = "all"
    API = "api"
    RUNNER = "runner"


class Settings(BaseSettings):
    """Settings of one process.

    `DATABASE_URL` is honoured after `PODYARD_DATABASE_URL`, as most platforms set it.
    """

    model_config = SettingsConfigDict(
        env_prefix="PODYARD_", extra="ignore", frozen=True, populate_by_name=True
    )

    database_url: str = Field(
        default="sqlite:///podyard.db",
        validation_alias=AliasChoices("PODYARD_DATABASE_URL", "DATABASE_URL", "database_url"),
    )
    database_url_file: str | None = None
    """File that holds the URL, with its password, so that it stands in no environment."""
    database_connections: int = Field(default=30, ge=5, le=1_000)
    """To PostgreSQL, of this process, at most; two more are for leading and for listening."""
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    role: Role = Role.ALL
    clock: Literal["system", "manual"] = "system"
    log_format: Literal["auto", "text", "json"] = "auto"
    """`auto`: text on a terminal, JSON elsewhere."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    insecure: bool = False
    """Serve without tokens on an address that others can reach."""
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    """Certificates of agents are of this authority; callers with tokens need none."""
    auth: Literal["auto", "required", "off"] = "auto"
    """`auto`: callers are asked who they are once there was a token, or another way to know."""
    session_s: float = Field(default=43_200.0, ge=60, le=30 * 86_400)
    """How long somebody stays logged in with a browser."""
    rate_per_s: float = Field(default=500.0, ge=0, le=1_000_000)
    """Requests of a known caller that come back each second; 0 = no limit."""
    rate_burst: int = Field(default=2_000, ge=1, le=1_000_000)
    """Requests that a known caller may send at once."""
    audit_history_s: float = Field(default=90 * 86_400.0, ge=3_600)
    """How long entries of the audit log are kept."""
    oidc_issuer: str | None = None
    """Identity provider whose tokens are taken; an https:// URL, as in their `iss`."""
    oidc_audience: str | None = None
    """What the `aud` of its tokens has to name: this service."""
    oidc_jwks_file: str | None = None
    """Its public keys; without, they are fetched."""
    oidc_jwks_url: str | None = None
    """Where its public keys are; without, where its description says."""
    oidc_roles_file: str | None = None
    """Who of its people may do what; see docs/security.md."""
    body_bytes_max: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest request body; a dump of the cables of 10,000 nodes on 8 rails has about 44 MB."""
    connections_max: int = Field(default=20_000, ge=10, le=1_000_000)
    """Open at a time; fewer where the system lets the process open no more files."""
    head_timeout_s: float = Field(default=10.0, gt=0, le=600)
    """For a client to send a request up to its body."""
    body_timeout_s: float = Field(default=30.0, gt=0, le=3_600)
    """For the body, beside a second for each 64 KiB of it."""
    event_history: int = Field(default=200_000, ge=1_000)
    """Events kept, at least; older ones answer 410. About 300 bytes each."""
    job_history_s: float = Field(default=30 * 86_400.0, ge=60)
    """How long records of jobs are kept after they ended and their last pod stopped."""
    decision_log: bool = True
    """Write down what each cycle read and decided, for `podyard replay`."""
    decision_history: int = Field(default=10_000, ge=10)
    """Decisions kept, at least, if they are not too large."""
    decision_bytes: int = Field(default=256 * 1024 * 1024, ge=1024 * 1024)
    """Size of the decision log; a copy of 10,000 nodes and 100,000 jobs takes some 5 MB."""

    hook_allow: str = ""
    """Where hooks of jobs may be: hosts, `*.domain`, addresses and CIDRs, comma-separated."""
    hook_secret_file: str | None = None
    """Secrets that messages to hooks are signed with; see docs/hooks.md."""
    hook_timeout_s: float = Field(default=10.0, gt=0, le=300)
    """Of one attempt to deliver a message, all of it."""
    hook_answer_bytes: int = Field(default=64 * 1024, ge=1024, le=16 * 1024 * 1024)
    """Of a hook's answer; a longer one is not taken."""
    hook_concurrency: int = Field(default=32, ge=1, le=1_000)
    """Notices under way at a time; as many requests to save go beside them."""
    hook_tries: int = Field(default=12, ge=1, le=100)
    """Attempts after which a notice is dead; with 12 that is about 2 hours."""
    hook_history_s: float = Field(default=7 * 86_400.0, ge=0)
    """How long messages are shown that are done with."""
    hook_grace_s_max: float = Field(default=3_600.0, ge=0)
    """Longest time that a job may have to save before it leaves."""

    otel_endpoint: str = ""
    """Where traces are posted to in OTLP over HTTP; empty = none are made."""
    launcher: str = ""
    """Words before a job's command that run it in its image, which stands for `{image}`."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")

    @property
    def knows_without_tokens(self) -> bool:
        """Whether callers can be known in another way than by tokens of the service's own."""
        return self.oidc_issuer is not None or self.tls_client_ca is not None

    @field_validator("launcher")
    @classmethod
    def _check_launcher(cls, launcher: str) -> str:
        if launcher and not any("{image}" in word for word in shlex.split(launcher)):
            raise ValueError(f"found '{launcher[:80]}'; {{image}} must be in one of its words")
        return launcher


def read_settings(given: Mapping[str, object]) -> Settings:
    """Settings with what was given on the command line, None = nothing.

    Raises:
        ValueError: With a line for each setting that is wrong.
    """
    flags = {name: value for name, value in given.items() if value is not None}
    try:
        return _with_url(Settings(**flags), flags)  # type: ignore[arg-type]  # checked by the model
    except ValidationError as error:
        found = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ValueError("; ".join(found)) from None


def _with_url(settings: Settings, flags: Mapping[str, object]) -> Settings:
    """With the database's URL from its file, unless a flag gives one."""
    if settings.database_url_file is None or "database_url" in flags:
        return settings
    try:
        url = Path(settings.database_url_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"database_url_file: '{settings.database_url_file}' cannot be read: {error}"
        ) from None
    if not url:
        raise ValueError(f"database_url_file: '{settings.database_url_file}' is empty")
    return settings.model_copy(update={"database_url": url})
