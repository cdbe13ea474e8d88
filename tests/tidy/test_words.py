import re
from pathlib import Path

from tests.tidy.source import lines, text_files

HERE = Path("tests/tidy/test_words.py")

_MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home|Users|private)/[\w.-]+")
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_ABOUT_ITS_MAKING = re.compile(
    r"\b(?:sub-?agents?|assistants?|chat ?bots?|generated (?:by|with) \w+|co-authored-by"
    r"|as (?:you )?(?:requested|instructed)|(?:helper|worker) session)\b",
    re.IGNORECASE,
)


def offenders(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for path in text_files()
        if path not in {HERE, Path("LICENSE")}
        for number, line in enumerate(lines(path), 1)
        if pattern.search(line)
    ]


def test_nothing_names_a_path_of_somebodys_machine() -> None:
    found = offenders(_MACHINE_PATH)
    assert not found, "\n".join(found)


def test_unfinished_work_is_an_issue_and_not_a_mark() -> None:
    found = offenders(_UNFINISHED)
    assert not found, "\n".join(found)


def test_project_speaks_of_itself_alone() -> None:
    """Not of who wrote it, with what, or at whose wish."""
    found = offenders(_ABOUT_ITS_MAKING)
    assert not found, "\n".join(found)
