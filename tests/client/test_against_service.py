"""The client and the command line against the real service, on SQLite, over a real connection."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from client.cli.main import app
from client.errors import ApiError, WaitedInVain
from client.http import Client
from tests.client.golden_text import Yardctl

ROOT = Path(__file__).parents[2]

INVENTORY = """\
cluster: lab
levels: [block, leaf, rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10}
nodes:
  - {names: "n[01-04]", type: small, rack: r1, leaf: l1, block: b1, labels: {zone: a}}
  - {names: "n[05-08]", type: small, rack: r2, leaf: l1, block: b1, labels: {zone: b}}
  - {names: "n[09-12]", type: small, rack: r3, leaf: l2, block: b1, labels: {zone: b}}
racks:
  - {names: "r[1-3]", power_kw: 45}
"""

JOB = """\
name: train
namespace: research
parallelism: {tp: 8, pp: 2, dp: 2}
topology: [{group: job, within: rack, mode: required}]
model: {params: 70e9, layers: 80, hidden: 8192, seq: 4096}
"""

TOO_LARGE = """\
name: wide
namespace: research
parallelism: {tp: 8, dp: 8}
topology: [{group: job, within: leaf, mode: required}]
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service of its own on a free port; its address."""
    folder = tmp_path_factory.mktemp("service")
    command = [sys.executable, "-m", "api.command", "serve", "--port", "0", "--log-format", "json"]
    command += ["--database-url", f"sqlite:///{folder / 'podyard.db'}"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        yield ready_address(process, log)
    finally:
        process.terminate()
        process.wait()


def ready_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the service says it serves, once it is ready there."""
    pause = threading.Event()
    while process.poll() is None:
        if found := re.search(r'"url": *"(http://[^"]+)"', log.read_text()):
            with Client(found[1]) as client:
                if client.is_ready():
                    return found[1]
        pause.wait(0.02)
    raise AssertionError(f"the service ended: {log.read_text()}")


@pytest.fixture
def client(service: str) -> Iterator[Client]:
    """A client of a service with the cluster in it and no jobs; both again afterwards."""
    with Client(service) as opened:
        opened.import_inventory(INVENTORY.encode())
        yield opened
        for node in opened.nodes():
            opened.uncordon(node["name"])
        for job in opened.jobs():
            remove(opened, job["namespace"], job["name"])


def remove(client: Client, namespace: str, name: str) -> None:
    """Cancel a job, and delete its record once it has ended."""
    client.cancel(namespace, name)
    with suppress(ApiError):  # an ended job's record went with the first call
        client.wait_job(namespace, name, until="finished", timeout_s=10)
        client.cancel(namespace, name)


@pytest.fixture
def yardctl(monkeypatch: pytest.MonkeyPatch, service: str, client: Client) -> Yardctl:
    """The command line against the service."""
    monkeypatch.setenv("PODYARD_SERVER", service)
    monkeypatch.setenv("PODYARD_NAMESPACE", "research")

    def run(*words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=stdin, prog_name="yardctl")

    return run


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_inventory_is_applied_once_and_then_unchanged(yardctl: Yardctl) -> None:
    result = yardctl("apply", "-f", "-", "--prune", stdin=INVENTORY)
    assert result.stdout == "inventory/lab: nodes 0 created, 0 updated, 12 unchanged, 0 removed\n"


def test_inventory_of_another_format_is_tried_and_what_is_there_can_be_written_and_read(
    yardctl: Yardctl, tmp_path: Path
) -> None:
    """Nothing is changed: by the dry run, nor by the import of what was exported."""
    other = "SwitchName=l1 Nodes=n[01-08]\nSwitchName=l3 Nodes=n[09-13]\n"
    result = yardctl("apply", "-f", "-", "--dry-run", "--node-type", "hgx-h100", stdin=other)
    assert result.stdout.startswith("standard input (slurm): nodes 1 created, 12 updated")
    assert ["updated", "n09", "and", "3", "more", "leaf", "l2", "l3"] in table(result.stdout)
    assert "created   n13" in result.stdout
    path = tmp_path / "all.yaml"
    path.write_text(yardctl("get", "inventory", "-o", "yaml").stdout)
    result = yardctl("apply", "-f", str(path), "--prune")
    assert result.stdout == "inventory/lab: nodes 0 created, 0 updated, 12 unchanged, 0 removed\n"


