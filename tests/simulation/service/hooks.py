"""Receivers of hooks: they fail, hang, answer late, take a message twice; and jobs that save."""

import json
import sqlite3

from api.hooks.send import Answer, Message
from api.store.checkpoints import Checkpoint, save_checkpoint
from api.store.errors import StoreError
from scheduler.errors import SchedulerError
from tests.simulation.service.history import History, Receipt
from tests.simulation.service.network import Network, NoAnswer
from tests.simulation.service.stage import Stage
from tests.simulation.service.weather import Weather

TIMEOUT_S = 5.0
REQUESTED = "checkpoint.requested"


class Receivers:
    """All that jobs name as their hooks, in place of the sender.

    Args:
        database: A connection that sees what has been committed.
    """

    def __init__(
        self, stage: Stage, weather: Weather, history: History, database: sqlite3.Connection
    ) -> None:
        self._stage, self.weather, self._history = stage, weather, history
        self._database = database
        self.network: Network | None = None
        self._steps = 0

    async def send(self, message: Message) -> Answer:
        """One attempt, as `Sender.send` makes it."""
        stage, weather, rng = self._stage, self.weather, self._stage.rng
        stage.sleep(weather.net_s * rng.random())
        if rng.random() < weather.lost:
            stage.sleep(TIMEOUT_S)
            return Answer(error="no answer within 5 s")
        fails, hangs = rng.random() < weather.hook_fails, rng.random() < weather.hook_hangs
        self._take(message, taken=not fails)
        if hangs:
            # It was taken, or not; whoever sent it does not learn of it in time.
            stage.sleep(TIMEOUT_S)
            return Answer(error="no answer within 5 s")
        stage.sleep(weather.net_s * rng.random())
        if fails:
            return Answer(500, error="answered 500")
        return self._answer(message)

    def _take(self, message: Message, *, taken: bool) -> None:
        (revision,) = self._database.execute("SELECT revision FROM counter").fetchone()
        self._history.receipts.append(Receipt(message.id, message.body, revision, taken))

    def _answer(self, message: Message) -> Answer:
        body = json.loads(message.body)
        if body["type"] != REQUESTED:
            return Answer(200)
        data = body["data"]
        choice = self._stage.rng.randrange(4)
        self._steps += 1
        if choice == 0:
            saved = {"state": "saved", "step": self._steps, "uri": "s3://bucket/run"}
            return Answer(200, json.dumps(saved).encode())
        if choice == 1:
            step, request_id = self._steps, str(data["request_id"])
            where = (str(data["namespace"]), str(data["name"]))
            self._stage.spawn("job-saves", lambda: self._save(*where, step, request_id), "")
        return Answer(202)

    def _save(self, namespace: str, name: str, step: int, request_id: str) -> None:
        """The job tells of its checkpoint by itself."""
        network = self.network
        if network is None:
            return
        self._stage.sleep(10.0 * self._stage.rng.random())
        saved = Checkpoint(step=step, uri="s3://bucket/run", request_id=request_id)
        for _ in range(3):
            try:
                network.call(
                    f"job-{name}",
                    lambda replica: save_checkpoint(
                        replica.database, namespace, name, saved, now_s=replica.clock.now_s()
                    ),
                )
            except NoAnswer:
                continue
            except (StoreError, SchedulerError):
                return
            return
