"""The Python client: what it sends, when it tries again, what it raises."""

import json
import socket
from collections.abc import Iterator

import pytest

from client.calls import path_of
from client.errors import ApiError, BadAnswer, InputError, Unreachable, WaitedInVain
from client.http import Client, Until
from client.transport import Retry, server_address
from tests.client.fake_server import DROP, Answer, FakeServer, Request, problem
from tests.client.sample import make_job, make_jobs, make_nodes, make_verdict, make_waiting_job

JOB = {"name": "a", "parallelism": {"tp": 8}}
JOB_PATH = "/v1/namespaces/research/jobs/llama-70b"
BUSY = problem(503, "the leader is changing", title="Service unavailable")


class Pauses:
    """Stands for sleeping; remembers how long."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def client(server: FakeServer, pauses: Pauses) -> Iterator[Client]:
    with Client(server.url, timeout_s=5.0, sleep=pauses) as opened:
        yield opened


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_submit_sends_the_job_with_a_key(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs"] = Answer(make_job("a"), 201)
    assert client.submit(JOB).get("name") == "a"
    (request,) = server.requests
    assert request.json() == JOB
    assert request.headers["content-type"] == "application/json"
    assert len(request.headers["idempotency-key"]) == 36


@pytest.mark.parametrize("trouble", [BUSY, DROP], ids=["503", "cut connection"])
def test_submit_is_repeated_under_the_same_key(
    server: FakeServer, client: Client, pauses: Pauses, trouble: Answer
) -> None:
    server.replies["POST", "/v1/jobs"] = Answer(make_job("a"), 201)
    server.before = [trouble, trouble]
    client.submit(JOB)
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert (len(server.requests), len(keys)) == (3, 1)
    assert len(pauses.seconds) == 2


def test_two_submits_have_two_keys(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs"] = Answer(make_job("a"), 201)
    client.submit(JOB)
    client.submit(JOB)
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 2


def test_submit_keeps_a_key_that_is_given(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs"] = Answer(make_job("a"), 201)
    client.submit(JOB, key="mine")
    assert server.requests[0].headers["idempotency-key"] == "mine"


def test_cancel_is_not_repeated_after_it_was_sent(server: FakeServer, client: Client) -> None:
    """A second DELETE would delete the record of the job that the first one cancelled."""
    server.replies["DELETE", JOB_PATH] = Answer(make_job(state="cancelled"))
    server.before = [DROP]
    with pytest.raises(Unreachable):
        client.cancel("research", "llama-70b")
    server.before = [BUSY]
    with pytest.raises(ApiError, match="503"):
        client.cancel("research", "llama-70b")
    assert len(server.requests) == 2


def test_read_gives_up_after_its_tries(server: FakeServer, client: Client, pauses: Pauses) -> None:
    server.before = [BUSY] * 9
    with pytest.raises(ApiError, match="the leader is changing"):
        client.job("research", "llama-70b")
    assert len(server.requests) == 5
    assert len(pauses.seconds) == 4
    assert all(pause <= 2.0 for pause in pauses.seconds)


def test_pauses_grow_and_have_an_end() -> None:
    retry = Retry(tries=5, first_s=0.1, longest_s=2.0)
    for tried, longest_s in [(1, 0.1), (2, 0.3), (3, 0.9), (4, 2.0), (9, 2.0)]:
        assert longest_s / 2 <= retry.pause_s(tried) <= longest_s


def test_pause_that_the_service_asks_for_is_kept_up_to_a_limit(
    server: FakeServer, client: Client, pauses: Pauses
) -> None:
    server.replies["GET", JOB_PATH] = Answer(make_job())
    busy = Answer({}, 503, headers={"Retry-After": "1"})
    server.before = [busy, Answer({}, 503, headers={"Retry-After": "3600"})]
    client.job("research", "llama-70b")
    assert pauses.seconds == [1.0, 2.0]


def test_nothing_listening_is_unreachable_after_all_tries(pauses: Pauses) -> None:
    address = f"http://127.0.0.1:{unused_port()}"
    with Client(address, sleep=pauses) as client, pytest.raises(Unreachable) as caught:
        client.cancel("default", "a")
    assert str(caught.value) == f"cannot reach {address}: Connection refused"
    assert len(pauses.seconds) == 4


def test_silence_past_the_limit_is_not_tried_again(pauses: Pauses) -> None:
    """A server that is that slow is not made faster by more requests."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            Client(address, timeout_s=0.05, sleep=pauses) as client,
            pytest.raises(Unreachable, match=r"no answer within 0\.05 s"),
        ):
            client.policy()
    assert pauses.seconds == []