def test_cluster_is_shown_in_every_view(yardctl: Yardctl) -> None:
    nodes = table(yardctl("get", "nodes").stdout)
    assert nodes[:2] == [
        ["NAME", "TYPE", "GPUS", "FREE", "HEALTH", "BLOCK", "LEAF", "RACK", "PODS"],
        ["n01", "small", "8", "8", "healthy", "b1", "l1", "r1", "0"],
    ]
    assert len(nodes) == 13
    assert len(table(yardctl("get", "nodes", "-l", "zone=a").stdout)) == 5
    assert len(table(yardctl("get", "domains").stdout)) == 1 + 1 + 2 + 3
    assert table(yardctl("get", "racks").stdout)[1][7] == "0/45"
    assert table(yardctl("tree", "--level", "leaf").stdout)[1][:4] == ["lab", "12", "96", "96"]
    assert table(yardctl("get", "queues").stdout)[1][0] == "default"
    assert "Rack:       r1\n" in yardctl("describe", "node", "n01").stdout


def test_job_is_placed_shown_and_cancelled(yardctl: Yardctl) -> None:
    result = yardctl("create", "-f", "-", "--wait", "bound", stdin=JOB)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "job/research/train created\njob/research/train bound\n"
    assert table(yardctl("get", "jobs").stdout)[1][:4] == ["train", "bound", "0/4", "32"]
    assert len(table(yardctl("get", "pods", "--job", "train").stdout)) == 5
    drawing = yardctl("placement", "train").stdout
    assert "  leaf l2  r3 ####\n" in drawing or "  leaf l1  r1 ####  r2 ....\n" in drawing
    assert "slots=8\n" in yardctl("placement", "train", "--format", "hostfile").stdout
    torchrun = json.loads(yardctl("placement", "train", "--format", "torchrun").stdout)
    assert torchrun["nnodes"] == 4
    assert "it does not wait" in yardctl("explain", "train").stdout
    described = yardctl("describe", "job", "train").stdout
    assert "Shape:         tp 8, pp 2, dp 2\n" in described
    assert "job.bound" in described
    assert yardctl("delete", "job", "train").stdout == "job/research/train cancelled\n"
    kinds = [row[2] for row in table(yardctl("events", "--job", "train").stdout)[1:]]
    assert "job.bound" in kinds


def test_job_that_waits_is_explained_and_placed_when_there_is_room(
    yardctl: Yardctl, client: Client
) -> None:
    for number in range(5, 8):
        assert yardctl("cordon", f"n0{number}", "--reason", "swap fans").exit_code == 0
    result = yardctl("create", "-f", "-", "--wait", "bound", "--timeout", "0.2", stdin=TOO_LARGE)
    assert result.exit_code == 4
    explained = yardctl("explain", "wide").stdout
    assert explained.startswith("job 'research/wide' is pending(rule), submitted ")
    assert "leaf 'l1' lacks 3 nodes" in explained
    assert "3 cordoned" in explained
    assert "Cordoned:" in yardctl("describe", "node", "n05").stdout
    assert yardctl("uncordon", "n05", "n06", "n07").exit_code == 0
    assert client.wait_job("research", "wide", timeout_s=10).get("state") == "bound"


def test_job_that_never_fits_is_refused_with_the_reason(yardctl: Yardctl) -> None:
    body = TOO_LARGE.replace("dp: 8", "dp: 16")
    result = yardctl("create", "-f", "-", stdin=body)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error (422): ")
    dry = yardctl("create", "-f", "-", "--dry-run", "server", stdin=body)
    assert dry.exit_code == 1
    assert "never fits" in dry.stdout


def test_dry_run_says_where_and_keeps_nothing(yardctl: Yardctl) -> None:
    result = yardctl("create", "-f", "-", "--dry-run", "server", stdin=JOB)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [
        "job/research/train fits now (dry run)",
        "  4 pods: block 1, leaf 1, rack 1, node 4",
    ]
    assert yardctl("get", "jobs").stderr == "No jobs in namespace 'research'.\n"


