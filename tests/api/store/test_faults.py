"""Faults in the store: what is written down with them, and what follows from many of them."""

from dataclasses import replace

import pytest

from api.store.commit import commit
from api.store.drains import drain_nodes, end_quarantines, fence_node, undrain_nodes
from api.store.engine import Database
from api.store.errors import NotFound
from api.store.events import current_revision, list_events
from api.store.fault_records import review_all_lemons
from api.store.fault_reports import Report, report_fault, report_faults
from api.store.faults import clear_fault, forget_faults, judge, list_faults
from api.store.journal import JournalWorld, Reader
from api.store.ledger import audit_ledger
from api.store.nodes import get_node, import_inventory
from api.store.policy import put_policy
from api.store.snapshot import follow, load_snapshot, load_world
from api.store.standing import all_standings, set_agent, set_health, standing_of
from scheduler.errors import SchedulerError
from scheduler.model.ids import JobId, NodeId
from scheduler.model.lifecycle import JobState, PodState
from scheduler.model.node import Health
from scheduler.model.plan import FactKind, Plan
from scheduler.model.standing import Drain, NodeStanding
from scheduler.recover.codes import CODES, code_of_xid
from tests.api.store.build import (
    NOW_S,
    bind,
    job_move,
    load_cluster,
    make_pod,
    make_spec,
    pod_moves,
    submit,
)
from tests.api.store.raw import execute
from tests.api.store.test_snapshot import same
from tests.builders import make_inventory

LOST = Report(CODES["node_lost"])
RESET = Report(code_of_xid(48), gpus=(1,))


def health(database: Database, name: str = "n001") -> Health:
    return get_node(database, name).health


def standing(database: Database, name: str = "n001") -> NodeStanding:
    with database.read() as connection:
        return standing_of(connection, name)


def become(database: Database, to: Health, why: str = "", *, now_s: float = NOW_S) -> bool:
    return database.grouped(lambda tx: set_health(tx, "n001", to, why), now_s)


def agent(database: Database, name: str = "n001") -> None:
    database.grouped(lambda tx: set_agent(tx, name), NOW_S)


# -- health ---------------------------------------------------------------------------------------


def test_health_is_written_with_its_time_once(database: Database) -> None:
    load_cluster(database)
    assert become(database, Health.SUSPECT, "its agent is silent")
    revision = current_revision(database)
    assert not become(database, Health.SUSPECT, "its agent is silent", now_s=NOW_S + 5)
    assert current_revision(database) == revision
    found = standing(database)
    assert (found.health, found.since_s, found.why) == (
        Health.SUSPECT,
        NOW_S,
        "its agent is silent",
    )
    assert become(database, Health.HEALTHY, now_s=NOW_S + 9)
    assert standing(database) == replace(NodeStanding(), since_s=NOW_S + 9)
    (event,) = list_events(database, revision).items
    assert (event.kind, event.name, event.body["was"]) == ("node.health", "n001", "suspect")
    with pytest.raises(NotFound):
        database.grouped(lambda tx: set_health(tx, "nope", Health.LOST, ""), NOW_S)


def test_first_lease_makes_a_node_one_with_an_agent(database: Database) -> None:
    load_cluster(database)
    agent(database)
    revision = current_revision(database)
    agent(database)
    assert current_revision(database) == revision
    with database.read() as connection:
        assert all_standings(connection) == {NodeId("n001"): NodeStanding(has_agent=True)}


def test_world_follows_how_nodes_stand_and_the_journal_tells_it_again(database: Database) -> None:
    load_cluster(database)
    world = load_snapshot(database, JournalWorld).world
    assert isinstance(world, JournalWorld)
    reader = Reader()
    for line in world.freeze().lines():
        reader.read(line)
    steps = (
        lambda: report_fault(database, "n001", Report(code_of_xid(79)), now_s=NOW_S),
        lambda: report_fault(database, "n002", Report(CODES["rail_down"], rail=5), now_s=NOW_S),
        lambda: drain_nodes(database, ["n003"], Drain(NOW_S + 9, "fan", "ann"), now_s=NOW_S),
        lambda: fence_node(database, "n001", reason="off", by="", now_s=NOW_S),
        lambda: agent(database, "n004"),
        lambda: undrain_nodes(database, ["n003"], by="", now_s=NOW_S),
        lambda: clear_fault(database, "n001", _only_fault(database, "n001"), by="", now_s=NOW_S),
    )
    for step in steps:
        step()
        assert follow(database, world)
        assert same(world, load_world(database))
        for line in world.take():
            reader.read(line)
        reader.world.revision = world.revision
        assert reader.world.standing == world.standing
        assert reader.world.table.aside == world.table.aside
    index = world.topology.node_index["n002"]
    assert world.table.dead_rails[index] == 1 << 5
    again = Reader()
    for line in world.freeze().lines():
        again.read(line)
    assert again.world.standing == world.standing


