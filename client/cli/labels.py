"""Label selectors as kubectl's `-l` takes them, equality only."""

from collections.abc import Callable, Mapping

import typer

Labels = Mapping[str, str]


def matcher(selector: str | None) -> Callable[[Labels], bool]:
    """A test of labels; without a selector everything passes.

    Args:
        selector: `key=value`, `key==value`, `key!=value`, `key` or `!key`; a comma means and.

    Raises:
        typer.BadParameter: If a term has no key.
    """
    tests = [_test(term.strip()) for term in (selector or "").split(",") if term.strip()]
    return lambda labels: all(test(labels) for test in tests)


def _test(term: str) -> Callable[[Labels], bool]:
    if "!=" in term:
        key, _, value = term.partition("!=")
        return _named(term, key, lambda labels, name: labels.get(name) != value.strip())
    if "=" in term:
        key, _, value = term.partition("=")
        wanted = value.removeprefix("=").strip()
        return _named(term, key, lambda labels, name: labels.get(name) == wanted)
    if term.startswith("!"):
        return _named(term, term[1:], lambda labels, name: name not in labels)
    return _named(term, term, lambda labels, name: name in labels)


def _named(term: str, key: str, test: Callable[[Labels, str], bool]) -> Callable[[Labels], bool]:
    name = key.strip()
    if not name or " " in name:
        raise typer.BadParameter(
            f"'{term}' is no label selector; give key=value, key!=value, key or !key"
        )
    return lambda labels: test(labels, name)