def test_wrong_job_is_refused_by_its_path(yardctl: Yardctl) -> None:
    result = yardctl("create", "-f", "-", stdin="name: a\nroles: [{name: r, replicas: 0}]\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error (422): roles[0].replicas: ")


def test_pods_that_succeed_end_the_job(yardctl: Yardctl, client: Client) -> None:
    yardctl("create", "-f", "-", "--wait", "bound", stdin=JOB)
    for state, code in (("running", None), ("succeeded", 0)):
        for pod in list(client.pods(namespace="research", job="train")):
            client.report_pod(
                "research", pod["name"], attempt=pod["attempt"], state=state, exit_code=code
            )
    ended = client.wait_job("research", "train", until="finished", timeout_s=10)
    assert ended.get("state") == "succeeded"
    assert table(yardctl("get", "nodes", "--no-headers").stdout)[0][3] == "8"


def test_same_key_is_one_job(yardctl: Yardctl, client: Client) -> None:
    body = {"name": "once", "parallelism": {"tp": 8}}
    first = client.submit(body, key="k1")
    assert client.submit(body, key="k1").get("uid") == first.get("uid")
    with pytest.raises(ApiError, match="409"):
        client.submit(body, key="k2")


def test_waiting_ends_with_the_time_given(yardctl: Yardctl, client: Client) -> None:
    for node in client.nodes():
        client.cordon(node["name"], "all of them")
    client.submit({"name": "a", "parallelism": {"tp": 8}})
    with pytest.raises(WaitedInVain, match=r"is pending, not bound, after 0\.1 s"):
        client.wait_job("default", "a", timeout_s=0.1)


def test_other_calls_are_served_as_the_client_makes_them(yardctl: Yardctl, client: Client) -> None:
    assert client.is_ready()
    assert client.overview()["cluster"] == "lab"
    client.create_queue({"name": "q", "quota_gpus": 8})
    assert client.change_queue("q", {"limit_gpus": 16}).get("limit_gpus") == 16
    assert {queue.get("name") for queue in client.queues()} >= {"default", "q"}
    client.delete_queue("q")
    assert client.set_policy(client.policy()) == client.policy()
    assert [event.get("revision") for event in client.events()][-1] == client.revision()


def test_job_is_held_released_suspended_and_resumed(yardctl: Yardctl, client: Client) -> None:
    job = {"name": "train", "namespace": "research", "parallelism": {"tp": 8}}
    client.submit(job, wait_s=20)
    named = "research/train"
    assert yardctl("hold", named).stdout == "job/research/train held\n"
    assert client.job("research", "train").get("held") is True
    assert yardctl("release", named).stdout == "job/research/train released\n"
    client.save_checkpoint("research", "train", {"step": 7, "uri": "s3://b/7"})
    assert "step 7 at s3://b/7" in yardctl("describe", "job", named).stdout
    yardctl("suspend", named)
    for _ in range(200):
        for pod in client.pods(namespace="research", job="train"):
            if pod.get("state") == "terminating":
                client.report_pod("research", pod["name"], attempt=1, state="stopped")
        if client.job("research", "train").get("state") == "suspended":
            break
        client.sleep(0.05)
    assert yardctl("requeue", named).exit_code == 1
    assert yardctl("resume", named).stdout == "job/research/train to be resumed\n"
    bound = client.wait_job("research", "train", timeout_s=20)
    assert (bound.get("state"), bound.get("attempt")) == ("bound", 2)


def test_nodes_are_reserved_claimed_and_given_back(yardctl: Yardctl, client: Client) -> None:
    made = yardctl("reserve", "w", "--domain", "rack:r1", "--start", "+1h", "--for", "2h")
    assert made.stdout.startswith("reservation/w made: 4 nodes, ")
    for _ in range(200):
        if client.reservation("w").get("claimed") == 4:
            break
        client.sleep(0.05)
    claims = table(yardctl("get", "claims", "--node", "n01").stdout)
    assert claims[1][:3] == ["w", "maintenance", "n01"]
    assert [row[0] for row in table(yardctl("get", "reservations").stdout)] == ["NAME", "w"]
    assert yardctl("delete", "reservation", "w").stdout == "reservation/w withdrawn\n"
    assert list(client.reservations()) == []
    refused = yardctl("reserve", "x", "--nodes", "none", "--for", "2h")
    assert (refused.exit_code, "node 'none' does not exist" in refused.stderr) == (1, True)


