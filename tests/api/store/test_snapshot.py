"""The world in memory follows the database: at any time it equals one that is read anew."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from api.store.commit import commit
from api.store.engine import Database
from api.store.errors import Conflict, NotFound
from api.store.events import current_revision
from api.store.jobs import cancel_job, list_jobs
from api.store.journal import JournalWorld, Reader
from api.store.ledger import audit_ledger
from api.store.nodes import cordon_node, import_inventory, uncordon_node
from api.store.pods import list_pods, report_pod
from api.store.policy import get_policy, put_policy
from api.store.queue_views import list_queues
from api.store.queues import delete_queue, put_queue
from api.store.snapshot import follow, load_snapshot, load_world
from api.store.views import PodView
from scheduler.cluster.world import World
from scheduler.cycle import run_cycle
from scheduler.model.lifecycle import LIVE_POD, JobState, PodState
from scheduler.model.plan import Plan
from scheduler.model.queue import QueueRecord
from scheduler.policy import Policy
from tests.api.store.build import (
    NOW_S,
    bind,
    binding,
    job_move,
    load_cluster,
    make_spec,
    pod_moves,
    submit,
)
from tests.api.store.raw import execute
from tests.builders import make_inventory, make_type


def used(world: World) -> dict[str, tuple[int, dict[str, int], int, int]]:
    """What each queue uses, models without any left out."""
    return {
        name: (a.gpus, {m: n for m, n in a.by_model.items() if n}, a.cpu_milli, a.memory_mib)
        for name, a in world.accounts.total.items()
    }


def same(left: World, right: World) -> bool:
    return (
        left.revision == right.revision
        and left.jobs == right.jobs
        and {job: pods for job, pods in left.pods.items() if pods}
        == {job: pods for job, pods in right.pods.items() if pods}
        and left.facts == right.facts
        and left.claims == right.claims
        and left.windows == right.windows
        and left.paused == right.paused
        and left.topology == right.topology
        and left.table.free == right.table.free
        and left.table.cpu_milli == right.table.cpu_milli
        and left.table.memory_mib == right.table.memory_mib
        and left.standing == right.standing
        and left.table.aside == right.table.aside
        and left.table.pod_count == right.table.pod_count
        and left.queues == right.queues
        and used(left) == used(right)
        and left.accounts.waiting.lines == right.accounts.waiting.lines
    )


def test_world_of_an_empty_database_is_empty(database: Database) -> None:
    world = load_world(database)
    assert (world.jobs, world.pods, world.facts, world.topology.node_count) == ({}, {}, [], 0)
    assert follow(database, world) is False


def test_world_takes_a_first_import(database: Database) -> None:
    world = load_world(database)
    load_cluster(database)
    assert follow(database, world)
    assert same(world, load_world(database))
    assert world.topology.node_count == 4


def test_facts_that_were_done_leave_without_a_revision(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, "a"), ["n001", "n002"])
    cancel_job(database, "default", "a", now_s=NOW_S)
    world = load_world(database)
    assert len(world.facts) == 1
    revision = current_revision(database)
    commit(database, Plan(world.revision, facts_done=(world.facts[0].id,)), 0, NOW_S)
    assert current_revision(database) == revision
    assert follow(database, world)
    assert world.facts == []
    assert follow(database, world) is False


def test_world_keeps_what_pods_of_ended_jobs_hold(database: Database) -> None:
    load_cluster(database)
    world = load_world(database)
    bind(database, submit(database, "a"), ["n001", "n002"])
    follow(database, world)
    execute(database, "UPDATE counter SET revision = revision + 1")
    execute(database, "UPDATE jobs SET state = 'failed', revision = revision + 1")
    execute(database, "UPDATE pods SET state = 'lost', revision = revision + 1")
    assert follow(database, world)
    assert world.jobs == {}
    index = world.topology.node_index["n001"]
    anew = load_snapshot(database, JournalWorld).world
    assert (world.table.free[index], anew.table.free[index]) == (0, 0)
    assert isinstance(anew, JournalWorld)
    again = Reader()
    for line in anew.freeze().lines():
        again.read(line)
    of_queue = [w.accounts.total["default"].gpus for w in (world, anew, again.world)]
    assert of_queue == [16, 16, 16]


def test_world_follows_a_node_that_shrinks_when_its_pod_ends(database: Database) -> None:
    """Both lie between two looks: the pod's GPUs are given back on the map that still has them."""
    load_cluster(database)
    world = load_world(database)
    job = submit(database, make_spec("a", replicas=1))
    bind(database, job, ["n001"], mask=0x80)
    follow(database, world)
    ended = Plan(
        current_revision(database),
        job_moves=(job_move(job, JobState.SUCCEEDED),),
        pod_moves=pod_moves(job, 1, PodState.SUCCEEDED),
    )
    commit(database, ended, 0, NOW_S)
    sizes = {"block": 1, "leaf": 1, "rack": 2, "node": 2}
    smaller = make_inventory(sizes, node_type=make_type(gpus=4))
    import_inventory(database, smaller, prune=True, dry_run=False, now_s=NOW_S)
    assert follow(database, world)
    assert same(world, load_world(database))


