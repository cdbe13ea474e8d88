"""The reference of the command lines as a page, made from the programs' own help."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from typer.main import get_command

from api import command
from client.agent import parser as agent_parser
from client.cli import main

HEAD = """\
# Commands

Made from the programs' own help by `make reference`: `PROGRAM COMMAND --help` says the same.

"""
PROGRAMS = (("podyard", command.app), ("yardctl", main.app))


def cli_page() -> str:
    """The whole page."""
    return HEAD + "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    for name, app in PROGRAMS:
        yield f"## {name}\n"
        yield from _command(name, get_command(app), depth=0)
    yield "## podyard-agent\n"
    yield "One on each node; see [the node agent](agent.md).\n"
    for action in agent_parser()._actions:
        if action.option_strings and action.dest != "help":
            value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
            label = f"{', '.join(action.option_strings)} {value}".strip()
            yield f"- `{label}` {_text(action.help or '')}".rstrip()


def _command(path: str, found: Any, depth: int) -> Iterator[str]:  # noqa: ANN401 - click's, whose types typer hides
    """One command, then those below it."""
    if depth:
        yield f"### `{path}`\n"
    said = _text(found.help or "")
    if said:
        yield said + "\n"
    if not hasattr(found, "commands") or depth == 0:
        yield from _parameters(found)
    if epilog := getattr(found, "epilog", None):
        yield _text(epilog) + "\n"
    for name, below in getattr(found, "commands", {}).items():
        if not below.hidden:
            yield from _command(f"{path} {name}", below, depth + 1)


def _parameters(found: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    rows = []
    for parameter in found.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        value = _metavar(parameter)
        if parameter.param_type_name == "argument":
            label = value
        else:
            names = ", ".join((*parameter.opts, *parameter.secondary_opts))
            label = names if parameter.is_flag else f"{names} {value}"
        said = _text(getattr(parameter, "help", None) or "")
        rows.append(f"- `{label}` {said}{_default(parameter)}".rstrip())
    if rows:
        yield "\n".join(rows) + "\n"


def _default(parameter: Any) -> str:  # noqa: ANN401 - as above
    default = parameter.default
    if default in (None, False, (), []) or callable(default) or not parameter.show_default:
        return ""
    return f" Default `{getattr(default, 'value', default)}`."


def _metavar(parameter: Any) -> str:  # noqa: ANN401 - as above
    """What stands for the value."""
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.bare_type()
    kind = next((k for k in get_args(kind) if k is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    return {int: "N", float: "N", str: "TEXT", Path: "FILE"}.get(kind, "VALUE")


def _text(help_: str) -> str:
    """Paragraphs kept, lines joined."""
    parts = re.split(r"\n\s*\n", help_.strip())
    return "\n\n".join(re.sub(r"\s+", " ", part).strip() for part in parts)
