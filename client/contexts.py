"""Services that a person works with, by name, in a file of their own.

The file is `contexts.yaml` in `$PODYARD_CONFIG`, else in `podyard` of `$XDG_CONFIG_HOME`, else in
`~/.config/podyard`. It may hold tokens, so nobody else may read it; files with tokens are better.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from client.access import NOTHING, Access
from client.errors import InputError

FILE = "contexts.yaml"
FIELDS = ("server", "namespace", "token", "token_file", "ca_file")

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class BadContexts(InputError):
    """A file of contexts that cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """One service, the namespace that is meant there, and how to show who one is.

    Attributes:
        server, namespace: "" = as without a context.
        access: For this service alone.
    """

    server: str = ""
    namespace: str = ""
    access: Access = NOTHING


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts; `current` is "" where none is in use."""

    current: str = ""
    known: Mapping[str, Context] = field(default_factory=dict)

    def chosen(self) -> Context:
        """The one in use: that of `PODYARD_CONTEXT`, else the current one.

        Raises:
            BadContexts: If there is none of that name.
        """
        name = os.environ.get("PODYARD_CONTEXT") or self.current
        return self.get(name) if name else Context()

    def get(self, name: str) -> Context:
        """The context of a name.

        Raises:
            BadContexts: If there is none.
        """
        if name not in self.known:
            there = ", ".join(sorted(self.known)) or "none yet"
            raise BadContexts(f"there is no context '{name}'; there are: {there}")
        return self.known[name]


def contexts_file() -> Path:
    """Where the contexts are kept."""
    given = os.environ.get("PODYARD_CONFIG")
    if given:
        return Path(given) / FILE
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "podyard" / FILE


def load_contexts() -> Contexts:
    """The contexts there are; none where there is no file.

    Raises:
        BadContexts: If the file is not as it should be.
    """
    path = contexts_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise BadContexts(f"cannot read {path}: {error}") from None
    import yaml  # not at the start: most commands run without a file

    try:
        found = yaml.safe_load(text)
        return _contexts({} if found is None else found)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise BadContexts(f"{path}: {error}") from None


def save_contexts(contexts: Contexts) -> None:
    """Write the file whole, or leave the old one.

    Raises:
        BadContexts: If it cannot be written.
    """
    import yaml

    path = contexts_file()
    body = {
        "current": contexts.current,
        "contexts": {
            name: {field: value for field, value in _fields(context).items() if value}
            for name, context in sorted(contexts.known.items())
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
        written.touch(mode=0o600)
        written.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
        written.replace(path)
    except OSError as error:
        raise BadContexts(f"cannot write {path}: {error}") from None


def is_context_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _contexts(body: object) -> Contexts:
    if not isinstance(body, dict):
        raise TypeError("the file must hold an object with 'current' and 'contexts'")
    known = body.get("contexts") or {}
    if not isinstance(known, dict):
        raise TypeError("contexts: must be an object of contexts by name")
    found = {str(name): _context(str(name), one or {}) for name, one in known.items()}
    return Contexts(str(body.get("current") or ""), found)


def _context(name: str, body: object) -> Context:
    if not isinstance(body, dict):
        raise TypeError(f"contexts.{name}: must be an object with 'server' and 'namespace'")
    unknown = sorted(set(body) - set(FIELDS))
    if unknown:
        raise ValueError(f"contexts.{name}.{unknown[0]}: unknown; allowed are {', '.join(FIELDS)}")
    server, namespace, token, token_file, ca_file = (str(body.get(f) or "") for f in FIELDS)
    return Context(server, namespace, Access(token, token_file, ca_file))


def _fields(context: Context) -> dict[str, str]:
    shown = context.access
    values = (context.server, context.namespace, shown.token, shown.token_file, shown.ca_file)
    return dict(zip(FIELDS, values, strict=True))
