"""Very many requests to a served process: python -m tests.fuzz.run --requests 100000 --seed 1.

Three kinds take turns: what schemathesis makes of the description of the API, right requests with
something wrong in them (of the API, the Kubernetes face, webhooks and extenders), and damaged files
of clusters. Every answer has to come within 5 s, be no 5xx and be as described; the process must
not grow.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.generation import GenerationMode
from schemathesis.openapi.loaders import from_dict

from tests.api.http.contract import Contract, description
from tests.fuzz.faces import a_file, kubernetes, own, reviews
from tests.fuzz.junk import wrong
from tests.fuzz.request import Sent
from tests.fuzz.served import NAMES, Served, wrong_lines

SECONDS_MAX = 5.0
"""Of one answer; one that takes longer is asked for again."""

STAGE_EVERY = 1_000
"""Requests after which all is put back and its memory is measured: each time of the same state."""

LONG_RUN = 10_000
"""Requests from which on it can be said whether the service grows."""

ROUND = 40
"""Requests of one operation that schemathesis makes before the next has its turn."""

GROWTH_BYTES = 1_500
"""A request, over the second half of a long run; the history that is kept takes a part of it."""

FACES = (
    *("/api", "/apis", "/openapi/", "/version", "/extender/", "/jobs/", "/queues/", "/podgroups/"),
    *("/hypernodes/", "/jobflows/", "/cronjobs/", "/pods/"),
)
"""Described elsewhere: by Kubernetes and by Volcano."""


@dataclass
class Report:
    """What a run found.

    Attributes:
        statuses: Answers by status.
        faults: What must not be, in words.
        memory: (requests sent, bytes in use), each time that all was as in the beginning.
        live_rows: What the service had to remember then, in the same order.
        slowest: The request that took longest.
    """

    sent: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    live_rows: list[int] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""

    def growth_bytes(self) -> float:
        """Bytes a request over the second half, by least squares."""
        half = self.memory[len(self.memory) // 2 :]
        if len(half) < 2:
            return 0.0
        mean_x = sum(x for x, _ in half) / len(half)
        mean_y = sum(y for _, y in half) / len(half)
        spread = sum((x - mean_x) ** 2 for x, _ in half)
        return sum((x - mean_x) * (y - mean_y) for x, y in half) / spread

    def told(self) -> dict[str, object]:
        return {
            "requests": self.sent,
            "by_kind": dict(self.by_kind),
            "operations": len(self.operations),
            "statuses": {str(k): v for k, v in sorted(self.statuses.items())},
            "slowest_s": round(self.slowest_s, 3),
            "slowest": self.slowest[:200],
            "memory_mb": [round(used / 1e6, 1) for _, used in self.memory],
            "live_rows": [min(self.live_rows, default=0), max(self.live_rows, default=0)],
            "growth_bytes_per_request": round(self.growth_bytes(), 1),
            "faults": len(self.faults),
        }


class Fuzzer:
    """Sends requests to one service and judges the answers.

    Attributes:
        is_stopped: Set from outside to end a run after its present round.
    """

    def __init__(self, served: Served, run_seed: int) -> None:
        self.served = served
        self.draw = random.Random(run_seed)
        self.report = Report()
        self._contract = Contract(description())
        self._seed = run_seed
        self.is_stopped = False
        self._wrong_seeds = {"own": own(), "kubernetes": kubernetes(), "reviews": reviews()}

    def run(self, requests: int) -> Report:
        """Send so many, in turns."""
        turns: Sequence[Callable[[], None]] = (
            self._described, self._damaged, self._described, self._damaged, self._files
        )  # fmt: skip
        turn = 0
        if requests >= LONG_RUN:
            self.served.fill()
        while self.report.sent < requests and self.served.is_alive and not self.is_stopped:
            turns[turn % len(turns)]()
            turn += 1
        if not self.served.is_alive:
            self.report.faults.append("the service has ended")
        self.report.faults += [f"in its log: {line}" for line in wrong_lines(self.served.log)]
        return self.report

    def send(self, kind: str, sent: Sent) -> None:
        report = self.report
        if report.sent % STAGE_EVERY == 0:
            if report.sent:
                self.served.stage()
            report.live_rows.append(self.served.live_rows())
            report.memory.append((report.sent, self.served.rss_bytes()))
        report.sent += 1
        report.by_kind[kind] += 1
        try:
            status, headers, content, seconds = self.served.send(sent)
        except Exception as error:  # an edge: whatever it was, it is told with the request
            report.faults.append(f"no answer ({error!r}): {sent}")
            return
        report.statuses[status] += 1
        if seconds > report.slowest_s:
            report.slowest_s, report.slowest = seconds, str(sent)
        if status >= 500:
            report.faults.append(f"{status}: {sent.shown(20_000)} -> {content[:500]!r}")
        elif seconds > SECONDS_MAX and (again_s := self._again_s(sent)) > SECONDS_MAX:
            report.faults.append(f"{seconds:.1f} s, then {again_s:.1f} s: {sent}")
        else:
            self._compare(sent, status, headers, content)

    def _again_s(self, sent: Sent) -> float:
        """How long it takes at best of two more times: the machine may have had others to serve."""
        return min(self.served.send(sent)[3] for _ in range(2))

    def _compare(self, sent: Sent, status: int, headers: dict[str, str], content: bytes) -> None:
        """Hold an answer against the description."""
        if sent.target.startswith(FACES) or "event-stream" in headers.get("content-type", ""):
            return
        answer = httpx2.Response(status, headers=headers, content=content)
        try:
            if self._contract.operation(sent.method, sent.target) is not None:
                self._contract.check(sent.method, sent.target, answer)
        except (AssertionError, jsonschema.ValidationError, KeyError) as error:
            said = str(error).strip().splitlines() or [""]
            self.report.faults.append(f"not as described ({said[0][:300]}): {status} {sent}")

    def _described(self) -> None:
        """A round of one operation of the description."""
        path, method = self.draw.choice(OPERATIONS)
        self.report.operations.add(f"{method} {path}")
        self._seed += 1

        @seed(self._seed)
        @settings(
            max_examples=ROUND,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(cases(path, method))
        def each(case: Case[Any]) -> None:
            sent = sent_of(case, self.draw)
            if sent is not None:
                self.send("schemathesis", sent)

        each()

    def _damaged(self) -> None:
        for _ in range(ROUND):
            kind = self.draw.choice(("own", "own", "kubernetes", "reviews"))
            sent = wrong(self.draw, self.draw.choice(self._wrong_seeds[kind]), NAMES)
            if "watch" not in sent.target and "wait" not in sent.target:
                self.send(f"damaged: {kind}", sent)

    def _files(self) -> None:
        for _ in range(ROUND // 4):
            self.send("files", a_file(self.draw))


SCHEMA = from_dict(dict(description()))
OPERATIONS = [
    (path, method)
    for path, methods in description()["paths"].items()
    for method in methods
    if path != "/v1/test/clock"
]


def cases(path: str, method: str) -> st.SearchStrategy[Case[Any]]:
    """Requests that are as described, and such as are not."""
    operation = SCHEMA[path][method]
    return st.one_of(
        operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
    )


def sent_of(case: Case[Any], draw: random.Random) -> Sent | None:
    """What goes over the wire; names of things that are there in place of half the made-up ones."""
    if case.query:
        for name in ("wait", "wait_s", "timeout_s"):  # they wait, as asked, for half a minute
            case.query.pop(name, None)
    for name in case.path_parameters or ():
        if draw.random() < 0.5:
            case.path_parameters[name] = draw.choice(NAMES)
    if case.path.endswith("/logs") and case.method == "GET":
        case.query = dict(case.query or {}) | {"wait_s": "0.01"}
    made = case.as_transport_kwargs(base_url="http://127.0.0.1:8080")
    made.pop("cookies", None)
    if "data" in made:
        made["content"] = made.pop("data")
    if made.pop("files", None) or not isinstance(made.get("content"), bytes | str | type(None)):
        return None  # a form, which no path takes
    request = httpx2.Request(**made)
    left_out = {"host", "content-length", "user-agent", "accept-encoding", "connection"}
    headers = {k: v for k, v in request.headers.items() if k not in left_out}
    kind = headers.pop("content-type", "")
    headers |= {"Content-Type": kind} if kind else {}
    return Sent(request.method, request.url.raw_path.decode("ascii"), request.content, headers)


@contextmanager
def fuzzer(url: str, run_seed: int) -> Iterator[Fuzzer]:
    """A fuzzer with a service of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="podyard-fuzz-") as folder,
        Served(Path(folder), url) as served,
    ):
        yield Fuzzer(served, run_seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database-url", default="", help="Of an empty database; default SQLite.")
    parser.add_argument("--show", type=int, default=40, help="Faults to print.")
    given_ = parser.parse_args()
    begun = time.monotonic()
    with fuzzer(given_.database_url, given_.seed) as made:
        signal.signal(signal.SIGTERM, lambda *_: setattr(made, "is_stopped", True))
        report = made.run(given_.requests)
    is_growing = report.sent >= LONG_RUN and report.growth_bytes() > GROWTH_BYTES
    for fault in report.faults[: given_.show]:
        print(fault, file=sys.stderr)  # noqa: T201 - a report for people
    told = report.told() | {"seed": given_.seed, "seconds": round(time.monotonic() - begun)}
    print(json.dumps(told | {"grows": is_growing}, indent=1))  # noqa: T201 - a report for people
    sys.exit(bool(report.faults) or is_growing)


if __name__ == "__main__":
    main()
