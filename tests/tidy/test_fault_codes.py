"""The page of faults has the table of codes as the data has it."""

import re
from dataclasses import asdict
from pathlib import Path

from scheduler.policy import Policy
from scheduler.recover.codes import CODES, FaultCode

PAGE = Path("docs/faults.md")
HEAD = "| code | action | what it is | drain | source |"


def row(code: FaultCode) -> str:
    drain = "" if code.deadline_s is None else f"{code.deadline_s:g} s"
    return f"| `{code.name}` | {code.action} | {code.words} | {drain} | {code.source} |"


def test_table_of_codes_is_that_of_the_data() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD) + 2
    found = [line for line in lines[start : start + len(CODES) + 1] if line.startswith("|")]
    assert found == [row(code) for code in CODES.values()]


def test_fields_of_the_policy_have_the_defaults_that_the_page_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    defaults = asdict(Policy())
    told = {name: text for name, text in rows if name in defaults}
    assert len(told) == 15
    assert told == {name: str(defaults[name]) for name in told}


def test_every_code_says_what_it_is_and_where_its_action_comes_from() -> None:
    assert [name for name, code in CODES.items() if code.name != name or not code.words] == []
    assert [name for name, code in CODES.items() if not code.source] == []
