"""`podyard simulate` as a person runs it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from api.command import app

TRACE = "at_s,gpus,run_s,queue\n" + "".join(f"{i * 10},8,{60 + i},a\n" for i in range(20))


def simulate(*args: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *args])


def test_one_table_compares_several_policies() -> None:
    done = simulate(
        "--workload", "gangs", "--nodes", "16", "--jobs", "20", "--policy", "podyard,slurm,fifo"
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for said in ("podyard", "slurm", "fifo", "spread", "wait mean", "seed: 1"):
        assert said in done.stdout


def test_a_trace_and_a_report_are_files(tmp_path: Path) -> None:
    trace, out = tmp_path / "jobs.csv", tmp_path / "report.html"
    trace.write_text(TRACE)
    done = simulate("--trace", str(trace), "--nodes", "4", "--load", "0.9", "--out", str(out))
    assert done.exit_code == 0, done.output
    page = out.read_text()
    assert "jobs.csv, form podyard, 20 jobs" in page
    assert "<svg" in page


def test_the_same_seed_gives_the_same_figures() -> None:
    args = ("--workload", "seren", "--nodes", "8", "--jobs", "30", "--faults", "--json")
    first, again = (simulate(*args, "--seed", "4") for _ in range(2))
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == json.loads(again.stdout)
    told = json.loads(first.stdout)
    assert told["policies"]["podyard"]["jobs"]
    assert told["conditions"]["faults"] == "of nodes, at published rates"
    assert json.loads(simulate(*args, "--seed", "5").stdout) != told


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "found neither of --trace and --workload"),
        (("--workload", "kalos", "--trace", "x"), "found both"),
        (("--workload", "abc"), "no workload 'abc'; there are philly"),
        (("--workload", "kalos", "--policy", "lsf"), "no policy 'lsf'"),
        (("--workload", "kalos", "--policy", ","), "no policy named"),
        (("--workload", "kalos", "--nodes", "0"), "found 0; 1 to 100000 are allowed"),
        (("--workload", "kalos", "--load", "0"), "must lie in 0 to 10"),
        (("--workload", "kalos", "--load", "nan"), "must lie in 0 to 10"),
        (("--workload", "kalos", "--jobs", "0"), "at least 1"),
        (("--workload", "kalos", "--estimate-factor", "0.5"), "at least 1"),
        (("--workload", "kalos", "--out", "/no/such/folder/x.html"), "there is no folder"),
        (("--trace", "/no/such/file"), "cannot read '/no/such/file': No such file"),
    ],
)
def test_what_cannot_be_simulated_is_refused(args: tuple[str, ...], said: str) -> None:
    done = simulate(*args)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"", "no rows"),
        (b"at_s,gpus,run_s\n0,8,x\n", "trace line 2"),
        (b"at_s,gpus,run_s\n0,800,5\n", "hold no job of"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    trace = tmp_path / "t.csv"
    trace.write_bytes(content)
    done = simulate("--trace", str(trace), "--nodes", "4")
    assert done.exit_code == 1
    assert said in done.stderr
