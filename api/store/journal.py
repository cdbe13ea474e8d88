"""A world that keeps a journal of what it is told, from which it can be made again.

The text of a journal is lines of `word JSON`; see `api/schemas/decision.py`. Applied to an empty
world, or to the one that the lines before have made, they give an equal world back.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from api.schemas import decision as text
from scheduler.cluster.world import World
from scheduler.errors import InvariantError
from scheduler.model.claim import Claim, Window
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.job import JobSpec
from scheduler.model.node import Inventory, NodeRecord
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.model.queue import QueueRecord
from scheduler.model.standing import NodeStanding
from scheduler.topology.build import build
from scheduler.topology.tree import Topology

CHUNK = 500
"""Records in one line: writing it takes a millisecond or two, then others get their turn."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ToldClaims:
    """Claims that changed together."""

    new: tuple[Claim, ...]
    gone: tuple[ClaimId, ...]


@dataclass(frozen=True, slots=True)
class ToldWindows:
    """All maintenance windows there were."""

    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class ToldQueues:
    """All queues there were."""

    queues: tuple[QueueRecord, ...]


Told: TypeAlias = (
    dict[NodeId, NodeStanding]
    | list[PodRecord]
    | tuple[JobRecord, bool]
    | ToldClaims
    | ToldWindows
    | ToldQueues
)
"""How a node stands; pods that changed together; a job, and whether its spec is known;
claims; windows; queues."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A copy of a world; its records never change, so another thread may read it."""

    topology: Topology
    standing: dict[NodeId, NodeStanding]
    jobs: list[JobRecord]
    pods: list[PodRecord]
    claims: list[Claim]
    windows: list[Window]
    queues: list[QueueRecord]
    ended: dict[JobId, str]

    def __len__(self) -> int:
        return len(self.topology.nodes) + len(self.jobs) + len(self.pods) + len(self.claims)

    def lines(self) -> Iterator[bytes]:
        """The whole world as text."""
        yield b"map " + text.dump_map(inventory_of(self.topology))
        for nodes in _chunks(self.topology.nodes):
            yield b"map-nodes " + text.dump_nodes(nodes)
        yield b"built {}"
        for names in _chunks(list(self.standing)):
            yield b"nodes " + text.dump_standings({n: self.standing[n] for n in names})
        yield b"queues " + text.dump_queues(self.queues)
        for jobs in _chunks(self.jobs):
            yield b"jobs " + text.dump_jobs(jobs)
        yield b"ended " + text.dump_ended(self.ended)
        for pods in _chunks(self.pods):
            yield b"pods " + text.dump_pods(pods)
        for claims in _chunks(self.claims):
            yield b"claims " + text.dump_claims(claims)
        yield b"windows " + text.dump_windows(self.windows)


class JournalWorld(World):
    """A world that notes what it is told.

    Attributes:
        told: Since it was taken last, in order.
        is_remade: It is new or has a new map, and nothing is noted: what is told from then on has
            to stand on a copy of the whole, see `freeze`.
    """

    def __init__(self, topology: Topology) -> None:
        self.told: list[Told] = []
        self.is_remade = True
        super().__init__(topology)

    def set_topology(self, topology: Topology) -> None:
        self.is_remade = True
        super().set_topology(topology)

    def put_node(self, name: str, standing: NodeStanding) -> None:
        if not self.is_remade:
            self.told.append({NodeId(name): standing})
        super().put_node(name, standing)

    def put_job(self, job: JobRecord) -> None:
        if not self.is_remade:
            known = self.jobs.get(job.uid)
            self.told.append((job, known is not None and known.spec is job.spec))
        super().put_job(job)

    def put_pods(self, pods: Iterable[PodRecord]) -> None:
        arrived = list(pods)
        if arrived and not self.is_remade:
            self.told.append(arrived)
        super().put_pods(arrived)

    def put_claims(self, new: Iterable[Claim], gone: Iterable[ClaimId] = ()) -> None:
        told = ToldClaims(tuple(new), tuple(gone))
        if (told.new or told.gone) and not self.is_remade:
            self.told.append(told)
        super().put_claims(told.new, told.gone)

    def set_windows(self, windows: Iterable[Window]) -> None:
        told = ToldWindows(tuple(windows))
        if not self.is_remade:
            self.told.append(told)
        super().set_windows(told.windows)

    def set_queues(self, queues: Iterable[QueueRecord]) -> None:
        told = ToldQueues(tuple(queues))
        if not self.is_remade:
            self.told.append(told)
        super().set_queues(told.queues)

    def rest(self) -> None:
        """Note nothing until it is copied again: for now nobody writes down decisions on it."""
        self.told, self.is_remade = [], True

    def freeze(self) -> Frozen:
        """A copy of everything that was told so far; what is told from now on stands on it."""
        self.told, self.is_remade = [], False
        of_jobs = [pod for pods in self.pods.values() for pod in pods.values()]
        others = [pod for pod in self._held.values() if pod.uid not in self.pods.get(pod.job, {})]
        return Frozen(
            topology=self.topology,
            standing=dict(self.standing),
            jobs=list(self.jobs.values()),
            pods=of_jobs + others,
            claims=list(self.claims.values()),
            windows=list(self.windows.values()),
            queues=list(self.queues.values()),
            ended=self.accounts.ended(),
        )

    def take(self) -> list[bytes]:
        """What was told since the last time, as text, and forget it."""
        told, self.told = self.told, []
        return [line for item in told for line in _lines(item)]