def test_refusal_carries_every_wrong_field(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs"] = problem(
        422,
        "2 problems",
        {"path": "roles[0].gpus", "message": "at most 62; found 100"},
        {"path": "", "message": "a job has either parallelism or roles"},
        title="Invalid job",
    )
    with pytest.raises(ApiError) as caught:
        client.submit(JOB)
    error = caught.value
    assert (error.status, error.title, error.detail) == (422, "Invalid job", "2 problems")
    assert error.lines() == [
        "roles[0].gpus: at most 62; found 100",
        "a job has either parallelism or roles",
    ]


@pytest.mark.parametrize(
    "body", ["<html>Bad gateway</html>", "[1]", '{"errors": "none", "detail": null}', "[" * 99_999]
)
def test_refusal_without_a_problem_document_keeps_its_status(
    server: FakeServer, client: Client, body: str
) -> None:
    server.replies["GET", "/v1/policy"] = Answer(body, 502, "text/html")
    with pytest.raises(ApiError) as caught:
        client.policy()
    assert caught.value.status == 502
    assert caught.value.lines() == ["HTTP status 502"]


@pytest.mark.parametrize("body", ["<html>Welcome</html>", '"text"', "[]", "", "[" * 99_999])
def test_answer_of_something_else_is_told_from_a_service(
    server: FakeServer, client: Client, body: str
) -> None:
    server.replies["GET", "/v1/policy"] = Answer(body, 200, "text/html")
    with pytest.raises(BadAnswer, match="is it a Podyard service"):
        client.policy()


def test_redirect_is_not_followed(server: FakeServer, client: Client) -> None:
    server.replies["GET", "/v1/policy"] = Answer("", 307, headers={"Location": "http://[::1]:1/"})
    with pytest.raises(ApiError, match="307"):
        client.policy()
    assert len(server.requests) == 1


def test_list_is_read_page_by_page(server: FakeServer, client: Client) -> None:
    server.lists["/v1/nodes"] = list(make_nodes(25))
    server.page_items = 10
    pages = client.nodes()
    assert [node.get("name") for node in pages] == [f"n{n:03d}" for n in range(1, 26)]
    assert pages.revision == 100
    assert [r.query.get("cursor") for r in server.requests] == [None, "10", "20"]


def test_list_that_would_not_end_is_refused(server: FakeServer, client: Client) -> None:
    page = {"items": [{"name": "n1"}], "revision": 1, "next": "again"}
    server.replies["GET", "/v1/nodes"] = Answer(page)
    with pytest.raises(BadAnswer, match="would not end"):
        list(client.nodes())


def test_list_without_items_is_a_bad_answer(server: FakeServer, client: Client) -> None:
    server.replies["GET", "/v1/nodes"] = Answer({"nodes": []})
    with pytest.raises(BadAnswer, match="no list of items"):
        list(client.nodes())


def test_filters_that_are_not_given_are_not_sent(server: FakeServer, client: Client) -> None:
    server.lists["/v1/jobs"] = list(make_jobs())
    assert len(list(client.jobs(state="pending"))) == 2
    assert server.requests[0].query == {"state": "pending", "limit": "500"}


