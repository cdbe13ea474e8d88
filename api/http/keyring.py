"""The tokens that are good, as this process knows them: in memory, and read again when they change.

One small query every two seconds tells whether there is anything new, so a token that was revoked
is refused everywhere after that time. A process that could not ask for `STALE_S` answers nobody
before it has.
"""

import threading
import time
from collections.abc import Callable

from api.auth.tokens import is_same, read_id
from api.clock import Clock
from api.log import get_logger
from api.store.engine import Database
from api.store.tokens import USED_S, Keys, Token, key_version, load_keys, note_use

log = get_logger(__name__)

REFRESH_S = 2.0
STALE_S = 5.0
"""The longest time that a token which was revoked may still be taken."""

SOONEST_S = 0.25
"""Between looks for a token that is not known, whoever sends some."""

NOTED_S = 60.0
"""Between notes of which tokens are in use."""


class Keyring:
    """Tokens by id; `token_of` may be called from any thread and touches no database.

    Args:
        always: Whether callers are asked who they are even while there is no token.

    Attributes:
        is_asking: Whether callers are asked who they are.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        always: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_asking = always
        self._database, self._clock, self._monotonic = database, clock, monotonic
        self._keys = Keys()
        self._read_s = float("-inf")
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._written: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Follow the tokens from now on."""
        self._thread = threading.Thread(target=self._follow, name="keyring", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Follow them no longer; what is left to be noted is."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._quietly(self.note)

    @property
    def age_s(self) -> float:
        """How long ago it was seen that nothing has changed."""
        return self._monotonic() - self._read_s

    @property
    def noted(self) -> int:
        """Tokens and sessions of which it is remembered when their use was written down."""
        return len(self._written)

    def refresh(self) -> None:
        """Read what has changed; touches the database."""
        with self._lock:
            began_s = self._monotonic()
            if key_version(self._database) != self._keys.version:
                self._keys = load_keys(self._database, self._clock.now_s())
            # Once there was a token, they are asked for, also after the last one is gone.
            self.is_asking = self.is_asking or self._keys.version > 0
            self._read_s = began_s

    def token_of(self, text: str) -> Token | None:
        """The token or session that a text is; None if it is none, good or not any more."""
        id = read_id(text)
        if id is None:
            return None
        found = self._keys.tokens.get(id)
        if found is None or not is_same(found.digest, text) or not self.is_good(id):
            return None
        self._used[id] = self._clock.now_s()
        return found

    def is_good(self, id: str) -> bool:
        """Whether a token or session of this id is there, and it and its parent are not over."""
        keys, now_s = self._keys.tokens, self._clock.now_s()
        found = keys.get(id)
        if found is None or not found.is_good(now_s):
            return False
        return found.parent is None or self.is_good(found.parent)

    def may_be_new(self, text: str) -> bool:
        """Whether a text that is no token here may be one that was made a moment ago."""
        id = read_id(text)
        return id is not None and id not in self._keys.tokens and self.age_s >= SOONEST_S

    def note(self) -> None:
        """Write down which tokens were used, to the hour."""
        used, self._used = self._used, {}
        due, tokens = {}, self._keys.tokens
        # Sessions come and go by the thousand: what is over is used no more.
        self._written = {id: at for id, at in self._written.items() if id in tokens}
        for id, at in used.items():
            token = tokens.get(id)
            written = self._written.get(id, token.used_at if token is not None else None)
            if written is None or at - written >= USED_S:
                due[id] = at
        if due:
            note_use(self._database, due)
            self._written |= due

    def _follow(self) -> None:
        noted_s = self._monotonic()
        while not self._stopping.wait(REFRESH_S):
            self._quietly(self.refresh)
            if self._monotonic() - noted_s >= NOTED_S:
                noted_s = self._monotonic()
                self._quietly(self.note)

    def _quietly(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # an edge: the database may be away, and comes back
            log.warning("tokens_not_read", error=str(error).partition("\n")[0][:200])
