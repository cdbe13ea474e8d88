"""Whether the service was away: gangs that waited for it get that time back.

The leader says now and then that it looks, as long as a clock runs that is to stand still while it
does not. A new leader, and one whose process stood still or had no database, compares.
"""

import time

from api.log import get_logger
from api.loop.silence import STALLED_S
from api.store.engine import Database
from api.store.outage import extend_limits, read_pulse, write_pulse
from scheduler.cluster.world import World

PULSE_S = 5.0
"""Between two signs: so much of an outage may go unnoticed, and half of what counts as one."""

log = get_logger(__name__)


class Outage:
    """Watches over the time in which nobody looked, while this process leads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._epoch: int | None = None
        self._turned_at = 0.0
        self._looked_s = 0.0

    def turn(self, world: World, epoch: int, now_s: float) -> bool:
        """Give gangs time if nobody looked until now, and say that somebody does.

        Returns:
            Whether a gang got more time.

        Raises:
            Deposed: If the epoch is over.
        """
        turned_at, self._turned_at = self._turned_at, time.monotonic()
        if epoch != self._epoch or self._turned_at - turned_at > STALLED_S:
            changed = self._catch_up(epoch, now_s)
            self._epoch, self._looked_s = epoch, now_s
            write_pulse(self._database, now_s)
            return changed > 0
        if abs(now_s - self._looked_s) >= PULSE_S:
            self._looked_s = now_s
            if _has_clock(world):
                write_pulse(self._database, now_s)
        return False

    def _catch_up(self, epoch: int, now_s: float) -> int:
        since_s = read_pulse(self._database)
        if since_s is None or now_s - since_s < STALLED_S:
            return 0
        changed = extend_limits(
            self._database, since_s=since_s, least_s=STALLED_S, epoch=epoch, now_s=now_s
        )
        if changed:
            log.warning("clocks_stood_still", jobs=changed, away_s=round(now_s - since_s, 1))
        return changed


def _has_clock(world: World) -> bool:
    """Whether a clock runs that is to stand still while nobody looks."""
    if world.recovering:
        return True
    timed = (world.jobs[uid].evict for uid in world.timed)
    return any(evict is not None and evict.deadline_s is not None for evict in timed)