@pytest.mark.parametrize("seed", range(3))
def test_world_that_follows_equals_one_read_anew_whatever_happens(
    database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    load_cluster(database, 8)
    world = load_world(database)
    for step in range(60):
        _do_something(database, chance, step)
        if chance.random() < 0.5:
            follow(database, world)
            anew = load_world(database)
            assert same(world, anew), f"seed {seed}, step {step}"
        if chance.random() < 0.5:
            follow(database, world)
            plan = run_cycle(world, Policy(), NOW_S + step)
            if chance.random() < 0.3:
                _do_something(database, chance, step + 1000)
            commit(database, plan, 0, NOW_S + step)
        audit = audit_ledger(database)
        assert audit.is_clean, f"seed {seed}, step {step}: {audit}"


def _do_something(database: Database, chance: random.Random, step: int) -> None:
    what = chance.choice(
        ("submit", "submit", "report", "report", "cancel", "cordon", "import", "pause", "queue")
    )
    node = f"n00{chance.randint(1, 8)}"
    if what == "submit":
        replicas, gpus = chance.randint(1, 4), chance.choice((0, 1, 4, 8))
        queue = chance.choice([queue.name for queue in list_queues(database).items])
        spec = make_spec(f"j{step}", replicas=replicas, gpus=gpus, queue=queue)
        submit(database, spec)
    elif what == "queue":
        _change_queues(database, chance)
    elif what == "report":
        live = [pod for pod in list_pods(database).items if pod.state in LIVE_POD]
        if live:
            _report(database, chance, chance.choice(live))
    elif what == "cancel":
        jobs = list_jobs(database).items
        if jobs:
            job = chance.choice(jobs)
            _quietly(lambda: cancel_job(database, job.namespace, job.name, now_s=NOW_S))
    elif what == "cordon":
        if chance.random() < 0.5:
            _quietly(lambda: cordon_node(database, node, reason="", by="", now_s=NOW_S))
        else:
            _quietly(lambda: uncordon_node(database, node, now_s=NOW_S))
    elif what == "import":
        racks = chance.choice((1, 2, 4))
        inventory = make_inventory({"block": 1, "leaf": 1, "rack": racks, "node": 8 // racks})
        some = replace(inventory, nodes=tuple(chance.sample(inventory.nodes, chance.randint(1, 8))))
        prune = chance.random() < 0.5
        import_inventory(database, some, prune=prune, dry_run=False, now_s=NOW_S)
    else:
        paused = {"paused": chance.random() < 0.2}
        put_policy(database, get_policy(database) | paused, now_s=NOW_S)


def _change_queues(database: Database, chance: random.Random) -> None:
    name, parent = chance.choice("abc"), chance.choice((None, "top"))
    put_queue(database, QueueRecord("top"), now_s=NOW_S)
    limit = chance.choice((None, 8, 64))
    queue = QueueRecord(name, parent, limit_gpus=limit, weight=chance.choice((1.0, 2.0)))
    _quietly(lambda: put_queue(database, queue, now_s=NOW_S))
    if chance.random() < 0.3:
        _quietly(lambda: delete_queue(database, chance.choice("abc"), now_s=NOW_S))


def _report(database: Database, chance: random.Random, pod: PodView) -> None:
    state = chance.choice((PodState.RUNNING, PodState.SUCCEEDED, PodState.FAILED, PodState.STOPPED))
    code = {PodState.SUCCEEDED: 0, PodState.FAILED: 1}.get(state)
    _quietly(
        lambda: report_pod(
            database,
            pod.namespace,
            pod.name,
            attempt=pod.attempt,
            state=state,
            exit_code=code,
            now_s=NOW_S,
        )
    )


def _quietly(call: Callable[[], object]) -> None:
    """A call that may be refused for what happened before it."""
    with suppress(Conflict, NotFound):
        call()


def test_world_forgets_a_job_that_was_deleted_before_it_was_seen_to_end(
    database: Database,
) -> None:
    load_cluster(database)
    submit(database, "a")
    world = load_world(database)
    for _ in range(2):
        cancel_job(database, "default", "a", now_s=NOW_S)
    assert follow(database, world)
    assert same(world, load_world(database))


def test_world_gives_a_deleted_jobs_gpus_to_who_came_after_it(database: Database) -> None:
    """Between two looks a job ended, another took its GPUs, and the record of the first went."""
    load_cluster(database)
    first, second = submit(database, "a"), submit(database, "b")
    bind(database, first, ["n001", "n002"])
    world = load_world(database)
    cancel_job(database, "default", "a", now_s=NOW_S)
    ended = replace(
        binding(database, second, ["n001", "n002"]),
        pod_moves=pod_moves(first, 2, PodState.CANCELLED),
    )
    ended = replace(ended, job_moves=(job_move(first, JobState.CANCELLED), *ended.job_moves))
    assert not commit(database, ended, 0, NOW_S).dropped
    cancel_job(database, "default", "a", now_s=NOW_S)
    assert follow(database, world)
    assert same(world, load_world(database))
