import re
import tomllib
from pathlib import Path

from api.settings import Settings
from tests.tidy.source import ROOT, lines, project_files, python_files, text

DOCUMENTS = tuple(p for p in project_files() if p.suffix == ".md")

_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_PATH = re.compile(
    r"`((?:scheduler|api|client|tests|docs|deploy|benchmarks|examples|\.ci)/[\w./*-]*)`"
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    return _FENCE.sub("", text(path))


def anchors(path: Path) -> set[str]:
    """Names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(path), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def is_broken(page: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    found = (ROOT / page.parent / name).resolve() if name else ROOT / page
    if not found.exists() or not found.is_relative_to(ROOT):
        return True
    return bool(anchor) and anchor not in anchors(found.relative_to(ROOT))


def test_links_of_the_documents_lead_somewhere() -> None:
    broken = [
        f"{page}: {target}"
        for page in DOCUMENTS
        for target in _LINK.findall(prose(page))
        if is_broken(page, target)
    ]
    assert not broken, "\n".join(broken)


def test_paths_named_in_the_documents_exist() -> None:
    missing = [
        f"{page}: {name}"
        for page in DOCUMENTS
        for name in _PATH.findall(prose(page))
        if not any(ROOT.glob(name.rstrip("/")))
    ]
    assert not missing, "\n".join(missing)


def test_documents_named_in_the_code_exist() -> None:
    """A reader who is sent to a page has to find it in the project."""
    known = {p.name for p in DOCUMENTS}
    missing = [
        f"{path}:{number} {name}"
        for path in python_files()
        for number, line in enumerate(lines(path), 1)
        for name in re.findall(r"\b[\w-]+\.md\b", line)
        if name not in known
    ]
    assert not missing, "\n".join(missing)


def test_make_targets_named_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", text(Path("Makefile")), re.MULTILINE))
    named = {
        (str(page), target)
        for page in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text(page), re.MULTILINE)
    }
    assert {target for page, target in named if page == "README.md"} >= {"demo", "test"}
    assert {(page, target) for page, target in named if target not in targets} == set()


def test_lines_of_the_changelog_say_what_a_user_sees() -> None:
    """Keep a Changelog: a section for what is coming, known headings, the current version."""
    page = text(Path("CHANGELOG.md"))
    assert "## [Unreleased]" in page
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", page, re.MULTILINE)) <= kinds


def test_decision_records_are_numbered_and_whole() -> None:
    records = [p for p in DOCUMENTS if p.parent == Path("docs/decisions") and p.name != "README.md"]
    assert [int(p.name[:4]) for p in records] == list(range(1, len(records) + 1))
    index = text(Path("docs/decisions/README.md"))
    for record in records:
        headings = [line for line in lines(record) if line.startswith("## ")]
        assert headings == ["## Context", "## Choice", "## What it costs"], record
        assert f"]({record.name})" in index


def test_every_setting_is_explained_and_every_explained_one_is_there() -> None:
    rows = re.findall(r"^\| (`PODYARD_.*?) \|", text(Path("docs/running.md")), re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"PODYARD_(\w+)", row)}
    assert explained == {name.upper() for name in Settings.model_fields}


def test_every_script_is_named_in_the_readme() -> None:
    scripts = tomllib.loads(text(Path("pyproject.toml")))["project"]["scripts"]
    assert [name for name in scripts if f"`{name}`" not in text(Path("README.md"))] == []
