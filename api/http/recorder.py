"""Notes figures over time, and counts what happened, in the process that decides.

Every quarter of a minute one sample: what the overview says, how many events of each kind there
were, how long gangs had waited that got a place. The samples are kept in the database, thinned with
age; the counts go to the metrics.
"""

import threading
import time

from api.http.largest import largest_of
from api.http.polling import overview
from api.http.quality import Quality
from api.http.service import Service
from api.http.shapes import Shape
from api.log import get_logger
from api.loop.promised import promised_by_log
from api.store.events import current_revision
from api.store.happenings import count_events, oldest_waiting, waits_of
from api.store.ledger import audit_ledger
from api.store.series import note
from api.store.set_aside import set_parts_aside
from scheduler.model.lifecycle import JobState

log = get_logger(__name__)

FIRST_S, SAMPLE_S = 2.0, 15.0
GIVE_WAY_S = 0.2
"""Between parts of a sample of a large cluster: requests that waited meanwhile are answered."""

KEEP_UP_S = 1.0
"""Between samples what happened is read so often, a little at a time: requests wait for less."""

AUDIT_S = 600.0
"""Between two audits: one adds up all live pods, in a second or so for 10,000 nodes."""

REST = 4.0
"""It reads the decision log in a fifth of its time, as that may be long."""

AGAIN_S = 60.0
"""The same while parts are set aside, which are to be used again soon after they were mended."""

LOOK_SHARE = 0.02
"""Of its time at most goes into how gangs lie: a world that changes fast is followed in seconds."""

LOGGED = 10

PLACED = (JobState.BOUND, JobState.RUNNING, JobState.EVICTING, JobState.RECOVERING)
FAULTS = ("node.fault", "pod.fault")
RESTARTS = ("job.restarting", "job.recovering")

LEVELS_NOTED = 8
"""Outermost levels with a figure of their own."""


