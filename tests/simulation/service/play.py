"""One play: a cluster, the service in several processes, all around it, and a seed."""

import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from api.loop import leader as leader_module
from api.loop import runner as runner_module
from api.loop.replay import replay_all
from api.loop.runner import all_fit
from api.store import notify as notify_module
from api.store.engine import Database, open_engine
from api.store.errors import Deposed
from api.store.inventory import import_inventory
from api.store.policy import get_policy, put_policy
from api.store.schema import migrate
from api.store.snapshot import load_world
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.errors import SchedulerError
from scheduler.model.plan import Plan
from scheduler.policy import Policy
from tests.api.store.test_snapshot import same
from tests.builders import make_inventory, make_type
from tests.simulation.service.chaos import Chaos
from tests.simulation.service.checker import Checker
from tests.simulation.service.fakes import installed
from tests.simulation.service.history import History
from tests.simulation.service.hooks import Receivers
from tests.simulation.service.machines import Machine
from tests.simulation.service.network import Network
from tests.simulation.service.people import People
from tests.simulation.service.replica import Replica
from tests.simulation.service.server import START_S, Server, Session
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather, drawn

NODES = 6
FAIR_S = 1_500.0
"""How long the weather is fair at the end, at most: for each job to come to its end."""

RESTING_S = 300.0
"""Messages that are to be sent again sooner are left to themselves."""

POLL_S = 0.5
"""How late a process sees what another has committed: ten times what it is, for fewer steps."""

COMPARED = 8
"""Of so many decisions one is preceded by a look at what its leader remembers."""

RECOVERABLE = ("sqlalchemy", "sqlite3")
"""Where errors come from that the service is to outlive."""


@dataclass(slots=True)
class Played:
    """What came of one play.

    Attributes:
        steps: Turns of actors.
        commits: Of writers, each of which the checker looked at.
        virtual_s: Seconds that went by for those in it.
        digest: Of the whole history; the same seed gives the same.
        happened: Kind of trouble -> how often.
        broken: What was found, in words.
    """

    seed: int
    weather: str
    steps: int = 0
    commits: int = 0
    events: int = 0
    jobs: int = 0
    virtual_s: float = 0.0
    digest: str = ""
    happened: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)


class _Log:
    """In place of a module's logger: keeps errors that nothing around the service explains."""

    def __init__(self, play: "Play") -> None:
        self._play = play

    def exception(self, event: str, **_keys: object) -> None:
        error = sys.exc_info()[1]
        if error is None or isinstance(error, Deposed):
            return
        if type(error).__module__.partition(".")[0] not in RECOVERABLE:
            self._play.errors.append(f"{event}: {type(error).__name__}: {error}")

    def _quiet(self, *_words: object, **_keys: object) -> None:
        """What is no error."""

    debug = info = warning = error = _quiet


