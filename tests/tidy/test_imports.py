"""What import-linter cannot say: lists of what *is* allowed."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.tidy.source import PACKAGES, ROOT, nodes, python_files

CORE_THIRD_PARTY = {
    "numpy": ("scheduler",),  # hot arrays
    "networkx": ("scheduler/topology", "scheduler/importers", "scheduler/explain"),
    "yaml": ("scheduler/importers",),
}

LOADED_BY_NAME = {
    "httptools": "uvicorn's fast HTTP parser",
    "psycopg": "SQLAlchemy's driver for PostgreSQL",
    "uvloop": "uvicorn's fast event loop",
}

MODULE_OF = {
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
    "pyyaml": "yaml",
}
"""Distributions whose module has another name than theirs, dashes apart."""


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Top-level names of the modules that a file imports, with the line."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno


def is_ours(name: str) -> bool:
    return name in {*PACKAGES, "tests", "benchmarks"}


def third_party(path: Path) -> Iterator[tuple[str, int]]:
    for name, line in imported(path):
        if name not in sys.stdlib_module_names and not is_ours(name):
            yield name, line


def test_core_imports_third_parties_only_where_they_are_allowed() -> None:
    found = [
        f"{path}:{line} {name}"
        for path in python_files("scheduler")
        for name, line in third_party(path)
        if not path.as_posix().startswith(CORE_THIRD_PARTY.get(name, ("nowhere",)))
    ]
    assert not found, "\n".join(found)


def test_declared_dependencies_are_those_imported() -> None:
    """One that is used but not declared breaks an installation; one not used burdens it."""
    extras = project()["optional-dependencies"]
    extra = [named for extra, these in extras.items() if extra != "test" for named in these]
    declared = {module_of(named) for named in [*project()["dependencies"], *extra]}
    used = {name for path in python_files(*PACKAGES) for name, _ in third_party(path)}
    assert used - declared - carried_along() == set()
    assert declared - used - LOADED_BY_NAME.keys() == set()


def test_tests_import_only_what_is_declared() -> None:
    """What happens to be installed on one machine is missing on the next."""
    required = [*project()["dependencies"], *project()["optional-dependencies"]["test"]]
    declared = {module_of(requirement) for requirement in required}
    used = {n for path in python_files("tests", "benchmarks") for n, _ in third_party(path)}
    assert used - declared - carried_along() == set()


def project() -> dict[str, Any]:
    """The `project` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def carried_along() -> set[str]:
    """Modules that a declared package is built on and shows in its own API."""
    return {"click", "pydantic_core", "starlette"}


def module_of(requirement: str) -> str:
    name = re.split(r"[\[<>=~!; ]", requirement, maxsplit=1)[0].lower()
    return MODULE_OF.get(name, name.replace("-", "_"))


def test_every_folder_of_the_packages_is_a_package() -> None:
    """A folder without `__init__.py` is left out by the import contracts."""
    folders = {path.parent for path in python_files(*PACKAGES)}
    missing = [str(f) for f in sorted(folders) if not (ROOT / f / "__init__.py").is_file()]
    assert not missing, "\n".join(missing)


def test_shipped_code_imports_neither_tests_nor_benchmarks() -> None:
    found = [
        f"{path}:{line}"
        for path in python_files(*PACKAGES)
        for name, line in imported(path)
        if name in {"tests", "benchmarks"}
    ]
    assert not found, "\n".join(found)
