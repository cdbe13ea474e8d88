"""Services that a person works with, by name, in a file of their own.

The file is `contexts.yaml` in `$PODYARD_CONFIG`, else in `podyard` of `$XDG_CONFIG_HOME`, else in
`~/.config/podyard`. Tokens are not kept in it: they come from `PODYARD_TOKEN`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from client.errors import InputError

FILE = "contexts.yaml"

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class BadContexts(InputError):
    """A file of contexts that cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class Context:
    """One service, and the namespace that is meant there; "" = as without a context."""

    server: str = ""
    namespace: str = ""


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
            name: {k: v for k, v in (("server", c.server), ("namespace", c.namespace)) if v}
            for name, c in sorted(contexts.known.items())
        },
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}")
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
    unknown = sorted(set(body) - {"server", "namespace"})
    if unknown:
        raise ValueError(f"contexts.{name}.{unknown[0]}: unknown; allowed are server, namespace")
    return Context(str(body.get("server") or ""), str(body.get("namespace") or ""))
