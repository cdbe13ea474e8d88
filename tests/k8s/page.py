"""`docs/kubectl.md`: the table of commands and results, made by the battery.

`python -m tests.k8s.page` runs all versions of `kubectl` that it finds, and writes their columns
anew; `python -m tests.k8s.page 1.32` only that one's.
"""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.k8s.battery import Row, run_all
from tests.k8s.kubectl import Kubectl, Served, kubectls

PAGE = Path("docs/kubectl.md")
BEGIN = "<!-- table: made by `python -m tests.k8s.page` -->"

WORKS, FAILS = "yes", "no"


def table(results: Mapping[str, Sequence[Row]]) -> str:
    """The table: a row for each command, a column for each version."""
    versions = list(results)
    rows = next(iter(results.values()))
    lines: list[str] = []
    section = ""
    for index, row in enumerate(rows):
        if row.section != section:
            section = row.section
            lines += ["", f"### {section.capitalize()}", "", _line(["command", *versions])]
            lines.append(_line(["---"] * (len(versions) + 1)))
        told = [FAILS if results[v][index].why else WORKS for v in versions]
        lines.append(_line([f"`{_escaped(row.command)}`", *told]))
    return "\n".join(lines).strip() + "\n"


def cells(page: str, version: str) -> list[tuple[str, str, str]]:
    """What the page says of one version: section, command and result of each."""
    found: list[tuple[str, str, str]] = []
    section, at = "", 0
    for line in page.partition(BEGIN)[2].splitlines():
        if line.startswith("### "):
            section = line.removeprefix("### ").lower()
        parts = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if parts[:1] == ["command"]:
            at = parts.index(version) if version in parts else 0
        elif parts and at and not parts[0].startswith("---"):
            found.append((section, parts[0].strip("`").replace("\\|", "|"), parts[at]))
    return found


def column(page: str, version: str) -> list[tuple[str, str]]:
    """The same without the sections."""
    return [(command, result) for _, command, result in cells(page, version)]


def said(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The same of a run."""
    return [(row.command, FAILS if row.why else WORKS) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(versions: Sequence[str]) -> None:
    """Run versions of `kubectl`, all by default, and write their columns; others stay."""
    page = PAGE.read_text()
    found: dict[str, list[Row]] = {}
    for version, path in kubectls().items():
        if versions and version not in versions:
            kept = [Row(s, c, "" if r == WORKS else r) for s, c, r in cells(page, version)]
            found |= {version: kept} if kept else {}
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with Served(folder) as served:
                found[version] = run_all(Kubectl(path, served.url, folder), served)
        for row in found[version]:
            if row.why:
                sys.stderr.write(f"{version}: {row.command}: {row.why}\n")
    head = page.partition(BEGIN)[0]
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(found)}")


if __name__ == "__main__":
    main(sys.argv[1:])
