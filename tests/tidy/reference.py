"""Writes the pages of docs/ that are made from the code: `make reference`."""

from collections.abc import Callable
from pathlib import Path

from tests.tidy.reference_api import api_page
from tests.tidy.reference_cli import cli_page
from tests.tidy.source import ROOT

PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "reference-api.md": api_page,
    ROOT / "docs" / "reference-cli.md": cli_page,
}

if __name__ == "__main__":
    for page, made in PAGES.items():
        page.write_text(made(), encoding="utf-8")
