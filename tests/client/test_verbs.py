"""The verbs that change things or look into one job: what they send and what they say."""

import json
from pathlib import Path

import pytest

from tests.client.fake_server import Answer, FakeServer, Request, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import (
    make_job,
    make_node,
    make_placement,
    make_topology,
    make_verdict,
    make_waiting_job,
)

JOB = "name: a\nparallelism: {tp: 8}\n"
OTHER_JOB = "name: b\nnamespace: vision\nroles: [{name: r, replicas: 2, gpus: 4}]\n"
INVENTORY = "cluster: demo\nlevels: [rack, node]\nnodes: [{names: 'n[1-2]', type: x, rack: r1}]\n"
IMPORTED = {"created": 2, "updated": 0, "unchanged": 1, "removed": 0, "warnings": []}
JOB_PATH = "/v1/namespaces/research/jobs/llama-70b"


@pytest.fixture
def taking(server: FakeServer) -> FakeServer:
    """A service that takes every job and inventory, and binds jobs at once."""

    def created(request: Request) -> Answer:
        body = json.loads(request.body)
        namespace = body.get("namespace", "default")
        server.replies["GET", f"/v1/namespaces/{namespace}/jobs/{body['name']}"] = Answer(
            make_job(body["name"], namespace=namespace, state="bound")
        )
        return Answer(make_waiting_job(body["name"], namespace=namespace), 201)

    server.replies["POST", "/v1/jobs"] = created
    server.replies["POST", "/v1/inventory"] = Answer(IMPORTED)
    return server


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(INVENTORY)
    (tmp_path / "b.yaml").write_text(f"{JOB}---\n{OTHER_JOB}")
    return tmp_path


# -- apply ------------------------------------------------------------------------------------


def test_apply_imports_inventories_and_submits_jobs(
    taking: FakeServer, yardctl: Yardctl, files: Path
) -> None:
    result = yardctl("apply", "-f", str(files))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "inventory/demo: nodes 2 created, 0 updated, 1 unchanged, 0 removed",
        "job/default/a created",
        "job/vision/b created",
    ]
    assert taking.requests[0].body == INVENTORY.encode()


def test_apply_reads_standard_input(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("apply", "-f", "-", stdin=JOB)
    assert (result.exit_code, result.stdout) == (0, "job/default/a created\n")


def test_apply_shows_warnings_beside_the_result(
    taking: FakeServer, yardctl: Yardctl, files: Path
) -> None:
    warnings = ["rack 'r9' has two parents, 'l1' and 'l2'; it is left out"]
    taking.replies["POST", "/v1/inventory"] = Answer({**IMPORTED, "warnings": warnings})
    result = yardctl("apply", "-f", str(files / "a.yaml"), "--dry-run")
    assert result.exit_code == 0
    assert result.stderr == f"Warning: {warnings[0]}\n"
    assert result.stdout.endswith("0 removed (dry run)\n")
    assert taking.requests[0].query["dry_run"] == "true"


def test_apply_goes_on_after_a_refusal_and_names_the_document(
    taking: FakeServer, yardctl: Yardctl, files: Path
) -> None:
    taking.replies["POST", "/v1/inventory"] = problem(
        422,
        "1 problem",
        {"path": "nodes[0].type", "message": "there is no node type 'x'"},
        {"path": "levels", "message": "..."},
    )
    result = yardctl("apply", "-f", str(files))
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"Error (422): nodes[0].type: there is no node type 'x' [{files / 'a.yaml'}]",
        f"Error (422): levels: ... [{files / 'a.yaml'}]",
    ]
    assert result.stdout.splitlines() == ["job/default/a created", "job/vision/b created"]


def test_apply_prunes_with_one_inventory(taking: FakeServer, yardctl: Yardctl, files: Path) -> None:
    result = yardctl("apply", "-f", str(files / "a.yaml"), "--prune")
    assert result.exit_code == 0
    assert taking.requests[0].query["prune"] == "true"


def test_apply_does_not_prune_the_nodes_of_another_file(
    taking: FakeServer, yardctl: Yardctl, files: Path
) -> None:
    (files / "c.yaml").write_text(INVENTORY)
    for words in (["-f", str(files)], ["-f", str(files / "b.yaml")]):
        result = yardctl("apply", *words, "--prune")
        assert result.exit_code == 2
        assert "--prune needs one inventory that names every node" in result.stderr
    assert taking.requests == []