def _only_fault(database: Database, node: str) -> int:
    (view,) = list_faults(database, node=node, is_open=True).items
    return view.fault.id


def test_node_that_leaves_the_map_leaves_its_standing_behind(database: Database) -> None:
    load_cluster(database)
    world = load_world(database)
    report_fault(database, "n004", LOST, now_s=NOW_S)
    follow(database, world)
    assert world.standing
    import_inventory(
        database,
        make_inventory({"block": 1, "leaf": 1, "rack": 1, "node": 2}),
        prune=True,
        dry_run=False,
        now_s=NOW_S,
    )
    assert follow(database, world)
    assert world.standing == {}
    assert list_faults(database).items == ()
    load_cluster(database)
    assert follow(database, world)
    assert same(world, load_world(database))


# -- what a report brings -------------------------------------------------------------------------


def test_pods_on_the_gpus_of_a_fault_are_told_to_start_anew(database: Database) -> None:
    """One fact for each of them, in the order in which they are told."""
    load_cluster(database)
    for number, mask in enumerate((0b0011, 0b1100, 0b110000)):
        job = submit(database, make_spec(f"j{number}", replicas=1, gpus=2))
        bind(database, job, ["n001"], mask=mask)
    bind(database, submit(database, make_spec("other", replicas=1)), ["n002"])
    report_fault(database, "n001", Report(code_of_xid(31), gpus=(1, 2)), now_s=NOW_S)
    world = load_world(database)
    hit = {world.jobs[fact.job].spec.name for fact in world.facts}
    assert hit == {"j0", "j1"}
    assert {(fact.kind, fact.attempt) for fact in world.facts} == {(FactKind.FAULT, 1)}
    assert health(database) is Health.HEALTHY
    assert list_faults(database, is_open=True).items == ()
    report_fault(database, "n001", Report(code_of_xid(31)), now_s=NOW_S)
    assert len(load_world(database).facts) == 2 + 3


def test_wrong_report_of_a_set_writes_nothing_for_any_node(database: Database) -> None:
    load_cluster(database)
    revision = current_revision(database)
    report = Report(CODES["thermal"], gpus=(8,))
    with pytest.raises(SchedulerError, match="found 8"):
        report_faults(database, ["n001", "n002"], report, now_s=NOW_S)
    with pytest.raises(NotFound):
        report_faults(database, ["n001", "nope"], LOST, now_s=NOW_S)
    late = Report(CODES["thermal"], at_s=NOW_S + 61)
    with pytest.raises(SchedulerError, match="lies ahead by 61 s"):
        report_fault(database, "n001", late, now_s=NOW_S)
    assert current_revision(database) == revision


def test_fault_that_is_seen_a_little_early_counts_as_of_now(database: Database) -> None:
    load_cluster(database)
    early, _ = report_fault(database, "n001", Report(CODES["disk"], at_s=NOW_S + 30), now_s=NOW_S)
    assert early.fault.at_s == NOW_S
    past, _ = report_fault(database, "n002", Report(CODES["disk"], at_s=NOW_S - 30), now_s=NOW_S)
    assert past.fault.at_s == NOW_S - 30


def test_node_that_is_to_be_reset_is_drained_and_tested_when_its_last_pod_has_left(
    database: Database,
) -> None:
    load_cluster(database)
    job = submit(database, make_spec(replicas=1))
    bind(database, job, ["n001"])
    report_fault(database, "n001", RESET, now_s=NOW_S)
    found = standing(database)
    assert found.health is Health.HEALTHY
    assert found.drain == Drain(NOW_S + 600, "fault xid_48", "fault")
    plan = Plan(
        current_revision(database),
        job_moves=(job_move(job, JobState.SUCCEEDED),),
        pod_moves=pod_moves(job, 1, PodState.SUCCEEDED),
    )
    done = commit(database, plan, 0, NOW_S)
    assert done.events["node.health"] == 1
    assert health(database) is Health.TESTING
    database.grouped(lambda tx: judge(tx, "n001", passed=True), NOW_S)
    assert standing(database) == replace(NodeStanding(), since_s=NOW_S)


