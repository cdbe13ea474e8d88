"""What the routes share: the parts of one service, handed in by the composition root."""

from dataclasses import dataclass, field

from api.admission.admit import Door
from api.clock import Clock
from api.http.feed import Feed
from api.http.gate import Gate
from api.http.placement_price import Regrets
from api.http.reader import Reader
from api.http.sight import Sight
from api.http.waiters import JobWaiters
from api.loop.runner import Runner
from api.metrics import Metrics
from api.settings import Settings
from api.store.engine import Database
from api.store.leases import Leases


@dataclass(frozen=True, slots=True)
class Service:
    """One process's parts.

    Attributes:
        runner: None where this process does not decide (`--role api`).
        reader: A copy of the world for questions; decides nothing.
        gate: Knows who callers are.
        sight: What dashboards poll, made once a change.
        regrets: What the empty cluster would offer, as far as it was asked.
    """

    settings: Settings
    database: Database
    clock: Clock
    runner: Runner | None
    metrics: Metrics
    door: Door
    reader: Reader
    sight: Sight
    waiters: JobWaiters
    feed: Feed
    leases: Leases
    gate: Gate
    regrets: Regrets = field(default_factory=Regrets)
