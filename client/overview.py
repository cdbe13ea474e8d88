"""What `GET /v1/overview` answers, as far as this client reads it."""

from typing import TypedDict


class Waits(TypedDict):
    reason: str
    gangs: int
    gpus: int
    job: str | None
    message: str
    since: str | None


class Start(TypedDict):
    job: str
    gpus: int
    at: str


class Room(TypedDict):
    pods: int
    gpus: int


class RoomWithin(Room):
    level: str
    domain: str | None


class Fits(TypedDict):
    node_type: str
    gpus_per_pod: int
    whole_nodes: bool
    cluster: Room
    within: list[RoomWithin]


class LevelFill(TypedDict):
    level: str
    empty: int
    partly: int
    full: int
    fragmentation: float


class QueueUse(TypedDict):
    name: str
    quota_gpus: int | None
    limit_gpus: int | None
    used_gpus: int
    pending: int


class Scheduler(TypedDict):
    ready: bool
    cycles: int
    lag_revisions: int
    decide_s: float
    commit_s: float


class Overview(TypedDict):
    cluster: str
    revision: int
    nodes: dict[str, int]
    gpus: dict[str, int]
    claimed_gpus: int
    aside: dict[str, int]
    levels: list[LevelFill]
    jobs: dict[str, int]
    waiting: list[Waits]
    starts: list[Start]
    largest_gangs: list[Fits]
    queues: list[QueueUse]
    scheduler: Scheduler | None