def test_drain_of_an_operator_outlives_the_fault_that_asked_for_one_too(
    database: Database,
) -> None:
    load_cluster(database)
    drain = Drain(None, "cables", "ann")
    drain_nodes(database, ["n001"], drain, now_s=NOW_S)
    report_fault(database, "n001", RESET, now_s=NOW_S)
    clear_fault(database, "n001", _only_fault(database, "n001"), by="", now_s=NOW_S)
    assert standing(database).drain == drain
    revision = current_revision(database)
    drain_nodes(database, ["n001"], drain, now_s=NOW_S + 1)
    assert current_revision(database) == revision


def test_machine_with_an_agent_comes_back_only_when_that_is_heard(database: Database) -> None:
    """Pods of an older attempt may run there, and nobody but the agent knows."""
    load_cluster(database)
    agent(database)
    for report in (LOST, Report(code_of_xid(79))):
        report_fault(database, "n001", report, now_s=NOW_S)
        clear_fault(database, "n001", _only_fault(database, "n001"), by="", now_s=NOW_S)
        assert health(database) is Health.LOST


def test_second_fault_keeps_the_node_out_when_the_first_is_cleared(database: Database) -> None:
    load_cluster(database)
    first, _ = report_fault(database, "n001", LOST, now_s=NOW_S)
    report_fault(database, "n001", Report(code_of_xid(79)), now_s=NOW_S)
    clear_fault(database, "n001", first.fault.id, by="ann", now_s=NOW_S)
    found = standing(database)
    assert (found.health, found.why) == (Health.OUT, "fault xid_79")


def test_plan_that_moves_a_pod_off_a_node_that_is_back_is_decided_anew(database: Database) -> None:
    """Else its GPUs would be free while what was lost runs on there."""
    load_cluster(database)
    job = submit(database, make_spec(replicas=1))
    bind(database, job, ["n001"])
    report_fault(database, "n001", Report(code_of_xid(79)), now_s=NOW_S)
    plan = Plan(
        current_revision(database),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=(make_pod(job, 0, "n003", attempt=2),),
    )
    clear_fault(database, "n001", _only_fault(database, "n001"), by="", now_s=NOW_S)
    assert commit(database, plan, 0, NOW_S).dropped == (job.uid,)
    assert [pod.node for pod in load_world(database).live_pods(JobId(job.uid))] == ["n001"]


def test_pods_of_a_gang_that_start_anew_may_swap_their_nodes(database: Database) -> None:
    load_cluster(database)
    job = submit(database)
    bind(database, job, ["n001", "n002"])
    pods = (make_pod(job, 0, "n002", attempt=2), make_pod(job, 1, "n001", attempt=2))
    plan = Plan(
        current_revision(database),
        job_moves=(job_move(job, JobState.BOUND, attempt=2),),
        pods=pods,
    )
    world = load_world(database)
    assert commit(database, plan, 0, NOW_S).dropped == ()
    follow(database, world)
    assert same(world, load_world(database))
    assert [(p.node, p.attempt) for p in world.live_pods(JobId(job.uid))] == [
        ("n002", 2),
        ("n001", 2),
    ]


def test_parallel_job_keeps_its_members_when_one_of_them_starts_anew(database: Database) -> None:
    load_cluster(database)
    job = submit(database, make_spec())
    bind(database, job, ["n001", "n002"])
    move = replace(job_move(job, JobState.RUNNING), gpus_per_pod=8, lost_since_s=NOW_S)
    plan = Plan(
        current_revision(database),
        job_moves=(move,),
        pods=(make_pod(job, 1, "n003", attempt=2),),
    )
    done = commit(database, plan, 0, NOW_S)
    assert done.dropped == ()
    record = load_world(database).jobs[JobId(job.uid)]
    assert record.lost_since_s == NOW_S


# -- many of them ---------------------------------------------------------------------------------


def test_node_that_fails_far_more_than_others_is_a_lemon_until_that_is_long_ago(
    database: Database,
) -> None:
    load_cluster(database)
    world = load_world(database)
    for number in range(3):
        assert not get_node(database, "n001").standing.lemon
        report_fault(database, "n001", Report(code_of_xid(48), gpus=(number,)), now_s=NOW_S)
    assert get_node(database, "n001").standing.lemon
    follow(database, world)
    assert world.standing[NodeId("n001")].lemon
    review_all_lemons(database, now_s=NOW_S + 60)
    assert get_node(database, "n001").standing.lemon
    review_all_lemons(database, now_s=NOW_S + 31 * 86_400)
    assert not get_node(database, "n001").standing.lemon