class Recorder:
    """A thread that takes samples while this process leads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._since = -1
        self._audited_s: float | None = None
        self._is_aside = False
        self._look_at = 0.0
        self.quality = Quality()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="podyard-recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples; the one under way is finished."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(5.0)
            self._thread = None

    def _run(self) -> None:
        wait_s = FIRST_S
        while not self._rests(wait_s):
            wait_s = SAMPLE_S
            runner = self._service.runner
            if runner is None or not runner.is_leading:
                # Whoever leads meanwhile counts what happens.
                self._since = -1
                continue
            try:
                self.sample(looks=time.monotonic() >= self._look_at)
                self._give_way()
                self._audit_at_times()
            except Exception:  # an edge: figures that are missing for a while do no harm
                log.exception("sample_failed")

    def _rests(self, wait_s: float) -> bool:
        """Until the next sample, which has little to take in then; whether there is none."""
        until_s = time.monotonic() + wait_s
        while (left_s := until_s - time.monotonic()) > 0:
            if self._stopping.wait(min(KEEP_UP_S, left_s)):
                return True
            try:
                self._service.reader.keep_up()
            except Exception:  # an edge: whoever asks next meets the trouble
                log.debug("not_kept_up", exc_info=True)
        return False

    def sample(self, *, looks: bool = True) -> None:
        """Take one sample now.

        Args:
            looks: Also work out how gangs lie that have a new place.
        """
        service = self._service
        if looks:
            self._look()
        largest_of(service)  # of what an overview has this takes longest, above all the first time
        self._give_way()
        found = overview(service)
        self._give_way()
        figures = _figures(found) | self._happened()
        oldest_s, now_s = oldest_waiting(service.database), service.clock.now_s()
        figures["oldest_wait_s"] = 0.0 if oldest_s is None else max(0.0, now_s - oldest_s)
        regret = self.quality.regret()
        if regret is not None:
            figures |= {"regret": regret.mean, "regret_max": regret.max}
        service.metrics.show_quality(
            None if regret is None else (regret.mean, regret.max),
            {level: (found.mean, found.max) for level, found in self.quality.spread().items()},
            self.quality.known,
        )
        note(service.database, figures, now_s=now_s)

    def _give_way(self) -> None:
        if self._thread is not None:
            self._stopping.wait(GIVE_WAY_S)

    def _look(self) -> None:
        worked_s = self.quality.look(self._service, self._stopping.wait)
        self._look_at = time.monotonic() + worked_s / LOOK_SHARE

    def _audit_at_times(self) -> None:
        wait_s = AGAIN_S if self._is_aside else AUDIT_S
        if self._audited_s is None or time.monotonic() - self._audited_s >= wait_s:
            self.audit()
            self._audited_s = time.monotonic()

    def audit(self, *, with_log: bool = False) -> None:
        """Compare the ledger with the live pods, and these with what the decision log has.

        What is wrong is logged, and a metric; the parts that it is about are set aside, and used
        again once they agree.

        Args:
            with_log: Also the first time.
        """
        service = self._service
        # A process that has just begun has more urgent things to do than to read the log.
        is_first = self._audited_s is None and not with_log
        promised = None if is_first else promised_by_log(service.database, REST)
        found = audit_ledger(service.database, promised)
        service.metrics.ledger_faults.set(len(found.lines))
        self._is_aside = bool(found.parts)
        service.metrics.parts_aside.set(len(found.parts))
        if found.lines:
            log.error("ledger_differs", faults=len(found.lines), first=found.lines[:LOGGED])
        for said in set_parts_aside(service.database, found.parts, now_s=service.clock.now_s()):
            log.warning("parts_aside", said=said)

    def _happened(self) -> dict[str, float]:
        service, since = self._service, self._since
        if since < 0:
            # Nobody knows which events were counted before; the first sample begins from here.
            self._since = current_revision(service.database)
            return {}
        until, kinds = count_events(service.database, since)
        waits = waits_of(service.database, since, until)
        self._since = until
        service.metrics.count_events(kinds)
        for wait in waits:
            service.metrics.observe_wait(wait.queue, wait.seconds)
        figures: dict[str, float] = {
            "faults": sum(kinds.get(kind, 0) for kind in FAULTS),
            "restarts": sum(kinds.get(kind, 0) for kind in RESTARTS),
            "bound": kinds.get("job.bound", 0),
            "submitted": kinds.get("job.submitted", 0),
        }
        if waits:
            figures["wait_s"] = sum(wait.seconds for wait in waits) / len(waits)
        runner = service.runner
        if runner is not None and runner.stats.cycles:
            figures |= {"decide_s": runner.stats.decide_s, "commit_s": runner.stats.commit_s}
        return figures


def _figures(found: Shape) -> dict[str, float]:
    """The figures of an overview."""
    gpus, nodes, jobs = _ints(found["gpus"]), _ints(found["nodes"]), _ints(found["jobs"])
    waiting, levels, power = found["waiting"], found["levels"], found["power"]
    usable = gpus["used"] + gpus["free"]
    figures: dict[str, float] = {
        "gpus_used": gpus["used"],
        "gpus_free": gpus["free"],
        "gpus_aside": gpus["aside"],
        "gpus_claimed": float(str(found["claimed_gpus"])),
        "utilisation": gpus["used"] / usable if usable else 0.0,
        "nodes_aside": nodes["total"] - nodes["usable"],
        "gangs_placed": sum(jobs.get(state, 0) for state in PLACED),
    }
    if isinstance(waiting, list):
        figures["gangs_waiting"] = sum(entry["gangs"] for entry in waiting)
        figures["gpus_wanted"] = sum(entry["gpus"] for entry in waiting)
    if isinstance(levels, list):
        for entry in levels[:LEVELS_NOTED]:
            figures[f"fragmentation.{entry['level']}"] = entry["fragmentation"]
    if isinstance(power, dict):
        figures["power_kw"] = power["used_kw"]
    return figures


def _ints(found: object) -> dict[str, int]:
    return dict(found) if isinstance(found, dict) else {}
