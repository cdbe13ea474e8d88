"""The project's own files, parsed once for all rules."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("scheduler", "api", "client")
CODE_FOLDERS = (*PACKAGES, "tests", "benchmarks")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_TEXT_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".txt", ".mako", ".sh", ".service"}
_TEXT_NAMES = {"Makefile", "Dockerfile", "LICENSE", "run", ".gitignore", ".dockerignore"}
_NOT_OURS = re.compile(r"^(\.git|\.venv|build|dist|node_modules|.*\.egg-info|\.\w+_cache)$")


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that belongs to the project, relative to its root, in order."""
    return tuple(sorted(_walk(ROOT)))


def _walk(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if _NOT_OURS.match(entry.name) or entry.is_symlink():
            continue
        if entry.is_dir():
            if entry.name not in {"__pycache__", ".hypothesis"}:
                yield from _walk(entry)
        else:
            yield entry.relative_to(ROOT)


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Python files below the given top folders; below all that hold code when none is given."""
    wanted = folders or CODE_FOLDERS
    return tuple(p for p in project_files() if p.suffix == ".py" and p.parts[0] in wanted)


@cache
def text_files() -> tuple[Path, ...]:
    """Files that people read: code, documents, configuration."""
    return tuple(p for p in project_files() if p.suffix in _TEXT_SUFFIXES or p.name in _TEXT_NAMES)


@cache
def text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


@cache
def lines(path: Path) -> tuple[str, ...]:
    return tuple(text(path).splitlines())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every syntax node of a Python file."""
    return tuple(ast.walk(ast.parse(text(path), filename=str(path))))


def functions(path: Path) -> Iterator[FunctionNode]:
    """Every function and method of a Python file, nested ones too."""
    return (n for n in nodes(path) if isinstance(n, FunctionNode))