def test_names_are_quoted_into_the_path(server: FakeServer, client: Client) -> None:
    with pytest.raises(ApiError, match="404"):
        client.job("a b", "x/../y?z=1#ä")
    assert server.requests[0].path == "/v1/namespaces/a%20b/jobs/x%2F..%2Fy%3Fz%3D1%23%C3%A4"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_name_that_would_change_the_path_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a name"):
        path_of("v1", "nodes", name, "cordon")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("scheduler:80", "http://scheduler:80"),
        ("https://podyard.example/base", "https://podyard.example/base"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_server_address_is_completed(text: str, address: str) -> None:
    assert server_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "http://", "http://x:port", "unix:///s", "http://["]
)
def test_server_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a server address"):
        server_address(text)


def test_path_below_a_prefix_is_kept(server: FakeServer, pauses: Pauses) -> None:
    server.replies["GET", "/base/v1/policy"] = Answer({"policy": "fair_share"})
    with Client(f"{server.url}/base/", sleep=pauses) as client:
        assert client.policy() == {"policy": "fair_share"}


def test_loopback_is_not_asked_through_a_proxy(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.replies["GET", "/v1/policy"] = Answer({})
    with Client(server.url, retry=Retry(tries=1)) as client:
        assert client.policy() == {}


def test_token_is_sent_as_a_bearer(server: FakeServer) -> None:
    server.replies["GET", "/v1/policy"] = Answer({})
    with Client(server.url, token="secret") as client:
        client.policy()
    assert server.requests[0].headers["authorization"] == "Bearer secret"


def test_wait_returns_the_job_once_it_is_bound(server: FakeServer, client: Client) -> None:
    answers = iter([make_waiting_job(), make_waiting_job(), make_job(state="bound")])
    server.replies["GET", JOB_PATH] = lambda _: Answer(next(answers))
    assert client.wait_job("research", "llama-70b", timeout_s=60).get("state") == "bound"
    assert {r.query["wait"] for r in server.requests} == {"bound"}
    assert all(0 < float(r.query["timeout_s"]) <= 20 for r in server.requests)


def test_wait_pauses_when_the_service_answers_at_once(
    server: FakeServer, client: Client, pauses: Pauses
) -> None:
    answers = iter([make_waiting_job(), make_job(state="bound")])
    server.replies["GET", JOB_PATH] = lambda _: Answer(next(answers))
    client.wait_job("research", "llama-70b", timeout_s=60)
    assert pauses.seconds == [0.25]


def test_wait_returns_a_job_that_ended_instead(server: FakeServer, client: Client) -> None:
    server.replies["GET", JOB_PATH] = Answer(make_job(state="cancelled"))
    assert client.wait_job("research", "llama-70b", timeout_s=60).get("state") == "cancelled"


@pytest.mark.parametrize(
    ("until", "state"),
    [
        ("bound", "bound"),
        ("bound", "evicting"),
        ("running", "running"),
        ("running", "failed"),
        ("finished", "succeeded"),
    ],
)
def test_wait_knows_what_is_far_enough(
    server: FakeServer, client: Client, until: Until, state: str
) -> None:
    early = {"bound": "pending", "running": "bound", "finished": "evicting"}[until]
    answers = iter([make_job(state=early), make_job(state=state)])
    server.replies["GET", JOB_PATH] = lambda _: Answer(next(answers))
    found = client.wait_job("research", "llama-70b", until=until, timeout_s=60)
    assert found.get("state") == state
    assert server.requests[0].query["wait"] == until


def test_wait_in_vain_says_what_the_job_is_instead(server: FakeServer, client: Client) -> None:
    server.replies["GET", JOB_PATH] = Answer(make_waiting_job("llama-70b"))
    with pytest.raises(WaitedInVain) as caught:
        client.wait_job("research", "llama-70b", timeout_s=0)
    assert str(caught.value) == "job 'research/llama-70b' is pending, not bound, after 0 s"


def test_events_are_read_up_to_the_revision_of_the_first_page(
    server: FakeServer, client: Client
) -> None:
    """A service that is never quiet must not make the list endless."""

    def page(request: Request) -> Answer:
        since = int(request.query["since"])
        items = [{"revision": since + n} for n in range(1, 4)]
        return Answer({"items": items, "revision": 7 + since, "next": "x"})

    server.replies["GET", "/v1/events"] = page
    assert [event.get("revision") for event in client.events(since=0)] == list(range(1, 10))


def test_inventory_is_sent_as_it_is_with_its_options(server: FakeServer, client: Client) -> None:
    result = {"created": 1, "updated": 0, "unchanged": 0, "removed": 0, "warnings": []}
    server.replies["POST", "/v1/inventory"] = Answer(result)
    text = "levels: [rack, node] # ä\n".encode()
    assert client.import_inventory(text, prune=True) == result
    (request,) = server.requests
    assert request.body == text
    assert request.headers["content-type"] == "application/yaml"
    assert request.query == {"prune": "true"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_body_that_json_cannot_say_is_refused(
    server: FakeServer, client: Client, value: object
) -> None:
    with pytest.raises(InputError, match="cannot be sent as JSON"):
        client.submit({"name": "a", "priority": value})
    assert server.requests == []


def test_every_call_uses_its_method_and_path(server: FakeServer, client: Client) -> None:
    """The calls that no other test looks at."""
    seen: list[str] = []

    def note(request: Request) -> Answer:
        seen.append(f"{request.method} {request.path} {request.body.decode()}".strip())
        return Answer({"items": [], "revision": 5})

    paths = ["topology", "overview", "nodes/n1", "queues/q", "domains", "racks", "queues", "events"]
    for path in paths:
        server.replies["GET", f"/v1/{path}"] = note
    for method, path in [
        ("POST", "nodes/n1/cordon"),
        ("POST", "nodes/n1/uncordon"),
        ("POST", "queues"),
        ("PATCH", "queues/q"),
        ("DELETE", "queues/q"),
        ("PUT", "policy"),
        ("POST", "test/clock"),
        ("POST", "namespaces/default/pods/a-0/status"),
    ]:
        server.replies[method, f"/v1/{path}"] = note
    client.topology(), client.overview(), client.node("n1"), client.queue("q")
    list(client.domains("leaf")), list(client.racks()), list(client.queues())
    assert client.next_event(3) is None
    client.cordon("n1", "loud")
    client.uncordon("n1")
    client.create_queue({"name": "q"})
    client.change_queue("q", {"weight": 2})
    client.delete_queue("q")
    client.set_policy({"policy": "fair_share"})
    client.advance_clock(30)
    client.report_pod("default", "a-0", attempt=1, state="succeeded", exit_code=0)
    assert seen == [
        *(f"GET /v1/{path}" for path in paths),
        'POST /v1/nodes/n1/cordon {"reason": "loud"}',
        "POST /v1/nodes/n1/uncordon {}",
        'POST /v1/queues {"name": "q"}',
        'PATCH /v1/queues/q {"weight": 2}',
        "DELETE /v1/queues/q",
        'PUT /v1/policy {"policy": "fair_share"}',
        'POST /v1/test/clock {"advance_s": 30}',
        "POST /v1/namespaces/default/pods/a-0/status "
        + json.dumps({"attempt": 1, "state": "succeeded", "exit_code": 0}),
    ]


def test_report_without_an_answer_body_is_fine(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/namespaces/d/pods/a-0/status"] = Answer("", 204)
    client.report_pod("d", "a-0", attempt=1, state="running")
    assert server.requests[0].json() == {"attempt": 1, "state": "running"}


def test_dry_run_is_a_submit_that_keeps_nothing(server: FakeServer, client: Client) -> None:
    server.replies["POST", "/v1/jobs"] = Answer(make_verdict())
    assert client.dry_run(JOB).get("when") == "not_now"
    assert server.requests[0].query == {"dry_run": "true"}


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False)])
def test_readiness_is_a_yes_or_no(
    server: FakeServer,
    client: Client,
    status: int,
    ready: bool,
) -> None:
    server.replies["GET", "/readyz"] = Answer({}, status)
    assert client.is_ready() is ready
    assert len(server.requests) == 1


def test_readiness_of_nothing_is_asked_once(pauses: Pauses) -> None:
    with Client(f"http://127.0.0.1:{unused_port()}", sleep=pauses) as client:
        assert not client.is_ready()
    assert pauses.seconds == []
