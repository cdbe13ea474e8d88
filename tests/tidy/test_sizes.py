import re

from tests.tidy.source import functions, lines, python_files

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

_PRAGMA = re.compile(r"\s*#\s*(?:noqa|type: ignore|pragma: no)\b.*")


def test_file_stays_below_its_limit() -> None:
    too_long = {str(p): len(lines(p)) for p in python_files() if len(lines(p)) > FILE_LINES_MAX}
    assert not too_long, "\n".join(f"{where}: {n}" for where, n in too_long.items())


def test_function_stays_below_its_limit() -> None:
    too_long = {
        f"{path}:{f.lineno} {f.name}": length
        for path in python_files()
        for f in functions(path)
        if (length := (f.end_lineno or f.lineno) - f.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not too_long, "\n".join(f"{where}: {n}" for where, n in too_long.items())


def test_line_stays_within_the_columns() -> None:
    """Also where the linter is told to look away; what tells it so, and why, is not counted."""
    too_long = [
        f"{path}:{number}"
        for path in python_files()
        for number, line in enumerate(lines(path), 1)
        if len(_PRAGMA.sub("", line)) > COLUMNS_MAX
    ]
    assert not too_long, "\n".join(too_long)