def test_what_a_program_or_a_switch_does_makes_no_lemon(database: Database) -> None:
    load_cluster(database)
    for number in range(5):
        report_fault(database, "n001", Report(code_of_xid(31), gpus=(number,)), now_s=NOW_S)
        of_rack = replace(RESET, gpus=(number,), set_kind="rack", set_name="r01")
        report_faults(database, ["n001", "n002"], of_rack, now_s=NOW_S)
    assert not get_node(database, "n001").standing.lemon


def test_node_whose_agent_comes_and_goes_is_kept_out_of_use_for_a_time(database: Database) -> None:
    load_cluster(database)
    for number in range(3):
        assert standing(database).quarantined_until_s is None
        become(database, Health.LOST, "its agent is silent", now_s=NOW_S + 600 * number)
        become(database, Health.HEALTHY, now_s=NOW_S + 600 * number + 300)
    until_s = standing(database).quarantined_until_s
    assert until_s == NOW_S + 1_200 + 3_600
    world = load_world(database)
    assert world.table.aside[world.topology.node_index["n001"]] == "quarantined"
    assert end_quarantines(database, now_s=until_s - 1) == 0
    assert end_quarantines(database, now_s=until_s) == 1
    follow(database, world)
    assert same(world, load_world(database))
    assert standing(database).quarantined_until_s is None


def test_node_that_is_mended_each_time_is_not_kept_out(database: Database) -> None:
    load_cluster(database)
    for _ in range(6):
        report_fault(database, "n001", LOST, now_s=NOW_S)
        clear_fault(database, "n001", _only_fault(database, "n001"), by="", now_s=NOW_S)
    assert standing(database).quarantined_until_s is None


def test_domain_with_several_bad_nodes_is_drained_until_enough_are_well(
    database: Database,
) -> None:
    inventory = make_inventory({"leaf": 1, "rack": 2, "node": 4}, scale_up="rack")
    import_inventory(database, inventory, prune=False, dry_run=False, now_s=NOW_S)
    faults = [report_fault(database, f"n00{number}", LOST, now_s=NOW_S)[0] for number in (1, 2, 3)]
    fourth = standing(database, "n004")
    assert fourth.drain == Drain(None, "3 of 4 nodes of its scale-up domain are bad", "escalation")
    assert standing(database, "n005").drain is None
    clear_fault(database, "n002", faults[1].fault.id, by="", now_s=NOW_S)
    assert standing(database, "n004").drain is None
    put_policy(database, {"escalate_nodes": 0}, now_s=NOW_S)
    report_fault(database, "n002", LOST, now_s=NOW_S)
    assert standing(database, "n004").drain is None


def test_audit_finds_nodes_that_stand_otherwise_than_their_faults_say(database: Database) -> None:
    load_cluster(database)
    bind(database, submit(database, make_spec(replicas=1)), ["n003"])
    report_fault(database, "n001", LOST, now_s=NOW_S)
    assert audit_ledger(database).is_clean
    execute(database, "UPDATE nodes SET health = 'healthy' WHERE name = 'n001'")
    execute(database, "UPDATE nodes SET health = 'testing' WHERE name = 'n003'")
    audit = audit_ledger(database)
    assert not audit.is_clean
    assert tuple(map(str, audit.standing_faults)) == (
        "node 'n001': is healthy, though its open fault node_lost says that it is of no use",
        "node 'n001': is healthy, and said to be fenced",
        "node 'n003': is being tested with pods on it",
    )


def test_faults_are_forgotten_long_after_they_were_cleared(database: Database) -> None:
    load_cluster(database)
    report_fault(database, "n001", LOST, now_s=NOW_S)
    report_fault(database, "n002", LOST, now_s=NOW_S)
    clear_fault(database, "n002", _only_fault(database, "n002"), by="", now_s=NOW_S)
    assert forget_faults(database, now_s=NOW_S + 399 * 86_400) == 0
    assert forget_faults(database, now_s=NOW_S + 401 * 86_400) == 1
    assert [view.node for view in list_faults(database).items] == ["n001"]