class Play:
    """All that is on one stage.

    Args:
        folder: For the database.
        template: A migrated database to begin with.
        weather: Drawn from the seed if not given.
    """

    def __init__(self, seed: int, folder: Path, template: Path, weather: Weather | None) -> None:
        self.seed = seed
        self.stage = Stage(seed)
        drawn_weather = drawn(self.stage.rng)
        self.weather = weather or drawn_weather
        path = folder / "play.db"
        shutil.copyfile(template, path)
        _load(path)
        self.history = History()
        self.errors: list[str] = []
        self.checker = Checker(str(path), self.history)
        self.server = Server(self.stage, str(path), self.weather)
        hooks = Receivers(self.stage, self.weather, self.history, self.checker.connection)
        names = [f"podyard-{number}" for number in range(self.weather.replicas)]
        self.replicas = [Replica(self.stage, self.server, name, hooks) for name in names]
        self.network = hooks.network = Network(self.stage, self.replicas, self.weather)
        self.people = People(self.stage, self.network, self.history, self.weather)
        self.machines = [
            Machine(f"n{n + 1:03d}", self.stage, self.network, self.history, self.people.run_s)
            for n in range(NODES)
        ]
        self.chaos = Chaos(
            self.stage,
            self.server,
            self.network,
            hooks,
            self.weather,
            self.replicas,
            self.machines,
        )
        self.server.on_commit = self._look
        self.server.on_death = self.chaos.die
        self._digest = hashlib.sha256()
        self._plain = _open(path)
        self._cycles = 0

    def _look(self, process: str, actor: str) -> None:
        self.checker.look(process, actor, self.stage.now_s)
        last = self.checker.last
        told = [tuple(event.values()) for event in last.events]
        self._digest.update(repr((self.stage.steps, process, actor, told)).encode())

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The service's modules are on this stage."""
        sessions = {replica.name: replica.session for replica in self.replicas}

        def session_of(database: Database) -> Session:
            return sessions[_replica_of(self.replicas, database)]()

        log = _Log(self)
        loops = [module for name, module in sys.modules.items() if name.startswith("api.loop.")]
        with ExitStack() as stack:
            stack.enter_context(installed(self.stage))
            stack.enter_context(patch.object(notify_module, "POLL_S", POLL_S))
            stack.enter_context(patch.object(leader_module, "LeaderSession", session_of))
            stack.enter_context(patch.object(runner_module, "run_cycle", self._decide))
            stack.enter_context(patch.object(runner_module, "all_fit", self._is_along))
            for module in loops:
                if hasattr(module, "log"):
                    stack.enter_context(patch.object(module, "log", log))
            yield

    def _decide(self, world: World, policy: Policy, now_s: float) -> Plan:
        """The real cycle, and now and then a look whether its leader remembers rightly."""
        self._cycles += 1
        if self._cycles % COMPARED == 0:
            (now,) = self.checker.connection.execute("SELECT revision FROM counter").fetchone()
            if now == world.revision and not same(world, load_world(self._plain)):
                self.errors.append(f"what a leader has in memory of revision {now} is not so")
        return run_cycle(world, policy, now_s)

    def _is_along(self, world: World, uids: Sequence[str]) -> bool:
        """Whether it is decided in the transaction that brings these; at times though they do not
        fit, as nothing but the time that takes stands against it.
        """
        return all_fit(world, uids) or self.stage.rng.random() < 0.5

    def run(self, steps: int, *, goes_to_its_end: bool = True) -> Played:
        """Play so many steps, then let the weather be fair until all has come to its end."""
        with self.installed():
            self._begin()
            while self.stage.steps < steps and self._goes_on():
                continue
            if not self._has_failed() and goes_to_its_end:
                self._end()
            self._bow()
        if not self._has_failed() and goes_to_its_end:
            self._repeat()
            self.checker.finish()
        return self._told()

    def _begin(self) -> None:
        for replica in self.replicas:
            replica.start()
        spawn = self.stage.spawn
        for machine in self.machines:
            machine.start_agent()
        spawn("submitter", self.people.submit_now_and_then, "")
        spawn("canceller", self.people.cancel_now_and_then, "")
        spawn("controller", self.people.control_now_and_then, "")
        spawn("looker", self.people.look_now_and_then, "")
        for who in ("watcher-1", "watcher-2"):
            spawn(who, lambda who=who: self.people.watch(who), "")  # type: ignore[misc]  # bound now
        self.chaos.begin()

    def _goes_on(self) -> bool:
        return self.stage.step() and not self._has_failed()

    def _has_failed(self) -> bool:
        if self.checker.only:
            return bool(self.checker.broken)
        return bool(self.checker.broken or self.stage.failed or self.errors or self.network.bugs)

    def _end(self) -> None:
        self.people.is_over = True
        self.chaos.end()
        spawn, until_s = self.stage.spawn, self.stage.now_s + FAIR_S
        spawn("closer", self._close, "")
        look_s = self.stage.now_s
        while self.stage.now_s < until_s and self._goes_on():
            if self.stage.now_s >= look_s:
                look_s = self.stage.now_s + 5.0
                if self._is_at_rest():
                    return

    def _close(self) -> None:
        """All faults are mended, all nodes are let in again, what never ends is cancelled.

        Messages that failed so often that they rest for up to an hour are sent again by hand.
        """
        for number in range(1_000):
            self.stage.sleep(20.0)
            self.chaos.mend()
            for machine in self.machines:
                self.chaos.undrain(machine.name)
            for delivery in self._resting():
                self.chaos.send_again(delivery)
            if number >= 1:
                for name in self._open_jobs():
                    self.people.cancel(name)

    def _open_jobs(self) -> list[str]:
        final = "('succeeded', 'failed', 'cancelled')"
        query = f"SELECT name FROM jobs WHERE state NOT IN {final} ORDER BY age"
        return [row["name"] for row in self.checker.connection.execute(query)]

    def _resting(self) -> list[str]:
        query = "SELECT id FROM deliveries WHERE state = 'pending' AND due_at > ? ORDER BY number"
        soon_s = self.replicas[0].clock.now_s() + RESTING_S
        return [row["id"] for row in self.checker.connection.execute(query, (soon_s,))]

    def _is_at_rest(self) -> bool:
        pending = "SELECT count(*) FROM deliveries WHERE state = 'pending'"
        (count,) = self.checker.connection.execute(pending).fetchone()
        return not count and not self._open_jobs()

    def _bow(self) -> None:
        """Everybody leaves the stage."""
        self.server.on_commit = lambda _process, _actor: None
        for replica in self.replicas:
            replica.die()
        self.stage.kill("")

    def _repeat(self) -> None:
        """Promise 10: what was decided is decided again, and comes out the same."""
        try:
            for done in replay_all(self._plain):
                if done.differences:
                    self.checker.broken.append(f"10: {done}: {done.differences[:3]}")
        except (LookupError, SchedulerError) as error:
            self.checker.broken.append(
                f"10: {type(error).__name__} as it is decided again: {error}"
            )

    def _told(self) -> Played:
        failed = [f"{a.name}: {type(a.error).__name__}: {a.error}" for a in self.stage.failed]
        last = self.checker.last
        self.checker.close()
        self._plain.close()
        return Played(
            self.seed,
            self.weather.as_words(),
            self.stage.steps,
            self.checker.commits,
            last.revision,
            self.people.numbers,
            round(self.stage.now_s, 1),
            self._digest.hexdigest()[:16],
            dict(sorted(self.chaos.happened.items())),
            [*self.checker.broken, *failed, *self.errors, *self.network.bugs],
        )