def test_apply_sends_other_formats_as_they_are(
    taking: FakeServer, yardctl: Yardctl, tmp_path: Path
) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=s1 Nodes=n[1-4]\n")
    result = yardctl("apply", "-f", str(path), "--format", "slurm")
    assert result.exit_code == 0
    (request,) = taking.requests
    assert request.query["format"] == "slurm"
    assert request.headers["content-type"] == "text/plain"
    assert request.body == b"SwitchName=s1 Nodes=n[1-4]\n"


def test_apply_sends_nothing_when_one_file_cannot_be_read(
    taking: FakeServer, yardctl: Yardctl, files: Path
) -> None:
    result = yardctl("apply", "-f", str(files), "-f", str(files / "none.yaml"))
    assert result.exit_code == 2
    assert result.stderr == f"Error: {files / 'none.yaml'}: No such file or directory\n"
    assert taking.requests == []


# -- create -----------------------------------------------------------------------------------


def test_create_puts_the_job_into_the_namespace_asked_for(
    taking: FakeServer, yardctl: Yardctl
) -> None:
    result = yardctl("create", "-f", "-", "-n", "research", stdin=JOB)
    assert (result.exit_code, result.stdout) == (0, "job/research/a created\n")
    assert taking.requests[0].json() == {
        "name": "a",
        "parallelism": {"tp": 8},
        "namespace": "research",
    }


def test_create_refuses_two_namespaces_for_one_job(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("create", "-f", "-", "-n", "research", stdin=OTHER_JOB)
    assert result.exit_code == 2
    assert "the job is in namespace 'vision', but -n says 'research'" in result.stderr
    assert taking.requests == []


def test_create_refuses_an_inventory(taking: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("create", "-f", "-", stdin=INVENTORY)
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: standard input: not a job; inventories and queues are for yardctl apply\n"
    )


def test_create_shows_the_field_that_is_wrong(taking: FakeServer, yardctl: Yardctl) -> None:
    taking.replies["POST", "/v1/jobs"] = problem(
        422, "1 problem", {"path": "roles[0].gpus", "message": "at most 62; found 100"}
    )
    result = yardctl("create", "-f", "-", stdin=JOB)
    assert result.exit_code == 1
    assert result.stderr == "Error (422): roles[0].gpus: at most 62; found 100\n"


@pytest.mark.parametrize("verb", ["create", "submit"])
def test_create_waits_until_the_job_is_bound(
    taking: FakeServer, yardctl: Yardctl, verb: str
) -> None:
    result = yardctl(verb, "-f", "-", "--wait", "bound", stdin=JOB)
    assert result.exit_code == 0
    assert result.stdout == "job/default/a created\njob/default/a bound\n"


def test_create_that_waits_in_vain_ends_with_four(taking: FakeServer, yardctl: Yardctl) -> None:
    waiting = make_waiting_job("a", namespace="default")
    taking.replies["POST", "/v1/jobs"] = Answer(waiting, 201)
    taking.replies["GET", "/v1/namespaces/default/jobs/a"] = Answer(waiting)
    result = yardctl("create", "-f", "-", "--wait", "bound", "--timeout", "0", stdin=JOB)
    assert result.exit_code == 4
    assert result.stdout == "job/default/a created\n"
    assert result.stderr.splitlines() == [
        "Error: job 'default/a' is pending, not bound, after 0 s",
        "  See: yardctl explain default/a",
    ]


def test_create_that_waits_for_a_cancelled_job_ends_with_one(
    taking: FakeServer, yardctl: Yardctl
) -> None:
    gone = make_job("a", namespace="default", state="cancelled")
    taking.replies["POST", "/v1/jobs"] = Answer(gone, 201)
    taking.replies["GET", "/v1/namespaces/default/jobs/a"] = Answer(gone)
    result = yardctl("create", "-f", "-", "--wait", "bound", stdin=JOB)
    assert result.exit_code == 1
    assert result.stderr == "Error: job/default/a is cancelled\n"


def test_create_writes_the_job_as_it_is_after_the_wait(
    taking: FakeServer, yardctl: Yardctl
) -> None:
    result = yardctl("create", "-f", "-", "--wait", "bound", "-o", "json", stdin=JOB)
    assert json.loads(result.stdout)["state"] == "bound"
    result = yardctl("create", "-f", "-", "-o", "json", stdin=JOB)
    assert json.loads(result.stdout)["state"] == "pending"


def test_dry_run_says_where_the_job_would_go(taking: FakeServer, yardctl: Yardctl) -> None:
    fits = {"fits": True, "placement": make_placement()}
    taking.replies["POST", "/v1/jobs"] = Answer(fits)
    result = yardctl("create", "-f", "-", "--dry-run", "server", stdin=JOB)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "job/default/a fits now (dry run)",
        "  16 pods: block 1, leaf 1, rack 4, node 16",
    ]
    assert taking.requests[0].query == {"dry_run": "true"}


