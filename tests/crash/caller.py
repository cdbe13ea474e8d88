"""A caller that submits, reports, controls and cancels without pause, and remembers the answers."""

import threading
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tests.checks import FINAL, Seen

UNANSWERED = 5
"""Submissions without an answer, after which no new ones are made."""

VERBS = ("hold", "release", "suspend", "resume", "requeue")

FAULTS = ({"code": "node_lost"}, {"xid": 79}, {"xid": 48}, {"xid": 31, "gpus": [0]})

STATES = ("running", "running", "succeeded", "succeeded", "failed")


@dataclass(slots=True)
class Tally:
    """What was answered.

    Attributes:
        statuses: How often; 0 = no answer.
        impatient: 503 that did not say when to try again.
    """

    statuses: dict[int, int] = field(default_factory=dict)
    impatient: int = 0


class Answers(Protocol):
    """Whoever answers requests: one service, or several behind one address."""

    def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object]]: ...


class Caller:
    """One thread of requests, each decided by chance from a seed.

    Attributes:
        pause_s: After each answer.
        seen: What the service has acknowledged.
        ended: Names of jobs that it was asked to end, whether or not there was an answer.
    """

    def __init__(self, service: Answers, name: str, seed: int) -> None:
        self.service = service
        self.pause_s = 0.02
        self.seen = Seen()
        self.tally = Tally()
        self.ended: set[str] = set()
        self._name = name
        self._chance = Random(f"{seed} {name}")
        self._number = 0
        self._unanswered: dict[str, dict[str, object]] = {}
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the request that is under way; raises what the thread ran into."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    @property
    def unanswered(self) -> int:
        """Submissions that had no answer yet."""
        return len(self._unanswered)

    def ask_again(self) -> None:
        """Repeat every submission that had no answer, under its key."""
        for key, body in list(self._unanswered.items()):
            self._submit(key, body)

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                self.act()
        except BaseException as error:
            self._failure = error

    def act(self) -> None:
        chance = self._chance.random()
        if len(self._unanswered) > UNANSWERED:
            self.ask_again()
        elif chance < 0.5:
            self._number += 1
            key = f"{self._name}-{self._number}"
            self._submit(key, self._body(key))
        elif chance < 0.8:
            self._report()
        elif chance < 0.87:
            self._control()
        elif chance < 0.92:
            self._tend()
        else:
            self._cancel()

    def _body(self, name: str) -> dict[str, object]:
        chance = self._chance
        body: dict[str, object] = {"name": name, "priority": chance.randint(0, 3)}
        match chance.randrange(4):
            case 0:
                return body | {"parallelism": {"tp": 8, "dp": chance.randint(1, 4)}}
            case 1:
                role = {"name": "m", "replicas": 4, "min": 2, "gpus": 4}
                scope = chance.choice(["pod", "gang", "pod_else_gang"])
                return body | {"roles": [role], "failure": {"scope": scope}}
            case _:
                return body | {"parallelism": {"tp": chance.choice([1, 2, 4])}}

    def _submit(self, key: str, body: dict[str, object]) -> None:
        self._unanswered[key] = body
        status, job = self._call("POST", "/v1/jobs", body, Idempotency_Key=key)
        if status in {200, 201}:
            uid = str(job["uid"])
            self.seen.jobs.add(uid)
            self.seen.keys[key].add(uid)
        if 0 < status < 500:
            del self._unanswered[key]

    def _report(self) -> None:
        _, page = self._call("GET", f"/v1/pods?node=n{self._chance.randint(1, 8):03d}")
        pods = page.get("items")
        if not isinstance(pods, list):
            return
        live = [pod for pod in pods if pod["state"] in {"bound", "running", "terminating"}]
        if live:
            pod = self._chance.choice(live)
            is_leaving = pod["state"] == "terminating"
            state = "stopped" if is_leaving else self._chance.choice(STATES)
            body = {"attempt": pod["attempt"], "state": state}
            if state in {"succeeded", "failed"}:
                body["exit_code"] = int(state == "failed")
            self._call("POST", f"/v1/namespaces/default/pods/{pod['name']}/status", body)

    def _control(self) -> None:
        name = f"{self._name}-{self._chance.randint(1, max(1, self._number))}"
        verb = self._chance.choice(VERBS)
        self._call("POST", f"/v1/namespaces/default/jobs/{name}/{verb}", {})

    def _tend(self) -> None:
        """Have a node fail, drain one, or mend what failed."""
        path, chance = f"/v1/nodes/n{self._chance.randint(1, 8):03d}", self._chance.random()
        if chance < 0.3:
            self._call("POST", f"{path}/faults", self._chance.choice(FAULTS))
        elif chance < 0.5:
            deadline_s = self._chance.choice([None, 0.0, 0.2])
            self._call("POST", f"{path}/drain", {"deadline_s": deadline_s})
        else:
            self.mend()

    def mend(self) -> None:
        """Clear every open fault, and end every drain."""
        _, page = self._call("GET", "/v1/faults?open=true")
        faults = page.get("items")
        for fault in faults if isinstance(faults, list) else ():
            self._call("DELETE", f"/v1/nodes/{fault['node']}/faults/{fault['id']}")
        self._call("POST", "/v1/sets/leaf/l1/undrain")

    def _cancel(self) -> None:
        name = f"{self._name}-{self._chance.randint(1, max(1, self._number))}"
        self.ended.add(name)
        status, job = self._call("DELETE", f"/v1/namespaces/default/jobs/{name}")
        if status == 200 and job["state"] in FINAL:
            self.seen.ended[str(job["uid"])] = str(job["state"])

    def _call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        status, found = self.service.call(method, path, body, **headers)
        self.tally.statuses[status] = self.tally.statuses.get(status, 0) + 1
        self.tally.impatient += status == 503 and "retry_after" not in found
        if not 0 < status < 500:
            self._ends.wait(self.pause_s)
        return status, found


def together(callers: list[Caller]) -> Seen:
    """What all of them were told."""
    out = Seen()
    for caller in callers:
        out.jobs |= caller.seen.jobs
        out.ended |= caller.seen.ended
        for key, uids in caller.seen.keys.items():
            out.keys[key] |= uids
    return out
