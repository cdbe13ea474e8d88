"""The command line: its options, `get`, and how wrong calls end."""

import json
import socket

import pytest
import yaml

from tests.client.fake_server import Answer, FakeServer, problem
from tests.client.golden_text import Yardctl
from tests.client.sample import (
    make_domain,
    make_job,
    make_node,
    make_nodes,
    make_placement,
    make_verdict,
)

# -- global options ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "get jobs -n research -o name",
        "-n research get jobs -o name",
        "-o name -n other get jobs -n research",
        "-A get jobs -n research -o name",
    ],
)
def test_option_may_stand_before_the_verb_and_after_it(
    cluster: FakeServer, yardctl: Yardctl, words: str
) -> None:
    result = yardctl(*words.split())
    assert result.stdout.splitlines()[0] == "job/research/llama-70b"
    assert cluster.requests[0].query["namespace"] == "research"


def test_namespace_is_default_unless_the_environment_says_so(
    cluster: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = yardctl("get", "jobs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No jobs in namespace 'default'.\n"
    monkeypatch.setenv("PODYARD_NAMESPACE", "research")
    assert len(yardctl("get", "jobs").stdout.splitlines()) == 7


def test_all_namespaces_send_no_namespace(cluster: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("get", "jobs", "-A")
    assert "namespace" not in cluster.requests[0].query
    assert result.stdout.startswith("NAMESPACE ")


def test_server_option_goes_before_the_environment(
    cluster: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODYARD_SERVER", "http://127.0.0.1:1")
    assert yardctl("--server", cluster.url, "get", "queues").exit_code == 0
    assert yardctl("get", "queues", "-s", cluster.url).exit_code == 0


def test_token_comes_from_the_environment(
    cluster: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PODYARD_TOKEN", "secret")
    yardctl("get", "queues")
    assert cluster.requests[0].headers["authorization"] == "Bearer secret"


def test_unreachable_service_ends_with_three_and_says_what_to_do(
    yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.http.time.sleep", lambda seconds: None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = yardctl("get", "nodes", "--server", address)
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        f"Error: cannot reach {address}: Connection refused",
        "  Is it running? Start one with: podyard serve; name another with --server.",
    ]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_service_that_cannot_serve_ends_with_three(
    server: FakeServer, yardctl: Yardctl, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("client.http.time.sleep", lambda seconds: None)
    server.replies["GET", "/v1/queues"] = problem(status, "the database cannot be reached")
    result = yardctl("get", "queues")
    assert result.exit_code == 3
    assert result.stderr == f"Error ({status}): the database cannot be reached\n"


def test_something_else_at_the_address_ends_with_three(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", "/v1/queues"] = Answer("<html>", content_type="text/html")
    result = yardctl("get", "queues")
    assert result.exit_code == 3
    assert result.stderr.endswith("with text/html, not JSON; is it a Podyard service?\n")


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "podyard token create"), (403, "yardctl whoami")]
)
def test_missing_token_or_right_is_hinted_at(
    server: FakeServer, yardctl: Yardctl, status: int, hint: str
) -> None:
    server.replies["GET", "/v1/queues"] = problem(status, "a token is needed")
    result = yardctl("get", "queues")
    assert result.exit_code == 1
    assert hint in result.stderr.splitlines()[-1]


def test_version_needs_no_service(server: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("version")
    assert result.exit_code == 0
    assert result.stdout.startswith("yardctl ")
    assert server.requests == []


# -- get --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["job", "jobs", "po", "pod", "no", "node", "q", "queue", "ev", "events", "JOBS"]
)
def test_kind_may_be_said_in_several_ways(
    cluster: FakeServer, yardctl: Yardctl, words: str
) -> None:
    assert yardctl("get", words, "-n", "research").exit_code == 0


def test_objects_are_shown_by_name(cluster: FakeServer, yardctl: Yardctl) -> None:
    for words in (["node", "n002", "n001"], ["node/n002", "node/n001"]):
        lines = yardctl("get", *words, "--no-headers").stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["n002", "n001"]


def test_name_that_is_not_there_does_not_hide_the_others(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    cluster.replies["GET", "/v1/nodes/n999"] = problem(404, "there is no node 'n999'")
    result = yardctl("get", "nodes", "n001", "n999", "n002", "--no-headers")
    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["n001", "n002"]
    assert result.stderr == "Error (404): there is no node 'n999'\n  See: yardctl get nodes\n"


def test_pods_racks_and_domains_are_picked_from_their_lists(
    cluster: FakeServer, yardctl: Yardctl
) -> None:
    cluster.lists["/v1/domains"] = [make_domain(1), make_domain(2)]
    result = yardctl("get", "domain", "l2", "--level", "leaf", "-o", "name")
    assert (result.exit_code, result.stdout) == (0, "domain/l2\n")
    result = yardctl("get", "pod", "research/llama-70b-3", "-A", "-o", "name")
    assert (result.exit_code, result.stdout) == (0, "pod/research/llama-70b-3\n")
    result = yardctl("get", "pod", "nope", "-n", "research")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error (404): there is no pod 'nope'\n"


def test_pods_are_those_of_a_job_or_node(cluster: FakeServer, yardctl: Yardctl) -> None:
    yardctl("get", "pods", "--job", "research/llama-70b")
    yardctl("get", "pods", "-A", "--node", "n003")
    first, second = (request.query for request in cluster.asked("GET", "/v1/pods"))
    assert first == {"namespace": "research", "job": "llama-70b", "limit": "500"}
    assert second == {"node": "n003", "limit": "500"}


def test_nodes_are_selected_by_label(cluster: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("get", "nodes", "-l", "zone=b", "-o", "name")
    assert len(result.stdout.split()) == 100
    assert result.stdout.startswith("node/n002\nnode/n004\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("get", "Missing argument"),
        ("get things", "'things' is no kind of object here; there are jobs, pods (po), nodes"),
        ("get nodes -l zone=a,=b", "'=b' is no label selector"),
        ("get jobs -l zone=a", "-l is for nodes, not for jobs"),
        ("get nodes --queue q", "--queue is for jobs, not for nodes"),
        ("get nodes -w", "-w is for jobs, not for nodes"),
        ("get events x", "events have no names"),
        ("get job/a node/b", "name things of one kind at a time"),
        ("get jobs a/b/c", "'a/b/c' is not a name"),
        ("get jobs x/a -n y", "'x/a' is in namespace 'x', but -n says 'y'"),
        ("describe pods x", "'pods' is no kind of object here"),
        ("describe node", "name at least one node"),
        ("delete job", "name at least one job"),
        ("delete node n1", "'node' is no kind of object here"),
        ("events --since soon", "'soon' is neither a revision nor an age"),
        ("tree --level shelf", "'shelf' is no level above the nodes; there are: block, leaf, rack"),
        ("apply", "Missing option"),
        ("create -f x --wait bound --dry-run server", "a dry run leaves nothing to wait for"),
        ("placement a --format map2", "Invalid value"),
        ("dance n1", "No such command"),
        ("--server ftp://x get nodes", "'ftp://x' is not a server address"),
        ("cordon ..", "'..' is not a name"),
    ],
)
def test_wrong_call_ends_with_two_and_says_why(
    cluster: FakeServer, yardctl: Yardctl, words: str, complaint: str
) -> None:
    result = yardctl(*words.split())
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


def test_list_as_json_is_the_one_of_the_service(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.page_items = 30
    result = yardctl("get", "nodes", "-o", "json")
    assert json.loads(result.stdout) == {"items": make_nodes(), "revision": 100}
    assert result.stdout == json.dumps({"items": make_nodes(), "revision": 100}, indent=2) + "\n"


def test_list_as_yaml_says_the_same(cluster: FakeServer, yardctl: Yardctl) -> None:
    result = yardctl("get", "nodes", "-o", "yaml")
    assert yaml.safe_load(result.stdout) == {"items": make_nodes(), "revision": 100}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_empty_list_is_still_a_list(server: FakeServer, yardctl: Yardctl, output: str) -> None:
    server.lists["/v1/queues"] = []
    result = yardctl("get", "queues", "-o", output)
    assert yaml.safe_load(result.stdout) == {"items": [], "revision": 100}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_single_name_is_one_object(cluster: FakeServer, yardctl: Yardctl, output: str) -> None:
    result = yardctl("get", "node", "n001", "-o", output)
    assert yaml.safe_load(result.stdout) == make_node(1)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("describe job research/llama-70b -o json", make_job()),
        ("describe node n001 -o yaml", make_node(1)),
        ("placement research/llama-70b -o yaml", make_placement()),
        ("placement research/llama-70b --format json", make_placement()),
        ("-o yaml placement research/llama-70b", make_placement()),
        ("explain research/llama-70b -o json", make_verdict()),
        ("cordon n001 -o json", make_node(1)),
    ],
)
def test_other_commands_write_data_too(
    cluster: FakeServer, yardctl: Yardctl, words: str, found: object
) -> None:
    path = "/v1/namespaces/research/jobs/llama-70b"
    cluster.replies["GET", f"{path}/placement"] = Answer(make_placement())
    cluster.replies["GET", f"{path}/explain"] = Answer(make_verdict())
    cluster.replies["POST", "/v1/nodes/n001/cordon"] = Answer(make_node(1))
    result = yardctl(*words.split())
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout) == found


def test_names_go_back_into_other_commands(cluster: FakeServer, yardctl: Yardctl) -> None:
    names = yardctl("get", "jobs", "-A", "-o", "name").stdout.split()
    assert names[0] == "job/research/llama-70b"
    assert yardctl("get", *names).exit_code == 0
    path = "/v1/namespaces/research/jobs/llama-70b"
    cluster.replies["GET", f"{path}/placement"] = Answer(make_placement())
    assert yardctl("placement", names[0]).exit_code == 0
    assert yardctl("describe", names[0]).exit_code == 0


def test_escape_sequences_of_a_name_do_not_reach_the_terminal(
    server: FakeServer, yardctl: Yardctl
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202e"
    server.lists["/v1/jobs"] = [make_job(evil, namespace="default", message=evil, queue=evil)]
    for output in ("wide", "json", "yaml", "name"):
        text = yardctl("get", "jobs", "-o", output).stdout
        assert "owned" in text
        assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_errors_of_the_service_do_not_reach_the_terminal_either(
    server: FakeServer, yardctl: Yardctl
) -> None:
    server.replies["GET", "/v1/queues"] = problem(400, "\x1b[2J gone\nError (200): fine")
    result = yardctl("get", "queues")
    assert result.stderr == "Error (400): \\x1b[2J gone\\nError (200): fine\n"
