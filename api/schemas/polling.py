"""What dashboards poll: the cluster at a glance, and the map for drawing."""

from api.schemas.common import Strict, Time
from api.schemas.topology import GpuTotals, LargestGang, NodeTotals, QueueTotals


class LevelFill(Strict):
    """How full the domains of one level are; those without a name are left out.

    `full` have no GPU that anybody may have; `empty` have such GPUs and hold no pod; `partly` the
    rest. `fragmentation`: the share of what is free that does not lie in empty domains, 0 to 1.
    """

    level: str
    empty: int
    partly: int
    full: int
    fragmentation: float


class WaitingFor(Strict):
    """Gangs that wait for the same kind of thing.

    `reason`: a job's `reason` while it is pending; else its state (`reserved`, `suspended`,
    `recovering`); `new` = not looked at yet. `job`, `message` and `since` are those of the gang
    that was submitted first; the message may be cut short. Who is bound to namespaces is told of
    the first one of theirs, null where they have none; the numbers count all.
    """

    reason: str
    gangs: int
    gpus: int
    job: str | None
    message: str
    since: Time | None


class ExpectedStart(Strict):
    """A gang whose start is forecast."""

    job: str
    gpus: int
    at: Time


class PowerTotals(Strict):
    """Kilowatts: of the nodes in use, each with its full draw, and of all nodes."""

    used_kw: float
    total_kw: float


class OpenFault(Strict):
    """A fault that nobody cleared yet; the message may be cut short."""

    id: int
    node: str
    code: str
    action: str
    at: Time
    message: str


class FaultTotals(Strict):
    """Open faults by what their code asks for, and the newest five."""

    open: dict[str, int]
    newest: list[OpenFault]


class SchedulerState(Strict):
    """The leader: whether it works, its cycles so far, and the times of the last one.

    `lag_revisions`: what it has yet to look at.
    """

    ready: bool
    cycles: int
    lag_revisions: int
    decide_s: float
    commit_s: float


class Overview(Strict):
    """The cluster at a glance; `queues` are the first hundred by name.

    `claimed_gpus` are kept for somebody, of `free` ones or of those still in use. `waiting` has
    the reasons with most GPUs first, `starts` the next starts that are known. `power`: null where
    the draw of a node is not known. `scheduler`: null where another process decides.
    """

    cluster: str
    revision: int
    nodes: NodeTotals
    gpus: GpuTotals
    claimed_gpus: int
    health: dict[str, int]
    aside: dict[str, int]
    faults: FaultTotals
    levels: list[LevelFill]
    power: PowerTotals | None
    jobs: dict[str, int]
    waiting: list[WaitingFor]
    starts: list[ExpectedStart]
    largest_gangs: list[LargestGang]
    queues: list[QueueTotals]
    scheduler: SchedulerState | None


class MapLevel(Strict):
    """A level above the nodes: the domains in the order of the map, "" where nodes have no place.

    Domain d has the nodes from `ends[d - 1]` (or 0) up to, without, `ends[d]`.
    """

    name: str
    names: list[str]
    ends: list[int]


class MapType(Strict):
    name: str
    gpu: str | None
    gpus: int
    power_kw: float | None


class MapJob(Strict):
    """A job with GPUs or claims; `id` is what `use` calls it."""

    id: int
    job: str
    state: str
    queue: str
    priority: int
    gpus: int


class MapClaim(Strict):
    """GPUs of a node, bits in hexadecimal, kept for a job.

    0: for people, or for a job that is not the reader's to know.
    """

    node: int
    gpus: str
    job: int
    why: str


class MapRails(Strict):
    """Rails that a node has lost, bits in hexadecimal."""

    node: int
    rails: str


class MapDrawing(Strict):
    """The map for drawing, or what changed after revision `since`.

    `nodes` are in the order of the map, outermost level first; `node_types` has a position in
    `types` for each. `use` tells of nodes that are not idle, or that changed, as `[node, aside,
    job, gpus, first_rank, ...]`: its position, why it takes no new pods or "", and three values
    for each pod: the job's id (0 = one that has ended, or is not its reader's to know), its GPUs
    as bits in hexadecimal, the rank on the first of them. `claims` and `dead_rails` are all there
    are. Of the jobs that changed those are told that hold GPUs or have claims.
    """

    cluster: str
    revision: int
    since: int | None
    levels: list[MapLevel]
    scale_up: str
    types: list[MapType]
    nodes: list[str]
    node_types: list[int]
    use: list[list[int | str]]
    jobs: list[MapJob]
    claims: list[MapClaim]
    dead_rails: list[MapRails]


class SeriesLine(Strict):
    """One figure: of each point the mean, lowest and highest sample; null where there is none."""

    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]


class SeriesAnswer(Strict):
    """Figures over time; `times` are Unix seconds where points of `step_s` seconds begin.

    `gpus_used gpus_free gpus_aside gpus_claimed gpus_wanted` are GPUs, `utilisation` the share of
    usable ones in use, `gangs_placed gangs_waiting` gangs, `nodes_aside` nodes, `fragmentation.X`
    that of level X, `power_kw` kilowatts, `oldest_wait_s wait_s` the longest wait of those that
    wait, and the mean of those that got a place, `bound submitted faults restarts` how many of a
    sample of 15 s, `decide_s commit_s` seconds of a cycle, `regret regret_max` of running gangs.
    """

    step_s: int
    times: list[int]
    series: dict[str, SeriesLine]