def _lines(told: Told) -> Iterator[bytes]:
    match told:
        case dict():
            yield b"nodes " + text.dump_standings(told)
        case list():
            yield b"pods " + text.dump_pods(told)
        case ToldClaims():
            if told.gone:
                yield b"claims-gone " + text.dump_claims_gone(told.gone)
            if told.new:
                yield b"claims " + text.dump_claims(told.new)
        case ToldWindows():
            yield b"windows " + text.dump_windows(told.windows)
        case ToldQueues():
            yield b"queues " + text.dump_queues(told.queues)
        case (job, True):
            yield b"standing " + text.dump_standing((job,))
        case (job, _):
            yield b"jobs " + text.dump_jobs((job,))


class Reader:
    """Makes a world again from the lines of a journal."""

    def __init__(self) -> None:
        self.world = World(build(Inventory("", ("node",), "node", {}, ())).topology)
        self._map: bytes = b""
        self._nodes: list[NodeRecord] = []

    def read(self, line: bytes) -> None:
        """Tell the world one line."""
        word, _, body = line.partition(b" ")
        match word:
            case b"map":
                self._map, self._nodes = body, []
            case b"map-nodes":
                self._nodes += text.load_nodes(body)
            case b"built":
                self.world = World(build(text.load_map(self._map, self._nodes)).topology)
            case b"jobs":
                self._put(text.load_jobs(body))
            case b"standing":
                self._put(text.load_standing(body, self._spec_of))
            case b"pods":
                self.world.put_pods(text.load_pods(body))
            case _:
                self._read_other(word, body)

    def _read_other(self, word: bytes, body: bytes) -> None:
        """Lines of what is neither the map nor a job or pod."""
        match word:
            case b"nodes":
                for node, standing in text.load_standings(body).items():
                    self.world.put_node(node, standing)
            case b"aside":
                for name, aside in text.load_aside(body).items():
                    self.world.set_node(name, aside=aside)
            case b"claims":
                self.world.put_claims(text.load_claims(body), ())
            case b"claims-gone":
                self.world.put_claims((), text.load_claims_gone(body))
            case b"ended":
                self.world.put_ended(text.load_ended(body))
            case b"queues":
                self.world.set_queues(text.load_queues(body))
            case b"windows":
                self.world.set_windows(text.load_windows(body))
            case _:
                raise InvariantError(f"a journal has a line of kind {word!r}")

    def _put(self, jobs: Sequence[JobRecord]) -> None:
        for job in jobs:
            self.world.put_job(job)

    def _spec_of(self, uid: JobId) -> JobSpec:
        return self.world.jobs[uid].spec


def inventory_of(topology: Topology) -> Inventory:
    """An inventory that makes this topology."""
    return Inventory(
        cluster=topology.cluster,
        levels=topology.level_names,
        scale_up=topology.scale_up,
        node_types={kind.name: kind for kind in topology.kinds},
        nodes=topology.nodes,
        racks=tuple(topology.racks.values()),
        sets=topology.sets,
        fabric=topology.fabric,
    )


def _chunks(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    rest = iter(items)
    while chunk := tuple(islice(rest, CHUNK)):
        yield chunk
