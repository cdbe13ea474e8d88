"""Those who use the service: they submit, try again when nobody answers, cancel, ask, and watch."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from api.store.control import control_job
from api.store.errors import Conflict, Gone, NotFound, QueueFull, StoreError
from api.store.events import list_events
from api.store.jobs import cancel_job, get_job_by_uid, submit_job
from api.store.views import IdempotencyKey, JobView
from scheduler.errors import SchedulerError
from scheduler.model.job import Failure, JobSpec, Mode, ParallelSizes, Parts, Role, Rule, Scope
from scheduler.model.lifecycle import FINAL
from scheduler.model.plan import FactKind
from tests.simulation.service.history import History
from tests.simulation.service.network import Network, NoAnswer
from tests.simulation.service.replica import Replica
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather

TRIES = 12
CONTROL = (
    FactKind.HOLD,
    FactKind.RELEASE,
    FactKind.SUSPEND,
    FactKind.RESUME,
    FactKind.REQUEUE,
)


@dataclass(slots=True)
class People:
    """Everybody but agents and hooks.

    Attributes:
        run_s: Job -> how long its pods run and whether they may fail, for machines.
        is_over: Nobody submits any more.
        known: Uid -> name of jobs that were acknowledged.
    """

    stage: Stage
    network: Network
    history: History
    weather: Weather
    run_s: dict[str, tuple[float, bool]] = field(default_factory=dict)
    is_over: bool = False
    known: dict[str, str] = field(default_factory=dict)
    numbers: int = 0

    # --- submitting --------------------------------------------------------------------

    def submit_now_and_then(self) -> None:
        while not self.is_over:
            self.stage.sleep(self.stage.rng.expovariate(1.0 / self.weather.submit_every))
            if not self.is_over:
                self.numbers += 1
                key = f"k{self.numbers}"
                spec = self._spec(f"j{self.numbers}")
                self.stage.spawn(f"client-{key}", lambda k=key, s=spec: self._submit(k, s), "")  # type: ignore[misc]  # bound now

    def _submit(self, key: str, spec: JobSpec) -> None:
        """One job, however often that takes; at times again though it was acknowledged."""
        self.history.name_of[key] = spec.name
        body = {"name": spec.name}
        for _ in range(TRIES):
            given = IdempotencyKey("someone", "default", key, "hash")
            # Who waits for a place may get it in the very transaction that brings the job.
            is_awaited = self.stage.rng.random() < 0.5

            def work(
                replica: Replica, given: IdempotencyKey = given, is_awaited: bool = is_awaited
            ) -> JobView:
                return submit_job(
                    replica.database,
                    spec,
                    body,
                    now_s=replica.clock.now_s(),
                    idempotency=given,
                    is_awaited=is_awaited,
                )[0]

            try:
                job = self.network.call(f"client-{key}", work)
            except NoAnswer:
                self.stage.sleep(self.stage.rng.random() * 3.0)
                continue
            except Conflict as error:
                if error.path != "Idempotency-Key" or spec.name not in self.history.deleted:
                    self.history.complaints.append(f"5: key {key}: {error}")
                return
            except (QueueFull, NotFound):
                return
            self.history.told[key].add(job.uid)
            self.known[job.uid] = spec.name
            if self.stage.rng.random() < 0.8:
                break
        if self.stage.rng.random() < 0.1:
            self._misuse(key, spec)

    def _misuse(self, key: str, spec: JobSpec) -> None:
        """Another body under the same key is refused."""
        other = replace(spec, priority=spec.priority + 1, name=f"{spec.name}-other")
        given = IdempotencyKey("someone", "default", key, "other")

        def work(replica: Replica) -> bool:
            now_s = replica.clock.now_s()
            submit_job(replica.database, other, {}, now_s=now_s, idempotency=given)
            return True

        if not self.history.told[key]:
            return
        try:
            self.network.call(f"client-{key}", work)
        except (NoAnswer, Conflict):
            return
        self.history.complaints.append(f"5: key {key} was taken with another body")

    def _spec(self, name: str) -> JobSpec:
        """Small gangs that fill a cluster of eight nodes soon."""
        rng = self.stage.rng
        self.run_s[name] = (rng.choice((5.0, 30.0, 120.0, 600.0)), rng.random() < 0.3)
        duration_s = rng.choice((None, None, 100.0, 600.0))
        spec = JobSpec(
            name=name,
            priority=rng.choice((0, 0, 1, 5)),
            duration_s=duration_s,
            time_limit_s=rng.choice((None, 200.0)) if duration_s else None,
            failure=Failure(
                rng.choice(list(Scope)), rng.choice((0, 1, 5)), rng.choice((0.0, 10.0)), 60.0
            ),
            spares=rng.choice((0, 0, 0, 1)),
        )
        if rng.random() < 0.5:
            hook = {"hook": f"http://hook/{name}", "grace_s": 20.0}
            spec = replace(spec, extra={"checkpoint": hook}, grace_s=20.0)
        if rng.random() < 0.3:
            mode = rng.choice((Mode.REQUIRED, Mode.PREFERRED))
            spec = replace(spec, rules=(Rule("job", "rack", mode),))
        if rng.random() < 0.5:
            sizes = ParallelSizes(tp=rng.choice((2, 4)), dp=rng.choice((1, 2, 4)))
            return replace(spec, parallelism=sizes)
        if rng.random() < 0.3:
            role = Role("m", 4, 2, gpus=2, parts=Parts(size=2, count=2, min=1))
        else:
            replicas = rng.choice((1, 2, 4, 6))
            role = Role("m", replicas, rng.randint(1, replicas), gpus=rng.choice((1, 2, 4)))
        return replace(spec, roles=(role,))

    # --- what becomes of jobs ------------------------------------------------------------

    def cancel_now_and_then(self) -> None:
        while self.weather.cancel_every and not self.is_over:
            self.stage.sleep(self.stage.rng.expovariate(1.0 / self.weather.cancel_every))
            name = self._any_name()
            if name:
                self.cancel(name)

    def cancel(self, name: str) -> None:
        """A call ends a job that has not ended, and deletes the record of one that has."""
        self.history.deleted.add(name)

        def work(replica: Replica) -> JobView:
            return cancel_job(replica.database, "default", name, now_s=replica.clock.now_s())

        self._ask(work)

    def control_now_and_then(self) -> None:
        rng = self.stage.rng
        while self.weather.control_every and not self.is_over:
            self.stage.sleep(rng.expovariate(1.0 / self.weather.control_every))
            name, kind = self._any_name(), rng.choice(CONTROL)
            if name:
                self._ask(
                    lambda replica, name=name, kind=kind: control_job(  # type: ignore[misc]  # bound now
                        replica.database, "default", name, kind, now_s=replica.clock.now_s()
                    )
                )

    def look_now_and_then(self) -> None:
        """Ask for jobs by uid: what is final stays so, whoever is asked."""
        while True:
            self.stage.sleep(7.0)
            uids = sorted(self.known)
            if uids:
                uid = uids[self.stage.rng.randrange(len(uids))]
                job = self._ask(lambda replica, uid=uid: get_job_by_uid(replica.database, uid))  # type: ignore[misc]  # bound now
                if job is not None and job.state in FINAL:
                    self.history.ended[uid].add(job.state.value)

    def _any_name(self) -> str:
        names = sorted(self.known.values())
        return names[self.stage.rng.randrange(len(names))] if names else ""

    def _ask(self, work: Callable[[Replica], JobView]) -> JobView | None:
        try:
            return self.network.call("client", work)
        except (NoAnswer, StoreError, SchedulerError):
            return None

    # --- watching ------------------------------------------------------------------------

    def watch(self, who: str) -> None:
        """Read all events, in pages, from whichever process answers; at times anew from before."""
        rng, seen, since = self.stage.rng, self.history.seen[who], 0
        while True:
            self.stage.sleep(rng.random() * 4.0)
            limit = rng.choice((1, 3, 50))
            try:
                page = self.network.call(
                    who,
                    lambda replica, since=since, limit=limit: list_events(  # type: ignore[misc]  # bound now
                        replica.database, since, limit
                    ),
                )
            except NoAnswer:
                continue
            except Gone as error:
                since = error.oldest
                continue
            except StoreError as error:
                self.history.complaints.append(f"4: {who} since {since}: {error}")
                continue
            found = [event.revision for event in page.items]
            if found != list(range(since + 1, since + 1 + len(found))):
                self.history.complaints.append(f"4: {who} since {since} was told {found}")
            if not found and page.revision > since:
                self.history.complaints.append(f"4: {who} was told nothing since {since}")
            for event in page.items:
                told = (event.kind, event.uid)
                if seen.setdefault(event.revision, told) != told:
                    self.history.complaints.append(f"4: {who}: {event.revision} is not as it was")
            since = found[-1] if found else since
            if rng.random() < 0.05:
                since = rng.randint(0, since)
