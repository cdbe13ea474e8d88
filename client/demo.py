"""The main job, end to end: a service, a cluster of 1,024 GPUs, a 70B job placed two ways.

Started by `make demo`. The service runs on SQLite in a folder of its own, on port 8080 if that is
free. On a terminal it stays up
at the end; elsewhere, or with DEMO_EXIT=1, it ends.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

import yaml

from client.http import Client
from client.shapes import Job, Pod

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
USUAL_PORT = 8080
READY_S = 30.0
PLACED_S = 30.0


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one rank is."""

    node: str
    leaf: str
    gpu: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Groups that lie as they should, of all that were looked at."""

    good: int
    all: int

    def __str__(self) -> str:
        return f"{self.good}/{self.all}"

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(self.good + other.good, self.all + other.all)


def main() -> int:
    # So that whoever ends the demo ends its service too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with (
        tempfile.TemporaryDirectory(prefix="podyard-demo-") as folder,
        service(Path(folder)) as url,
    ):
        with Client(url) as client:
            show(client)
        if sys.stdout.isatty() and os.environ.get("DEMO_EXIT", "0") in {"", "0"}:
            stay(url)
    return 0


def show(client: Client) -> None:
    """Import, place twice, count; the last line is the count."""
    say("1. The cluster: examples/h100-superpod.yaml")
    told = client.import_inventory((EXAMPLES / "h100-superpod.yaml").read_bytes())
    topology = client.topology()
    leaves = sum(1 for _ in client.domains("leaf"))
    say(f"   {told['created']} nodes created, {topology['gpus']} GPUs in {leaves} leaves")

    say("2. A 70B job on 1,024 GPUs; every pipeline inside one leaf")
    by_pipeline = place(client, "llama-70b-pp.yaml")
    say("   each letter is a node; equal letters are one pipeline (8 stages on 8 nodes)\n")
    draw(by_pipeline.pods, by_pipeline.groups("pp"))

    say("3. The same job; every data-parallel group inside one leaf instead")
    by_replica = place(client, "llama-70b-dp.yaml")
    say("   equal letters are one data-parallel group of nodes (16 replicas of one stage)\n")
    draw(by_replica.pods, by_replica.groups("dp"))

    tp = by_pipeline.inside(by_pipeline.groups("tp"), "node")
    pp = by_pipeline.inside(by_pipeline.groups("pp"), "leaf")
    dp = by_replica.inside(by_replica.groups("dp"), "leaf")
    rails = by_pipeline.rail_true(by_pipeline.groups("pp")) + by_replica.rail_true(
        by_replica.groups("dp")
    )
    say("Counted from the rank maps: tp groups on one node, pp groups in one leaf (first job),")
    say("dp groups in one leaf (second job), pp and dp groups with one GPU index on all nodes.")
    say(f"DEMO tp {tp} pp {pp} dp-leaf {dp} rail-true {rails}")


class RankMap:
    """What a placed job's pods say, rank by rank; knows nothing of how they were chosen."""

    def __init__(self, job: Job, pods: Sequence[Pod]) -> None:
        self.pods = pods
        sizes = job["spec"]["parallelism"]
        if not isinstance(sizes, dict):
            raise TypeError("the job has no parallel sizes")
        self.sizes = {axis: int(sizes[axis]) for axis in ("tp", "cp", "dp", "pp")}
        self.spots: dict[int, Spot] = {}
        for pod in pods:
            for rank, gpu in zip(pod["ranks"], pod["gpus"], strict=True):
                self.spots[rank] = Spot(pod["node"], str(pod["domains"]["leaf"]), gpu)

    def groups(self, axis: str) -> list[list[int]]:
        """Ranks of each group; ranks run through tp, cp, dp, pp, the first fastest."""
        out: dict[int, list[int]] = {}
        stride = 1
        for name, size in self.sizes.items():
            if name == axis:
                for rank in range(len(self.spots)):
                    first = rank - rank // stride % size * stride
                    out.setdefault(first, []).append(rank)
            stride *= size
        return list(out.values())

    def inside(self, groups: list[list[int]], level: str) -> Counted:
        """Groups whose ranks all lie in one node or one leaf."""
        good = sum(len({getattr(self.spots[rank], level) for rank in g}) == 1 for g in groups)
        return Counted(good, len(groups))

    def rail_true(self, groups: list[list[int]]) -> Counted:
        """Groups whose ranks have the same GPU index on every node."""
        good = sum(len({self.spots[rank].gpu for rank in group}) == 1 for group in groups)
        return Counted(good, len(groups))


def place(client: Client, example: str) -> RankMap:
    """Submit an example, wait for its place, read its rank map, and cancel it again."""
    body = yaml.safe_load((EXAMPLES / "jobs" / example).read_text(encoding="utf-8"))
    began_s = time.perf_counter()
    job = client.submit(body, wait_s=PLACED_S)
    if job["state"] == "pending":
        job = client.wait_job(job["namespace"], job["name"], timeout_s=PLACED_S)
    took_ms = (time.perf_counter() - began_s) * 1e3
    name = f"{job['namespace']}/{job['name']}"
    say(f"   {name} is {job['state']}: {job['gpus']} GPUs, {took_ms:.0f} ms")
    pods = list(client.pods(namespace=job["namespace"], job=job["name"]))
    client.cancel(job["namespace"], job["name"])
    while any(pod["state"] == "bound" for pod in client.pods(job=job["name"])):
        time.sleep(0.01)
    client.cancel(job["namespace"], job["name"])
    return RankMap(job, [pod for pod in pods if pod["gpus"]])


def draw(pods: Sequence[Pod], groups: list[list[int]]) -> None:
    """One row a leaf, one block a rack, one letter a node: the group of its first rank."""
    letter_of: dict[int, str] = {}
    for number, group in enumerate(groups):
        # The ranks of one node are in as many groups beside each other.
        letter = ascii_lowercase[number // len(pods[0]["ranks"]) % len(ascii_lowercase)]
        letter_of.update(dict.fromkeys(group, letter))
    rows: dict[str, dict[str, str]] = {}
    for pod in sorted(pods, key=lambda p: p["node"]):
        rack = rows.setdefault(str(pod["domains"]["leaf"]), {})
        name = str(pod["domains"]["rack"])
        rack[name] = rack.get(name, "") + letter_of[pod["ranks"][0]]
    for leaf, racks in rows.items():
        say(f"   {leaf}  " + " ".join(racks.values()))
    say("")


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """A service of our own on a free port, ended however we end."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "api.command", "serve", "--port", str(port)]
    command += ["--database-url", f"sqlite:///{folder / 'podyard.db'}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until_ready(url, process, folder / "log")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def free_port() -> int:
    """The service's usual port, or any other where that is taken."""
    for wanted in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no port is free on 127.0.0.1")


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + READY_S
    with Client(url) as client:
        while not client.is_ready():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit("the service did not start:\n" + log.read_text(errors="replace"))
            time.sleep(0.05)


def stay(url: str) -> None:
    """Keep the service up for whoever wants to look around."""
    print(f"\nThe service is up at {url} until Ctrl-C. In another terminal:", file=sys.stderr)
    print(f"  export PODYARD_SERVER={url}; .venv/bin/yardctl tree", file=sys.stderr)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print(file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
