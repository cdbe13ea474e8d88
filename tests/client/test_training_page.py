"""The walk through the training example, as its page has it."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.client.lab import ROOT
from tests.client.test_training import free_port

PAGE = ROOT / "docs" / "training-example.md"
JOB = ROOT / "examples" / "training" / "job.yaml"
PATIENCE_S = 170.0


def commands(folder: Path) -> str:
    """All commands of the page, with a folder and ports that nobody else has."""
    page = PAGE.read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    job = folder / "job.yaml"
    job.write_text(JOB.read_text(encoding="utf-8"), encoding="utf-8")
    ports = {"8080": str(free_port()), "29600": str(free_port())}
    text = job.read_text(encoding="utf-8") + f"    TRAIN_PORT: '{free_port()}'\n"
    for old, new in {"/tmp/podyard-lab": str(folder / "lab"), **ports}.items():
        script, text = script.replace(old, new), text.replace(old, new)
    job.write_text(text, encoding="utf-8")
    script = script.replace("examples/training/job.yaml", str(job))
    # A command that fails ends all that was begun.
    return f"set -eu\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n{script}"


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_page_of_the_training_example_can_be_followed(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "-c", commands(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "160"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = shell.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        told, _ = shell.communicate()
        for state in (tmp_path / "lab").glob("n?"):
            power_off = str(ROOT / "examples" / "training" / "power_off.py")
            subprocess.run([sys.executable, power_off, str(state)], check=True)
        pytest.fail(told[-4_000:])
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, told[-4_000:]
    begun = [int(step) for step in re.findall(r"4 ranks begin after step ([1-9]\d*)", told)]
    (asked,) = re.findall(r"saved step (\d+) as it was asked for", told)
    assert len(begun) == 2, told[-4_000:]
    # It trains on until it is told to stop, and may save once more before that.
    assert begun[1] >= int(asked) > begun[0]