def _replica_of(replicas: list[Replica], database: Database) -> str:
    return next(r.name for r in replicas if getattr(r, "database", None) is database)


def _open(path: Path) -> Database:
    """The file itself, without a wire."""
    engine = open_engine(f"sqlite:///{path}")
    return Database(str(engine.url), engine)


def _load(path: Path) -> None:
    """The cluster and the policy that each play begins with."""
    database = _open(path)
    sizes = {"block": 1, "leaf": 1, "rack": 2, "node": NODES // 2}
    inventory = make_inventory(sizes, node_type=make_type(gpus=4))
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=START_S)
    policy = get_policy(database) | {
        "suspect_after_s": 8.0,
        "lost_after_s": 20.0,
        "breaker_share": 0.6,
    }
    put_policy(database, policy, now_s=START_S)
    database.close()


def play(
    seed: int,
    steps: int,
    template: Path,
    weather: Weather | None = None,
    *,
    only: int = 0,
    goes_to_its_end: bool = True,
) -> Played:
    """One play from its seed, in a folder that is gone afterwards.

    Args:
        only: The one promise that is looked at; 0 = all, and whatever else goes wrong.
        goes_to_its_end: Else it stops in the middle of everything.
    """
    with TemporaryDirectory(prefix="podyard-play-") as folder:
        made = Play(seed, Path(folder), template, weather)
        made.checker.only = only
        return made.run(steps, goes_to_its_end=goes_to_its_end)


def make_template(folder: Path) -> Path:
    """A migrated database that plays begin with."""
    path = folder / "template.db"
    migrate(f"sqlite:///{path}")
    return path
