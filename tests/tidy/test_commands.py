"""What the README says to type and what the deployments start is understood by the programs."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from api import command
from client.cli import main
from tests.tidy.source import ROOT, text

APPS = {"podyard": command.app, "yardctl": main.app}

PAGES = (Path("README.md"), *sorted(p.relative_to(ROOT) for p in (ROOT / "docs").glob("*.md")))

_SHELL_BLOCK = re.compile(r"^```(?:sh|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def typed() -> list[list[str]]:
    """Calls of our programs in the shell blocks of what a newcomer reads, word by word."""
    pages = (text(page) for page in PAGES)
    blocks = [block for page in pages for block in _SHELL_BLOCK.findall(page)]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    calls = [call for line in lines if "$(" not in line for call in calls_of(line)]
    return [words for words in calls if words and program(words) in APPS]


def calls_of(line: str) -> Iterator[list[str]]:
    """The calls of a line of shell, word by word; what is behind `>` is a file's name."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&>;")
    lexer.whitespace_split = True
    call: list[str] = []
    for word in lexer:
        if set(word) <= set("|&>;"):
            yield call
            call = []
        else:
            call.append(word)
    yield call


def started() -> list[list[str]]:
    """Calls that the image, the compose file and the unit make."""
    image = re.findall(r"^CMD (\[.*\])$", text(Path("Dockerfile")), re.MULTILINE)
    services = yaml.safe_load(text(Path("docker-compose.yml")))["services"].values()
    unit = re.findall(
        r"^ExecStart=(.*)$", text(Path("deploy/systemd/podyard.service")), re.MULTILINE
    )
    return [
        *(["podyard", *json.loads(words)] for words in image),
        *(["podyard", *service["command"]] for service in services if "command" in service),
        *(line.split() for line in unit),
    ]


def program(words: list[str]) -> str:
    return words[0].rpartition("/")[2]


@pytest.mark.parametrize("words", [*typed(), *started()], ids=" ".join)
def test_call_is_one_that_the_program_knows(words: list[str]) -> None:
    """Asking for help last: a command or an option that is unknown is refused before."""
    arguments = [word for word in words[1:] if word != "&"]
    result = CliRunner().invoke(APPS[program(words)], [*arguments, "--help"])
    assert result.exit_code == 0, result.output


def test_every_deployment_starts_the_service() -> None:
    assert [words[1] for words in started()] == ["serve", "serve", "migrate", "serve"]


def test_readme_shows_both_programs_and_names_files_that_are_there() -> None:
    calls = typed()
    assert {program(words) for words in calls} == set(APPS)
    examples = [word for words in calls for word in words if word.startswith("examples/")]
    assert examples != []
    assert [name for name in examples if not (ROOT / name).is_file()] == []
