"""A service with an outbox, a job with a hook, and a receiver, for tests of the handshake."""

from collections.abc import Mapping

from api.clock import ManualClock
from api.hooks.allow import read_allowed
from api.hooks.send import Sender
from api.hooks.sign import Secrets
from api.loop.outbox import Outbox
from tests.api.hooks.receiver import Receiver
from tests.api.http.yard import Json, Yard

GRACE_S = 60.0
PATIENCE_S = 30.0
"""How long an answer is waited for: on a crowded machine one that comes may take a second."""

SMALL = """\
cluster: test
levels: [rack, node]
scale_up: node
node_types:
  small: {gpu: CARD, gpus: 8, rails: 8, power_kw: 10}
nodes:
  - {names: "a[1-2]", type: small, rack: r1}
"""

LOW = "/v1/namespaces/default/jobs/low"
HIGH = "/v1/namespaces/default/jobs/high"


class Hooked:
    """Two nodes, `low` on both of them with a hook, and `high` that makes it leave."""

    def __init__(self, yard: Yard, receiver: Receiver) -> None:
        self.yard = yard
        self.receiver = receiver
        self.outbox = Outbox(
            yard.database,
            yard.clock,
            Sender(
                read_allowed([], loopback=True), Secrets(), timeout_s=PATIENCE_S, bytes_max=65_536
            ),
        )
        yard.load(SMALL)

    @property
    def clock(self) -> ManualClock:
        assert isinstance(self.yard.clock, ManualClock)
        return self.yard.clock

    def never_answered(self) -> None:
        """No answer is to come: wait for none as long as for one."""
        self.outbox._sender._timeout_s = 0.3

    def run_low(self, *, scope: str | None = None, **checkpoint: object) -> None:
        """Submit the job and have it run, its first notices delivered."""
        asked: Mapping[str, object] = {"hook": self.receiver.url, "grace_s": GRACE_S} | checkpoint
        failure = {} if scope is None else {"failure": {"scope": scope}}
        fields: dict[str, object] = {"parallelism": {"tp": 8, "dp": 2}, **failure}
        self.yard.submit("low", checkpoint=dict(asked), **fields)
        self.yard.cycle()
        self.yard.report_all("running")
        self.clock.advance(100)
        self.outbox.drain()
        assert self.low()["state"] == "running"
        self.receiver.got.clear()

    def preempt(self) -> None:
        """Have `low` leave for another."""
        self.yard.submit("high", parallelism={"tp": 8, "dp": 2}, priority=100)
        self.yard.cycle()

    def step(self, seconds: float = 0.0) -> None:
        """Let time go by, send what is due, and let the scheduler act."""
        self.clock.advance(seconds)
        self.outbox.drain()
        self.yard.cycle()

    def low(self) -> Json:
        return self.yard.ok("GET", LOW)

    def leaving(self) -> tuple[object, ...]:
        """State and step of `low`."""
        job = self.low()
        evicting = job["evicting"]
        return (job["state"], evicting["step"] if isinstance(evicting, dict) else None)

    def pod_states(self) -> set[object]:
        return {pod["state"] for pod in self.yard.items("/v1/pods?job=low")}

    def stop_low(self) -> None:
        """The nodes say that the pods have stopped."""
        for pod in self.yard.items("/v1/pods?job=low"):
            assert pod["state"] == "terminating"
            path = f"/v1/namespaces/default/pods/{pod['name']}/status"
            self.yard.ok("POST", path, {"attempt": pod["attempt"], "state": "stopped"})
        self.yard.cycle()

    def deliveries(self, kind: str = "checkpoint.requested") -> list[Json]:
        return self.yard.items(f"/v1/hooks/deliveries?kind={kind}")
