"""`yardctl submit`: flags as sbatch has them, and a line that tells how the job stands."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from api.schemas.job import JobBody
from client.cli.job_flags import Asked, body_of, seconds_of
from client.cli.progress import Line, follow
from client.errors import InputError, Unreachable, WaitedInVain
from client.http import Client
from client.shapes import Job
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl

BODY: TypeAdapter[JobBody] = TypeAdapter(JobBody)
WORKERS = {"name": "worker", "replicas": 4, "gpus": 8, "one_per_node": True}
JOB = {"namespace": "default", "name": "train", "state": "pending", "reason": "room"}


def sent(server: FakeServer) -> dict[str, Any]:
    """The job that was submitted."""
    (request,) = (r for r in server.requests if r.method == "POST" and r.path == "/v1/jobs")
    return dict(json.loads(request.body))


@pytest.fixture
def jobs(server: FakeServer) -> FakeServer:
    server.replies["POST", "/v1/jobs"] = Answer(JOB, status=201)
    return server


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-N 4", {"roles": [WORKERS]}),
        ("-G 4", {"roles": [WORKERS | {"replicas": 1, "gpus": 4}]}),
        ("-G 32", {"roles": [WORKERS]}),
        ("-N 2 --gpus-per-node 4", {"roles": [WORKERS | {"replicas": 2, "gpus": 4}]}),
        ("-N 2 -G 8", {"roles": [WORKERS | {"replicas": 2, "gpus": 4}]}),
        ("--tp 8 --pp 4 -N 16", {"parallelism": {"tp": 8, "pp": 4, "dp": 4}}),
        ("--tp 8 --dp 2", {"parallelism": {"tp": 8, "dp": 2}}),
        ("-N 1 -t 90", {"time_limit_s": 5400, "duration_s": 5400}),
        ("-N 1 -w n[001-004],n009", {"nodes": ["n[001-004]", "n009"]}),
        ("-N 1 -w r1n[1,3]", {"nodes": ["r1n[1,3]"]}),
        (
            "-N 1 --within leaf! --within worker=rack",
            {
                "topology": [
                    {"group": "job", "within": "leaf", "mode": "required"},
                    {"group": "worker", "within": "rack", "mode": "preferred"},
                ]
            },
        ),
        ("-N 1 -C zone=a -p research --priority 7", {"labels": {"zone": "a"}, "priority": 7}),
        ("-N 1 --no-preempt --exclusive", {"preemptible": False, "exclusive": True}),
        ("-N 1 --max-restarts 3 --spares 1", {"failure": {"max_restarts": 3}, "spares": 1}),
        ("-N 1 -e A=b=c -- run.sh -x", {"run": {"command": ["run.sh", "-x"], "env": {"A": "b=c"}}}),
    ],
)  # fmt: skip
def test_flags_make_the_job_that_is_meant(
    yardctl: Yardctl, jobs: FakeServer, words: str, expected: dict[str, object]
) -> None:
    done = yardctl("submit", "-J", "train", *words.split())
    assert done.exit_code == 0, done.output
    assert done.output == "job/default/train created\n"
    body = sent(jobs)
    assert body.items() >= expected.items()
    BODY.validate_python(body)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "say what is to run"),
        ("-N 3 -G 8", "--gpus 8 does not go with --nodes 3"),
        ("-G 12", "--gpus 12 is no multiple of 8 GPUs of a node"),
        ("--tp 8 --pp 3 -N 16", "128 GPUs cannot be shared out by tp x cp x pp = 24"),
        ("--tp 8 --dp 3 -N 16", "tp 8 x dp 3 are 24 GPUs, and 128 are asked for"),
        ("-N 1 -t soon", "'soon' is no time"),
        ("-N 1 -t 0", "'0' is no time at all"),
        ("-N 1 -C zone", "--constraint 'zone' is not KEY=VALUE"),
        ("-N 1 --within =leaf", "'=leaf' is no rule"),
        ("-N 0", "greater than or equal to 1"),
        ("-N 1 -f x.yaml", "by flags or by -f FILE, not by both"),
    ],
)
def test_flags_that_make_no_sense_are_refused_before_anything_is_sent(
    yardctl: Yardctl, jobs: FakeServer, words: str, said: str
) -> None:
    done = yardctl("submit", *words.split())
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert jobs.requests == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1_800), ("90:30", 5_430), ("2:00:00", 7_200), ("1-12", 129_600), ("1-00:30", 88_200)],
)
def test_times_are_read_as_slurm_writes_them(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_refused_in_words(text: str) -> None:
    said = ""
    try:
        seconds = seconds_of(text)
    except InputError as error:
        seconds, said = 0, str(error)
    assert seconds > 0 or text in said


@given(st.lists(st.text(max_size=40), max_size=2))
def test_name_that_is_made_up_is_one_that_the_service_takes(command: list[str]) -> None:
    body = body_of(Asked(nodes=1, command=command))
    BODY.validate_python({"name": body["name"], "roles": body["roles"]})


def test_job_is_shown_instead_of_submitted_on_request(yardctl: Yardctl, jobs: FakeServer) -> None:
    done = yardctl("submit", "--show", "-J", "train", "-N", "2", "-n", "research")
    assert done.output.startswith("name: train\nnamespace: research\nroles:\n")
    assert jobs.requests == []


def test_job_of_a_file_is_submitted_as_it_is(
    yardctl: Yardctl, jobs: FakeServer, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: train\nparallelism: {tp: 8}\n")
    done = yardctl("submit", "-f", str(file), "-o", "name")
    assert (done.exit_code, done.output) == (0, "job/default/train\n")
    assert sent(jobs) == {"name": "train", "parallelism": {"tp": 8}}


def test_job_is_followed_until_it_runs(yardctl: Yardctl, jobs: FakeServer) -> None:
    path = "/v1/namespaces/default/jobs/train"
    jobs.replies["GET", path] = Answer(JOB | {"state": "running", "reason": None})
    done = yardctl("submit", "-J", "train", "-N", "2", "--wait", "running")
    assert done.exit_code == 0
    assert done.stderr == "job/default/train running\n"
    jobs.replies["GET", path] = Answer(JOB | {"state": "failed", "reason": None})
    done = yardctl("submit", "-J", "train", "-N", "2", "--wait", "running")
    assert done.exit_code == 1
    assert "See: yardctl describe job default/train" in done.stderr
    jobs.replies["GET", path] = Answer(JOB)
    done = yardctl("submit", "-J", "train", "-N", "2", "--wait", "running", "--timeout", "0")
    assert done.exit_code == 4
    assert "yardctl explain default/train" in done.stderr


class Scripted(Client):
    """A client whose job goes through these states; an error is raised in its turn."""

    def __init__(self, *script: Job | Unreachable) -> None:
        self.script = list(script)

    def wait_job(self, *_: object, timeout_s: float, until: str = "bound", **__: object) -> Job:
        now = self.script.pop(0)
        if isinstance(now, Unreachable):
            raise now
        if now.get("state") == "pending":
            raise WaitedInVain(now, until, timeout_s)
        return now


def test_line_tells_why_a_job_waits_and_outlives_a_lost_connection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waits: Job = {"namespace": "n", "name": "j\x1b[2J", "state": "pending", "reason": "room"}
    told: Job = {**waits, "message": "needs 8 nodes (nodes set aside: 2 cordoned)"}
    runs: Job = {**waits, "state": "running", "reason": None}
    client = Scripted(told, Unreachable("http://x", "refused"), told, runs)
    ticks = iter(range(100))
    done = follow(
        client, waits, until="running", timeout_s=60, line=Line(is_live=True),
        clock=lambda: float(next(ticks)),
    )  # fmt: skip
    assert done["state"] == "running"
    text = capsys.readouterr().err
    assert "pending(room), 2s: needs 8 nodes" in text
    assert "cannot reach http://x: refused" in text
    assert "cordoned" not in text
    assert "\x1b" not in text
    assert text.endswith("\n")