def test_watch_batch_and_change_follow_each_other(service: str) -> None:
    with Client(service, timeout_s=30.0) as client:
        since = client.revision()
        job = {"name": "followed", "namespace": "w", "parallelism": {"tp": 8, "dp": 40}}
        job |= {"if_never_fits": "wait"}
        made = client.batch([job, {"name": "wrong"}])
        assert [item["status"] for item in made["items"]] == [201, 422]
        revision = client.job("w", "followed").get("revision")
        changed = client.change_job("w", "followed", {"priority": 9})
        assert changed.get("priority") == 9
        with pytest.raises(ApiError) as caught:
            client.change_job("w", "followed", {"priority": 1}, revision=revision)
        assert caught.value.status == 409
        assert client.batch(delete=["w/followed"])["deleted"][0]["status"] == 200
        kinds = ["job.submitted", "job.changed", "job.cancelled"]
        events = client.watch(since=since, kinds=kinds, namespace="w", job="followed")
        assert [next(events).get("kind") for _ in kinds] == kinds


def test_queues_are_applied_from_a_file(yardctl: Yardctl, client: Client, tmp_path: Path) -> None:
    """As often as you like; what would not do is refused with the service's words."""
    path = tmp_path / "queues.yaml"
    text = "queues: [{name: below, parent: above, quota_gpus: 8}, {name: above, quota_gpus: 16}]"
    path.write_text(text, encoding="utf-8")
    said = yardctl("apply", "-f", str(path)).stdout
    assert said == "queue/above created\nqueue/below created\n"
    again = yardctl("apply", "-f", str(path)).stdout
    assert again == "queue/above unchanged\nqueue/below unchanged\n"
    path.write_text(text.replace("quota_gpus: 16", "quota_gpus: 4"), encoding="utf-8")
    refused = yardctl("apply", "-f", str(path))
    assert refused.exit_code == 1
    assert "guaranteed 8 GPUs together" in " ".join(refused.stderr.split())
    assert client.queue("above").get("quota_gpus") == 16
    path.write_text("kind: Queue\nname: below\nparent: above\n", encoding="utf-8")
    changed = yardctl("apply", "-f", str(path)).stdout
    assert changed == "queue/below configured: quota_gpus 8 -> none\n"
    yardctl("queue", "delete", "below", "above")


def test_queue_is_made_used_accounted_for_and_deleted(yardctl: Yardctl, client: Client) -> None:
    assert yardctl("queue", "create", "vision", "--quota", "16").stdout == "queue/vision created\n"
    said = yardctl("queue", "set", "vision", "--limit", "32", "--max-pending", "9").stdout
    assert said == "queue/vision changed\n"
    assert client.put_queue("vision", {"quota_gpus": 16, "limit_gpus": 32}).get("lent_gpus") == 16
    client.submit({"name": "a", "queue": "vision", "parallelism": {"tp": 8}}, wait_s=20)
    wide = table(yardctl("get", "queue", "vision", "-o", "wide").stdout)
    assert dict(zip(*wide, strict=True)) == {
        "NAME": "vision",
        "PARENT": "-",
        "USED": "8",
        "QUOTA": "16",
        "LIMIT": "32",
        "PENDING": "0",
        "WEIGHT": "1",
        "BORROWED": "0",
        "LENT": "8",
        "SHARE": "0.083",
        "RUNNING": "1",
        "CLOSED": "no",
        "MAX-PRIORITY": "-",
        "NAMESPACES": "-",
    }
    refused = yardctl("queue", "delete", "vision")
    assert (refused.exit_code, "e.g. 'default/a'" in refused.stderr) == (1, True)
    (row,) = client.usage(by="job", queue="vision")
    assert (row.get("job"), row.get("namespace")) == ("a", "default")
    assert "vision" in yardctl("usage").stdout
    client.cancel("default", "a")
    client.wait_job("default", "a", until="finished", timeout_s=20)
    assert yardctl("queue", "delete", "vision").stdout == "queue/vision deleted\n"