@pytest.mark.parametrize(("when", "code"), [("not_now", 0), ("never", 1)])
def test_dry_run_fails_only_for_what_never_fits(
    taking: FakeServer, yardctl: Yardctl, when: str, code: int
) -> None:
    taking.replies["POST", "/v1/jobs"] = Answer(make_verdict(when=when))
    result = yardctl("apply", "-f", "-", "--dry-run", stdin=JOB)
    assert result.exit_code == code
    assert "needs 16 nodes in one leaf" in result.stdout
    assert "leaf 'l3' lacks 4 nodes (32 GPUs)" in result.stdout


# -- delete, cordon ---------------------------------------------------------------------------


def test_delete_goes_on_after_a_name_that_is_not_there(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", JOB_PATH] = Answer(make_job())
    server.replies["DELETE", JOB_PATH] = Answer(make_job(state="cancelled"))
    words = ["delete", "job", "nope", "llama-70b", "-n", "research"]
    result = yardctl(*words)
    assert result.exit_code == 1
    assert result.stdout == "job/research/llama-70b cancelled\n"
    assert result.stderr.endswith("  See: yardctl get jobs -n research\n")
    assert yardctl(*words, "--ignore-not-found").exit_code == 0


def test_delete_of_an_ended_job_says_that_its_record_went(
    server: FakeServer, yardctl: Yardctl
) -> None:
    ended = Answer(make_job(state="succeeded"))
    server.replies["GET", JOB_PATH] = server.replies["DELETE", JOB_PATH] = ended
    result = yardctl("delete", "job/research/llama-70b")
    assert (result.exit_code, result.stdout) == (0, "job/research/llama-70b record deleted\n")


def test_cordon_sends_its_reason_for_every_node(server: FakeServer, yardctl: Yardctl) -> None:
    for number in (1, 3):
        server.replies["POST", f"/v1/nodes/n00{number}/cordon"] = Answer(make_node(number))
    result = yardctl("cordon", "n001", "n002", "node/n003", "--reason", "fan 3 is loud")
    assert result.exit_code == 1
    assert result.stdout == "node/n001 cordoned\nnode/n003 cordoned\n"
    assert result.stderr.endswith("  See: yardctl get nodes\n")
    assert [request.json() for request in server.requests] == [{"reason": "fan 3 is loud"}] * 3


def test_uncordon_needs_only_the_name(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["POST", "/v1/nodes/n001/uncordon"] = Answer(make_node(1))
    result = yardctl("uncordon", "n001")
    assert (result.exit_code, result.stdout) == (0, "node/n001 uncordoned\n")


# -- placement, explain, tree, events ---------------------------------------------------------


def test_rank_map_is_written_as_the_service_formats_it(
    server: FakeServer, yardctl: Yardctl
) -> None:
    text = "n001 slots=8\nn002 slots=8\n"
    server.replies["GET", f"{JOB_PATH}/placement"] = Answer(text, content_type="text/plain")
    for option in ("--format", "-o"):
        result = yardctl("placement", "research/llama-70b", option, "hostfile")
        assert (result.exit_code, result.stdout) == (0, text)
    assert server.requests[0].query == {"format": "hostfile"}


def test_rank_map_in_json_is_written_to_be_read(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", f"{JOB_PATH}/placement"] = Answer({"nnodes": 16})
    result = yardctl("placement", "research/llama-70b", "--format", "torchrun")
    assert (result.exit_code, result.stdout) == (0, '{\n  "nnodes": 16\n}\n')


def test_placement_of_a_job_that_waits_leads_to_its_explanation(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", f"{JOB_PATH}/placement"] = problem(409, "job 'x' has no placement yet")
    result = yardctl("placement", "research/llama-70b")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error (409): job 'x' has no placement yet",
        "  See: yardctl explain research/llama-70b",
    ]


def test_explanation_of_a_running_job_leads_to_its_placement(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", JOB_PATH] = Answer(make_job())
    server.replies["GET", f"{JOB_PATH}/explain"] = Answer({"fits": True, "when": "now"})
    result = yardctl("explain", "research/llama-70b")
    assert result.stdout.splitlines() == [
        "job 'research/llama-70b' is running; it does not wait",
        "  See: yardctl placement research/llama-70b",
    ]


def test_explanation_needs_no_more_than_the_service_knows(
    server: FakeServer, yardctl: Yardctl
) -> None:
    bare = {"fits": False, "when": "not_now", "nearest": None, "rule": None, "changes": []}
    server.replies["GET", JOB_PATH] = Answer(make_waiting_job("llama-70b", message=""))
    server.replies["GET", f"{JOB_PATH}/explain"] = Answer(bare)
    result = yardctl("explain", "research/llama-70b")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == ["  does not fit now"]


def test_roles_of_a_job_are_described_one_by_one(cluster: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("describe", "job", "research/rl-ppo", "research/bert")
    assert result.exit_code == 0
    assert "Shape:         trainer: 4 x 8 GPUs (min 3)\n" in result.stdout
    assert "Rules broken:  job:leaf\n" in result.stdout
    assert result.stdout.count("\nState: ") == 2


def test_tree_of_an_empty_service_says_how_to_fill_it(server: FakeServer, yardctl: Yardctl) -> None:
    server.replies["GET", "/v1/topology"] = Answer({"levels": [], "nodes": 0, "tree": []})
    result = yardctl("tree")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No nodes yet. Import some: yardctl apply -f INVENTORY.yaml\n"


def test_tree_is_the_topology_as_data(cluster: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("tree", "-o", "json")
    assert json.loads(result.stdout) == make_topology()


def test_events_are_those_of_the_last_minutes(cluster: FakeServer, yardctl: Yardctl) -> None:
    """The third of three happened 10 s ago, the others more than three minutes."""
    cluster.revision = 33
    for since, revisions in [("30s", [33]), ("3m", [33]), ("1h", [31, 32, 33]), ("5s", [])]:
        result = yardctl("events", "--since", since, "-o", "json")
        assert [e["revision"] for e in json.loads(result.stdout)["items"]] == revisions


def test_events_that_are_no_longer_kept_count_as_older(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    events = cluster.lists.pop("/v1/events")
    cluster.revision = 33

    def kept(request: Request) -> Answer:
        since = int(request.query["since"])
        if since < 31:
            return problem(410, "events up to revision 31 are no longer kept")
        items = [e for e in events if isinstance(e["revision"], int) and e["revision"] > since]
        return Answer({"items": items, "revision": 33, "next": None})

    cluster.replies["GET", "/v1/events"] = kept
    result = yardctl("events", "--since", "1d", "-o", "name")
    assert result.stdout == "event/32\nevent/33\n"


@pytest.mark.parametrize(
    ("words", "revisions"),
    [
        ("--job research/llama-70b", [31, 32]),
        ("--job research/llama-70b --since 31", [32]),
        ("--job research/llama-70b --since 30s", []),
        ("--since 31", [32, 33]),
        ("--since 0 -n research", [31, 32]),
        ("--since 0 -n vision", []),
    ],
)
def test_events_are_narrowed(
    cluster: FakeServer, yardctl: Yardctl, words: str, revisions: list[int]
) -> None:
    result = yardctl("events", *words.split(), "-o", "json")
    assert [e["revision"] for e in json.loads(result.stdout)["items"]] == revisions


def test_no_events_is_said_beside_the_output(server: FakeServer, yardctl: Yardctl) -> None:
    server.lists["/v1/events"] = server.lists["/v1/jobs"] = []
    result = yardctl("events")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No events.\n")
