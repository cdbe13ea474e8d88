"""What one command knows of its caller: the server, the namespace, the wanted format."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from client.access import NOTHING, Access
from client.cli.output import Output
from client.contexts import Context, load_contexts

if TYPE_CHECKING:
    from client.http import Client

OK, REFUSED, USAGE, UNREACHABLE, IN_VAIN = range(5)
"""Exit codes: done; refused or not found; wrong call; no answer; waited in vain."""

DEFAULT_NAMESPACE = "default"
_JOB_WORDS = {"job", "jobs"}


@dataclass(frozen=True, slots=True)
class Globals:
    """Options that may stand before the verb as well as after it; None = not given."""

    server: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    output: Output | None = None
    labels: str | None = None
    access: Access = NOTHING

    def with_later(self, later: "Globals") -> "Globals":
        """These, with those after the verb going first."""
        return Globals(
            server=later.server or self.server,
            namespace=later.namespace or self.namespace,
            all_namespaces=later.all_namespaces or self.all_namespaces,
            output=later.output or self.output,
            labels=later.labels or self.labels,
            access=self.access,
        )


@dataclass(frozen=True)
class Session:
    """The options of one command, and the client it uses, made when first asked for."""

    options: Globals
    on_close: Callable[[Callable[[], object]], object] = field(repr=False)

    @property
    def output(self) -> Output | None:
        return self.options.output

    @property
    def is_wide(self) -> bool:
        return self.options.output is Output.WIDE

    @property
    def data_output(self) -> Output | None:
        """JSON or YAML, where one of them was asked for."""
        return self.output if self.output in {Output.JSON, Output.YAML} else None

    @property
    def given_namespace(self) -> str | None:
        """The namespace the caller named; None = none."""
        given = self.options.namespace or os.environ.get("PODYARD_NAMESPACE")
        return given or self.context.namespace or None

    @property
    def namespace(self) -> str:
        return self.given_namespace or DEFAULT_NAMESPACE

    @property
    def list_namespace(self) -> str | None:
        """The namespace to list; None = all."""
        return None if self.options.all_namespaces else self.namespace

    @property
    def list_namespace_or_all(self) -> str | None:
        """The namespace that was named, to look at; None = all, also where none was."""
        return None if self.options.all_namespaces else self.given_namespace

    @cached_property
    def context(self) -> Context:
        """What was chosen with `yardctl context`; empty where nothing was."""
        return load_contexts().chosen()

    @cached_property
    def client(self) -> "Client":
        from client.http import DEFAULT_SERVER, Client

        given = self.options.server or os.environ.get("PODYARD_SERVER")
        server = given or self.context.server or DEFAULT_SERVER
        # What a context knows is for its own service, whatever else the command is sent to.
        known = self.context.access if server == self.context.server else Access()
        client = Client(server, access=self.options.access.or_of(os.environ).or_else(known))
        self.on_close(client.close)
        return client

    def job_name(self, text: str) -> tuple[str, str]:
        """Namespace and name of `NAME`, `NAMESPACE/NAME`, `job/NAME` or `job/NAMESPACE/NAME`.

        Raises:
            typer.BadParameter: If it is none of them, or names another namespace than `-n`.
        """
        parts = text.split("/")
        if len(parts) > 1 and parts[0] in _JOB_WORDS:
            parts = parts[1:]
        return self.split_name("/".join(parts))

    def split_name(self, text: str) -> tuple[str, str]:
        """Namespace and name of `NAME` or `NAMESPACE/NAME`.

        Raises:
            typer.BadParameter: If it is neither, or names another namespace than `-n`.
        """
        namespace, slash, name = text.rpartition("/")
        if "/" in namespace or not name or (slash and not namespace):
            raise typer.BadParameter(f"'{text}' is not a name; give NAME or NAMESPACE/NAME")
        if not namespace:
            return self.namespace, name
        if self.options.namespace not in {None, namespace}:
            raise typer.BadParameter(
                f"'{text}' is in namespace '{namespace}', but -n says '{self.options.namespace}'"
            )
        return namespace, name


def open_session(
    ctx: typer.Context,
    *,
    server: str | None = None,
    namespace: str | None = None,
    all_namespaces: bool = False,
    output: Output | None = None,
    labels: str | None = None,
) -> Session:
    """The session of a command, from its own options and those before the verb."""
    before = ctx.obj if isinstance(ctx.obj, Globals) else Globals()
    later = Globals(server, namespace, all_namespaces, output, labels)
    options = before.with_later(later)
    if later.namespace and not later.all_namespaces:
        # `yardctl -A get jobs -n research`: the nearer option is meant.
        options = replace(options, all_namespaces=False)
    return Session(options, ctx.call_on_close)
