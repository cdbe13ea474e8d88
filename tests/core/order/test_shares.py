"""Limits, quotas and shares of a tree of queues."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import JobRecord
from scheduler.model.queue import Use
from scheduler.order.shares import Denied, Shares, shares_of
from scheduler.order.use import least_use
from tests.builders import make_node, make_topology, make_type
from tests.core.gangs import gang, parts, role, role_gang
from tests.core.order.lines import charged, gpus, job, queue, run, shares, world_with

TEAM = (queue("team", limit_gpus=16), queue("a", "team"), queue("b", "team", limit_gpus=12))


def test_queue_without_limits_denies_nothing() -> None:
    assert shares().denied(job("j"), gpus(10**9)) is None


def test_queue_that_is_not_known_denies_nothing() -> None:
    assert shares().denied(job("j", "gone"), gpus(8)) is None


def test_limit_of_a_parent_counts_what_all_its_children_use() -> None:
    found = charged(shares(*TEAM), ("a", 16)).denied(job("j", "b"), gpus(8))
    assert found == Denied(
        Reason.LIMIT,
        "team",
        "queue 'team', above queue 'b', has a limit_gpus of 16; the job wants 8 GPUs and 16 are in "
        "use",
    )


def test_own_queue_is_named_before_its_parent() -> None:
    found = charged(shares(*TEAM), ("b", 8)).denied(job("j", "b"), gpus(16))
    assert found is not None
    assert (found.queue, found.never) == ("b", True)
    assert "the job wants 16 GPUs; that never fits" in found.message


def test_limit_is_not_passed_by_exactly_reaching_it() -> None:
    assert charged(shares(*TEAM), ("a", 8)).denied(job("j", "b"), gpus(8)) is None


def test_limit_of_a_model_counts_only_that_model() -> None:
    found = shares(queue("q", limit_by_model={"H100-80GB": 8}))
    assert found.denied(job("j", "q"), gpus(16, "A100-80GB")) is None
    denied = found.denied(job("j", "q"), gpus(16))
    assert denied is not None
    assert "limit_by_model of 8 H100-80GB GPUs" in denied.message


def test_closed_parent_closes_the_queues_below() -> None:
    denied = shares(queue("top", closed=True), queue("q", "top")).denied(job("j", "q"), gpus(1))
    assert denied is not None
    assert (denied.reason, denied.queue, denied.never) == (Reason.CLOSED, "top", False)


def test_giving_back_undoes_taking() -> None:
    found = shares(*TEAM)
    found.add(job("j", "a"), Use({"X": 4}, 10, 20))
    found.remove(job("j", "a"), Use({"X": 4}, 10, 20))
    assert (found.account("team").gpus, found.share("team"), found.version) == (0, 0.0, 2)


def test_charges_of_a_cycle_leave_the_world_alone() -> None:
    world = world_with(*TEAM)
    charged(shares_of(world), ("a", 16))
    assert shares_of(world).account("team").gpus == 0


def test_live_pods_are_charged_until_they_end() -> None:
    world = world_with(*TEAM)
    run(world, job("j", "a"), "n001")
    assert world.accounts.total["team"].by_model == {"H100-80GB": 8}
    (pod,) = world.live_pods(job("j").uid)
    world.put_pod(replace(pod, state=PodState.TERMINATING))
    assert world.accounts.total["team"].gpus == 8
    world.put_pod(replace(pod, state=PodState.STOPPED))
    assert world.accounts.total["team"].gpus == 0


def test_what_is_used_follows_a_queue_to_its_new_parent() -> None:
    world = world_with(*TEAM, queue("other"))
    run(world, job("j", "a"), "n001")
    world.set_queues((*TEAM[:1], queue("other"), queue("a", "other")))
    used = {name: account.gpus for name, account in world.accounts.total.items()}
    assert used == {"team": 0, "other": 8, "a": 8, "default": 0}


def test_queues_that_come_and_go_leave_nothing_behind() -> None:
    world = world_with()
    for number in range(20):
        record = job("j", f"q{number}")
        world.set_queues([queue(record.spec.queue)])
        run(world, record, "n001")
        (pod,) = world.live_pods(record.uid)
        world.put_pod(replace(pod, state=PodState.STOPPED))
        world.put_job(replace(record, state=JobState.CANCELLED))
    world.set_queues([])
    assert world.accounts._direct == {}


def test_queue_below_its_quota_keeps_it_only_if_nothing_is_taken() -> None:
    found = charged(shares(queue("q", quota_gpus=16)), ("q", 8))
    assert not found.keeps_quota("q", gpus(1))
    assert found.keeps_quota("q", Use({}, 4_000, 0))


def test_queue_keeps_its_quota_while_enough_is_left() -> None:
    found = charged(shares(queue("q", quota_gpus=16)), ("q", 24))
    assert found.keeps_quota("q", gpus(8))
    assert not found.keeps_quota("q", gpus(9))


def test_quota_of_a_parent_is_kept_too() -> None:
    queues = (queue("team", quota_gpus=16), queue("a", "team"))
    assert not charged(shares(*queues), ("a", 16)).keeps_quota("a", gpus(8))


def test_quota_of_a_model_is_kept_for_that_model() -> None:
    found = charged(shares(queue("q", quota_by_model={"H100-80GB": 8})), ("q", 8))
    assert not found.keeps_quota("q", gpus(1))
    assert found.keeps_quota("q", gpus(1, "A100-80GB"))


def test_quota_of_a_model_is_owed_for_that_model() -> None:
    by_model = {"quota_by_model": {"H100-80GB": 8}}
    found = charged(shares(queue("a", None, **by_model), queue("b", None, **by_model)), ("a", 16))
    found.add(job("j", "b"), gpus(16, "A100-80GB"))
    assert found.owes("a", "b")
    found.add(job("j", "b"), gpus(9))
    assert not found.owes("a", "b")


def test_share_is_the_largest_part_of_any_resource_by_weight() -> None:
    """64 GPUs and 8 x 112 CPUs in the cluster; half the CPUs, a quarter of the GPUs."""
    found = shares(queue("q", weight=2.0))
    found.add(job("j", "q"), Use({"H100-80GB": 16}, 448_000, 0))
    assert found.share("q") == 0.25


def test_queue_within_its_quota_goes_before_one_that_borrows() -> None:
    queues = (queue("rich", quota_gpus=48), queue("poor", quota_gpus=8))
    found = charged(shares(*queues), ("rich", 40), ("poor", 16))
    assert found.share("rich") > found.share("poor")
    assert found.rank("rich") < found.rank("poor")


def test_least_use_counts_the_minimum_of_each_role() -> None:
    spec = role_gang(role("a", 4, 8, min=2), role("b", 1, 0))
    assert least_use(spec) == Use({"": 16})
    assert least_use(gang(8, 2, 2, gpu="A100-80GB")) == Use({"A100-80GB": 32})


@pytest.mark.parametrize(
    ("limit", "replicas"), [(64, [4, 6]), (40, [4, 6]), (39, [4, 5]), (20, [3, 2]), (33, [4, 4])]
)
def test_members_above_the_minimum_are_left_out_to_keep_a_limit(
    limit: int, replicas: list[int]
) -> None:
    """Roles of 4 (least 2) and 6 (least 2) members of 4 GPUs: 16 to 40 GPUs."""
    found = shares(queue("q", limit_gpus=limit))
    record = job("j", "q")
    record = replace(
        record, spec=replace(record.spec, roles=(role("a", 4, 4, min=2), role("b", 6, 4, min=2)))
    )
    spec = found.within(record)
    assert isinstance(spec, JobSpec)
    assert [r.replicas for r in spec.roles] == replicas


def test_parts_are_left_out_whole() -> None:
    found = shares(queue("q", limit_gpus=31))
    record = job("j", "q")
    of_parts = role("m", 12, 4, min=4, parts=parts(4, 3, 1))
    spec = found.within(replace(record, spec=replace(record.spec, roles=(of_parts,))))
    assert isinstance(spec, JobSpec)
    assert (spec.roles[0].replicas, spec.roles[0].parts) == (4, parts(4, 1, 1))


def test_minimum_that_a_limit_denies_is_denied() -> None:
    assert isinstance(shares(queue("q", limit_gpus=4)).within(job("j", "q")), Denied)


def test_room_is_what_the_tightest_limit_leaves() -> None:
    found = charged(shares(*TEAM), ("a", 6))
    assert (found.room("b"), found.room("a"), found.room("default")) == (10, 10, None)


def any_model(count: int, **fields: object) -> JobRecord:
    """A job of one member that takes GPUs of any model."""
    record = job("j", "q", gpus=count)
    return replace(record, spec=replace(record.spec, **fields))  # type: ignore[arg-type]  # by name


def two_models(**fields: object) -> Shares:
    """A cluster of 16 A100 and 16 H100 with one queue."""
    kinds = {
        name: replace(make_type(name), gpu=gpu)
        for name, gpu in (("h", "H100-80GB"), ("a", "A100-80GB"))
    }
    nodes = [make_node(f"{kind}{n}", kind, rack="r1") for kind in kinds for n in range(2)]
    world = World(make_topology(nodes, kinds, levels=("rack", "node")))
    world.set_queues([queue("q", None, **fields)])
    return shares_of(world)


def test_job_of_any_model_is_told_the_one_that_limits_leave_it() -> None:
    found = two_models(limit_by_model={"H100-80GB": 8})
    found.add(job("other", "q"), gpus(8))
    spec = found.within(any_model(8))
    assert isinstance(spec, JobSpec)
    assert spec.gpu == "A100-80GB"


def test_job_of_any_model_may_choose_while_no_limit_of_a_model_is_near() -> None:
    record = any_model(8)
    assert two_models(limit_by_model={"H100-80GB": 8}).within(record) is record.spec
    assert two_models(limit_gpus=8).within(record) is record.spec


def test_job_of_any_model_is_denied_when_every_model_is() -> None:
    found = two_models(limit_by_model={"H100-80GB": 4, "A100-80GB": 8})
    found.add(job("other", "q"), gpus(8, "A100-80GB"))
    denied = found.within(any_model(8))
    assert isinstance(denied, Denied)
    assert (denied.never, "of 8 A100-80GB GPUs" in denied.message) == (False, True)


def test_job_without_gpus_is_not_held_by_limits_of_gpus() -> None:
    found = two_models(limit_gpus=0, limit_by_model={"H100-80GB": 0})
    record = any_model(0)
    assert found.within(record) is record.spec


def test_denials_are_asked_anew_when_something_was_given_back() -> None:
    found = two_models(limit_gpus=8)
    found.add(job("other", "q"), gpus(8))
    assert isinstance(found.within(any_model(8)), Denied)
    found.remove(job("other", "q"), gpus(8))
    assert isinstance(found.within(any_model(8)), JobSpec)


TWO_TEAMS = (
    queue("t", quota_gpus=16),
    queue("a", "t", quota_gpus=8),
    queue("b", "t", quota_gpus=8),
    queue("c", "t"),
    queue("u", quota_gpus=16),
    queue("d", "u"),
)


@pytest.mark.parametrize(
    ("used", "victim", "claimant", "owes"),
    [
        ((("a", 16), ("b", 8)), "a", "b", True),
        ((("a", 16), ("b", 9)), "a", "b", False),
        ((("a", 8), ("b", 8)), "a", "b", False),
        ((("a", 16),), "a", "a", False),
        ((("a", 16), ("c", 8)), "a", "c", False),
        ((("a", 24), ("d", 16)), "a", "d", True),
        ((("a", 24), ("d", 17)), "a", "d", False),
        ((("c", 24), ("d", 8)), "c", "d", True),
        ((("a", 16), ("d", 8)), "a", "d", True),
        ((("d", 32), ("b", 8)), "d", "b", True),
    ],
    ids=[
        "a sibling's quota although the parent is full",
        "no more than the quota",
        "not from one within its quota",
        "not from its own queue",
        "not to one without a quota",
        "to a child out of its parent's quota",
        "no more than the parent's quota",
        "from a child whose parent is over",
        "from a queue that is over though its parent is not",
        "from a child without a quota",
    ],
)
def test_what_was_lent_is_owed_below_where_two_queues_meet(
    used: tuple[tuple[str, int], ...], victim: str, claimant: str, *, owes: bool
) -> None:
    """The claimant's gang is among what its queue uses."""
    assert charged(shares(*TWO_TEAMS), *used).owes(victim, claimant) is owes


def test_gang_over_a_limit_is_found_at_the_queue_that_has_it() -> None:
    found = charged(shares(*TEAM), ("a", 17))
    assert (found.beyond_limit("b"), found.limiting("b")) == ("team", ("b", "team"))
    assert found.beyond_limit("default") is None
    by_model = charged(shares(queue("q", limit_by_model={"H100-80GB": 8})), ("q", 9))
    assert by_model.beyond_limit("q") == "q"
