"""The reference pages say what the code says."""

from pathlib import Path

import pytest

from tests.tidy.reference import PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_reference_page_is_that_of_the_code(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), "run: make reference"


def test_reference_names_every_command_and_call() -> None:
    api, cli = (made() for made in PAGES.values())
    for call in ("`POST /v1/jobs`", "`GET /v1/overview`", "### JobBody"):
        assert call in api
    for command in ("`podyard doctor`", "`yardctl submit`", "`yardctl queue set`", "--fix"):
        assert command in cli
