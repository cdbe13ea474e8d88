import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.source import PACKAGES, FunctionNode, functions, lines, nodes, python_files

SHIPPED = python_files(*PACKAGES)

LEVEL_NAMES = {"rack", "leaf", "block"}
"""Levels of the default inventory; a core that knew them would not work on another."""

VAGUE_MODULES = {"utils", "util", "helpers", "helper"}

SHORT_LINES = 10

_LOOK_AWAY = re.compile(
    r"#\s*(?:noqa(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?"
    r"|type:\s*ignore(?:\[[\w,\s-]*\])?"
    r"|pragma:\s*no\s*(?:cover|branch))(?P<rest>.*)"
)


def has_reason(text: str) -> bool:
    """Whether a comment says something: two words or more."""
    return len(re.findall(r"[^\W\d_]{2,}", text)) >= 2


def test_assert_stays_in_tests() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in SHIPPED
        for node in nodes(path)
        if isinstance(node, ast.Assert)
    ]
    assert not found, "\n".join(["say scheduler.errors.invariant(condition, message):", *found])


def test_catching_everything_gives_its_reason() -> None:
    """On the line or the next. A handler that cleans up and raises again lets nothing go by."""
    found = [
        f"{path}:{handler.lineno}"
        for path in SHIPPED
        for handler in broad_handlers(path)
        if not raises_again(handler)
        and not any(has_reason(comment) for comment in comments_at(path, handler.lineno))
    ]
    assert not found, "\n".join(found)


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def comments_at(path: Path, line_number: int) -> Iterator[str]:
    """What is said behind a line and at the start of the next."""
    yield lines(path)[line_number - 1].partition("#")[2]
    below = lines(path)[line_number].strip()
    if below.startswith("#"):
        yield below


def test_core_never_catches_everything() -> None:
    found = [f"{p}:{h.lineno}" for p in python_files("scheduler") for h in broad_handlers(p)]
    assert not found, "\n".join(found)


def broad_handlers(path: Path) -> Iterator[ast.ExceptHandler]:
    for node in nodes(path):
        if isinstance(node, ast.ExceptHandler) and catches_everything(node.type):
            yield node


def catches_everything(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(catches_everything(e) for e in kind.elts)
    return kind is None or (
        isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}
    )


def test_lint_is_switched_off_only_with_a_reason() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in python_files()
        if path.parts[:2] != ("tests", "tidy")
        for number, line in enumerate(lines(path), 1)
        if (match := _LOOK_AWAY.search(line)) and not has_reason(match["rest"])
    ]
    assert not found, "\n".join(found)


def test_core_code_knows_no_level_by_name() -> None:
    """Level names are data. They may stand in a message and atop a module of defaults.

    Importers are left out: they speak the words of their formats, and those have such names.
    """
    found = [
        f"{path}:{node.lineno} {node.value!r}"
        for path in python_files("scheduler")
        if path.parts[1] != "importers"
        for node in level_names(path)
        if node not in set(in_messages(path))
        and not (
            (path.parts[1] == "importers" or path.name == "fabric_defaults.py")
            and node in set(in_tables(path))
        )
    ]
    assert not found, "\n".join(found)


def level_names(path: Path) -> Iterator[ast.Constant]:
    for node in nodes(path):
        if isinstance(node, ast.Constant) and node.value in LEVEL_NAMES:
            yield node


def in_messages(path: Path) -> Iterator[ast.AST]:
    """Everything inside formatted strings."""
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            yield from ast.walk(node)


def in_tables(path: Path) -> Iterator[ast.AST]:
    """Everything inside the constants a module assigns at its top."""
    (module,) = (n for n in nodes(path) if isinstance(n, ast.Module))
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            yield from ast.walk(statement)


def test_public_function_that_is_not_short_has_a_docstring() -> None:
    """Where name, types and a few lines say all, a sentence would only repeat them."""
    found = [
        f"{path}:{f.lineno} {f.name}"
        for path in python_files("scheduler", "api")
        for f in public_functions(path)
        if (f.end_lineno or f.lineno) - f.lineno >= SHORT_LINES and ast.get_docstring(f) is None
    ]
    assert not found, "\n".join(found)


def public_functions(path: Path) -> Iterator[FunctionNode]:
    (module,) = (n for n in nodes(path) if isinstance(n, ast.Module))
    for statement in module.body:
        if isinstance(statement, FunctionNode) and not statement.name.startswith("_"):
            yield statement


def test_module_is_named_for_a_noun_or_a_stage() -> None:
    found = [str(path) for path in python_files() if VAGUE_MODULES & {path.stem, *path.parts[:-1]}]
    assert not found, "\n".join(found)


def test_test_does_not_sleep() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in python_files("tests")
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]
    assert not found, "\n".join(["wait for what must happen, not for time to pass:", *found])


def test_nothing_is_read_from_beside_the_project() -> None:
    """What a test needs is in the repository, but for samples that licences keep out of it."""
    found = [
        f"{path}:{node.lineno}"
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "parents"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and node.slice.value >= len(path.parts)
        and path.name not in {"samples.py", "test_cards.py"}
    ]
    assert not found, "\n".join(found)


def test_test_name_is_a_sentence() -> None:
    """A subject and what it does: three words after `test` at least."""
    found = [
        f"{path}:{f.lineno} {f.name}"
        for path in python_files("tests")
        for f in functions(path)
        if f.name.startswith("test_") and len(f.name.split("_")) < 4
    ]
    assert not found, "\n".join(found)
