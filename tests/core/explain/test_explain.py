"""Holders, claims, words: what an explanation is made of."""

from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.explain.answer import (
    Answer,
    Change,
    ChangeKind,
    JobRef,
    Raise,
    RuleChange,
)
from scheduler.explain.demands import dp_step, with_rule
from scheduler.explain.engine import Engine
from scheduler.explain.explain import ask, claims_that_bind, waiting
from scheduler.explain.words import change_words
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.ids import ClaimId, JobId, NodeId
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Rule
from scheduler.model.lifecycle import JobState
from scheduler.model.placement import Placement
from scheduler.place.search import place
from scheduler.policy import Policy
from tests.builders import make_cluster
from tests.core.gangs import (
    cycle,
    gang,
    parts,
    preferred,
    required,
    role,
    role_gang,
    submit,
)

NOW_S = 100.0


def world_of(racks: int = 2, nodes: int = 2) -> World:
    return World(make_cluster(racks=racks, nodes_per_rack=nodes))


def run(world: World, name: str, spec: JobSpec, began_s: float = 0.0) -> JobId:
    """A job that has run since `began_s`."""
    uid = submit(world, spec, name)
    cycle(world)
    assert world.jobs[uid].state is JobState.BOUND, world.jobs[uid].message
    world.put_job(replace(world.jobs[uid], state=JobState.RUNNING, started_s=began_s))
    return uid


def told(world: World, spec: JobSpec, now_s: float = NOW_S) -> Answer:
    found = ask(world, spec, Policy(), now_s)
    assert isinstance(found, Answer), found
    return found


def of_kind(answer: Answer, kind: ChangeKind) -> list[Change]:
    return [change for change in answer.changes if change.kind is kind]


# -- holders --------------------------------------------------------------------------------------


def test_job_that_runs_longer_than_it_said_has_no_expected_end() -> None:
    world = world_of()
    run(world, "late", gang(8, dp=2, duration_s=50.0))
    run(world, "soon", gang(8, dp=2, duration_s=500.0))
    answer = told(world, gang(8, dp=4))
    ends = {h.job.name: h.ends_s for h in answer.holders if h.job is not None}
    assert ends == {"soon": 500.0, "late": None}
    assert answer.expected_start_s is None


def test_expected_start_is_when_enough_of_the_known_ends_have_come() -> None:
    world = world_of()
    for number, end in enumerate((400.0, 200.0, 300.0, 900.0)):
        run(world, f"j{number}", gang(8, duration_s=end))
    answer = told(world, gang(8, dp=2))
    assert answer.expected_start_s == 300.0
    soonest = of_kind(answer, ChangeKind.FINISH)[0]
    assert ({job.name for job in soonest.jobs}, soonest.ends_s) == ({"j1", "j2"}, 300.0)


def test_list_of_holders_ends_and_the_rest_is_a_number() -> None:
    world = world_of(racks=4, nodes=8)
    for number in range(30):
        run(world, f"j{number:02d}", gang(8))
    answer = told(world, gang(8, dp=32))
    assert [h.jobs for h in answer.holders] == [1] * 20 + [10]
    assert (answer.holders[-1].job, answer.holders[-1].gpus) == (None, 80)


def test_pods_on_nodes_that_the_gang_cannot_use_hold_nothing_it_lacks() -> None:
    world = world_of()
    run(world, "away", gang(8, nodes=("n001",)))
    run(world, "here", gang(8, nodes=("n002",)))
    answer = told(world, gang(8, nodes=("n002",)))
    assert [h.job.name for h in answer.holders if h.job] == ["here"]


def test_jobs_that_are_not_visible_are_numbers_in_holders_and_changes() -> None:
    world = world_of()
    run(world, "mine", gang(8, dp=2))
    run(world, "theirs", gang(8, dp=2, namespace="other"))
    found = ask(world, gang(8, dp=4), Policy(), NOW_S, lambda job: job.spec.namespace == "default")
    assert isinstance(found, Answer)
    assert [(h.jobs, h.gpus, h.is_hidden) for h in found.holders] == [
        (1, 16, False),
        (1, 16, True),
    ]
    (finish,) = of_kind(found, ChangeKind.FINISH)
    assert ([j.name for j in finish.jobs], finish.hidden, finish.gpus) == (["mine"], 1, 32)
    assert "theirs" not in str(found.changes) + str(found.holders)


# -- changes --------------------------------------------------------------------------------------


def test_the_fewest_jobs_are_proposed_not_all_that_are_in_the_way() -> None:
    world = world_of()
    for node in ("n001", "n002"):
        for _ in range(2):
            run(world, f"{node}-{len(world.jobs)}", gang(4, nodes=(node,)))
    run(world, "large", gang(8, dp=2, nodes=("n003", "n004")))
    (finish,) = of_kind(told(world, gang(8, dp=2)), ChangeKind.FINISH)
    assert [job.name for job in finish.jobs] == ["large"]


def test_only_jobs_of_lower_priority_that_allow_it_are_to_be_preempted() -> None:
    world = world_of()
    run(world, "firm", gang(8, dp=2, preemptible=False))
    run(world, "soft", gang(8, dp=2))
    answer = told(world, gang(8, dp=2, priority=5))
    assert [j.name for c in of_kind(answer, ChangeKind.PREEMPT) for j in c.jobs] == ["soft"]
    assert of_kind(told(world, gang(8, dp=3, priority=5)), ChangeKind.PREEMPT) == []
    assert of_kind(told(world, gang(8, dp=2)), ChangeKind.PREEMPT) == []


def test_a_rule_is_relaxed_to_the_innermost_level_that_is_enough() -> None:
    world = World(make_cluster(racks=2, nodes_per_rack=2, leaves=2, blocks=2))
    for number in range(8):
        run(world, f"j{number}", gang(8, nodes=(f"n{2 * number + 1:03d}",)))
    (relax,) = of_kind(
        told(world, gang(8, pp=2, dp=1, rules=(required("pp", "rack"),))), ChangeKind.RELAX
    )
    assert relax.rules == (RuleChange(required("pp", "rack"), required("pp", "leaf")),)


def test_rules_that_only_together_stand_in_the_way_are_relaxed_together() -> None:
    world = world_of(racks=2, nodes=2)
    run(world, "a", gang(8, nodes=("n001",)))
    run(world, "b", gang(8, nodes=("n003",)))
    spec = gang(8, 1, 2, required("job", "rack"), required("dp", "rack"))
    (relax,) = of_kind(told(world, spec), ChangeKind.RELAX)
    assert [rules.after.mode for rules in relax.rules] == [Mode.PREFERRED] * 2


def test_rule_of_parts_is_relaxed_in_its_role() -> None:
    world = world_of()
    for node in ("n001", "n003"):
        run(world, node, gang(8, nodes=(node,)))
    spec = role_gang(role("w", 2, 8, parts=parts(2, 1, None, required("", "rack"))))
    (relax,) = of_kind(told(world, spec), ChangeKind.RELAX)
    (rules,) = relax.rules
    assert (rules.role, rules.after) == ("w", required("", "leaf"))
    assert isinstance(
        place(world.trial, with_rule(spec, rules.role, rules.before, rules.after)), Placement
    )


def test_minimum_of_a_role_shrinks_in_whole_parts() -> None:
    world = world_of()
    run(world, "j", gang(8))
    spec = role_gang(role("w", 4, 8, parts=parts(2, 2)))
    (shrink,) = of_kind(told(world, spec), ChangeKind.SHRINK)
    assert (shrink.role, shrink.size) == ("w", 2)


@pytest.mark.parametrize(
    ("sizes", "pod", "step"),
    [
        (ParallelSizes(tp=8, dp=6), None, 1),
        (ParallelSizes(tp=2, dp=8, ep=8), None, 4),
        (ParallelSizes(tp=1, dp=8), 4, 4),
        (ParallelSizes(tp=2, pp=2, dp=8, ep=4), 8, 2),
    ],
)
def test_dp_shrinks_only_to_what_experts_and_pods_allow(
    sizes: ParallelSizes, pod: int | None, step: int
) -> None:
    assert dp_step(sizes, pod) == step


def test_cordoned_nodes_and_jobs_are_proposed_together_where_neither_is_enough() -> None:
    world = world_of(racks=1, nodes=2)
    run(world, "old", gang(8, nodes=("n001",)))
    world.set_node("n002", aside="cordoned")
    answer = told(world, gang(8, dp=2))
    (both,) = of_kind(answer, ChangeKind.FINISH_AND_UNCORDON)
    assert ([j.name for j in both.jobs], both.nodes) == (["old"], ("n002",))
    assert of_kind(answer, ChangeKind.FINISH) == []


def test_nodes_out_of_order_are_not_to_be_uncordoned() -> None:
    world = world_of(racks=1, nodes=2)
    world.set_node("n002", aside="lost")
    answer = told(world, gang(8, dp=2))
    assert {c.kind for c in answer.changes} == {ChangeKind.SHRINK}


def test_search_that_runs_out_of_questions_says_so_and_proposes_nothing_unproven() -> None:
    world = world_of()
    run(world, "old", gang(8, dp=4))
    engine = Engine(world, gang(8, dp=2), None, calls_max=0)
    assert engine.fits() is False
    assert engine.bounded


# -- claims ---------------------------------------------------------------------------------------


def keep(world: World, why: ClaimWhy, job: JobId | None, starts_s: float, node: str) -> None:
    window = "" if job is not None else "w"
    uid = ClaimId(f"{why}-{node}")
    world.put_claims([Claim(uid, why, NodeId(node), 0xFF, job, window, starts_s)])


def fits(world: World, spec: JobSpec, uid: str = "me") -> bool:
    world.put_job(replace(world.jobs[submit(world, spec, uid)], spec=spec))
    with claims_that_bind(world, world.jobs[JobId(uid)], NOW_S):
        return isinstance(place(world.trial, spec), Placement)


def test_reservation_binds_its_priority_and_below_and_not_those_who_end_in_time() -> None:
    world = world_of(racks=1, nodes=1)
    owner = submit(world, gang(8), "owner", priority=5)
    keep(world, ClaimWhy.RESERVATION, owner, 1_000.0, "n001")
    assert not fits(world, gang(8, priority=5))
    assert fits(world, gang(8, priority=6))
    assert fits(world, gang(8, duration_s=900.0))
    assert not fits(world, gang(8, duration_s=901.0))


def test_claim_of_a_preemptor_binds_all_but_itself() -> None:
    world = world_of(racks=1, nodes=1)
    owner = submit(world, gang(8), "owner")
    keep(world, ClaimWhy.PREEMPTION, owner, 0.0, "n001")
    assert not fits(world, gang(8, priority=9, duration_s=1.0))
    assert fits(world, gang(8), uid="owner")


def test_window_binds_who_would_still_be_there() -> None:
    world = world_of(racks=1, nodes=1)
    keep(world, ClaimWhy.MAINTENANCE, None, 1_000.0, "n001")
    assert fits(world, gang(8, duration_s=900.0))
    assert not fits(world, gang(8))


def test_gang_with_a_place_to_come_keeps_its_own_time_and_who_is_in_the_way() -> None:
    world = world_of()
    old = run(world, "old", gang(8, dp=4, duration_s=1_000.0), began_s=NOW_S)
    uid = submit(world, gang(8, dp=2), "next")
    cycle(world, now_s=NOW_S)
    assert world.jobs[uid].state is JobState.RESERVED
    found = waiting(world, world.jobs[uid], Policy(), NOW_S)
    assert isinstance(found, Answer)
    assert found.expected_start_s == NOW_S + 1_000.0
    assert [(h.job.uid if h.job else None, h.gpus) for h in found.holders] == [(old, 16)]
    assert found.verdict.message.startswith(world.jobs[uid].message)
    assert of_kind(found, ChangeKind.FINISH)


def test_gang_that_is_held_has_only_what_the_last_cycle_said() -> None:
    world = world_of()
    uid = submit(world, gang(8), "held")
    world.put_job(replace(world.jobs[uid], held=True))
    assert waiting(world, world.jobs[uid], Policy(), NOW_S) is None


# -- words ----------------------------------------------------------------------------------------

A, B = (JobRef(JobId(n), "default", n) for n in "ab")
RULE = required("pp", "leaf")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(ChangeKind.FINISH, (A,), gpus=8), "when 'default/a' ends (8 GPUs)"),
        (
            Change(ChangeKind.FINISH, (A, B), hidden=1, gpus=9),
            "when 'default/a', 'default/b' and 1 job of other tenants end (9 GPUs)",
        ),
        (
            Change(ChangeKind.FINISH, hidden=2, gpus=1),
            "when 2 jobs of other tenants end (1 GPU)",
        ),
        (
            Change(ChangeKind.FINISH, (A,) * 9, gpus=72),
            "when 'default/a', 'default/a', 'default/a' and 6 more jobs end (72 GPUs)",
        ),
        (
            Change(ChangeKind.PREEMPT, (A,), gpus=8),
            "preempt 'default/a' (8 GPUs), of lower priority",
        ),
        (Change(ChangeKind.UNCORDON, nodes=(NodeId("n1"),)), "uncordon 'n1'"),
        (
            Change(ChangeKind.FINISH_AND_UNCORDON, (A,), gpus=8, nodes=(NodeId("n1"),)),
            "uncordon 'n1', and when 'default/a' ends (8 GPUs)",
        ),
        (
            Change(ChangeKind.RELAX, rules=(RuleChange(RULE, required("pp", "block")),)),
            "relax the rule 'pp within leaf, required' to block",
        ),
        (
            Change(ChangeKind.RELAX, rules=(RuleChange(RULE, preferred("pp", "leaf")),)),
            "make the rule 'pp within leaf, required' preferred",
        ),
        (
            Change(
                ChangeKind.RELAX,
                rules=(RuleChange(Rule("", "rack"), Rule("", "leaf"), "w"),),
            ),
            "relax the rule 'each part within rack, required' of role 'w' to leaf",
        ),
        (Change(ChangeKind.SHRINK, size=6), "shrink dp to 6"),
        (Change(ChangeKind.SHRINK, role="w", size=2), "let role 'w' start with min 2"),
        (
            Change(ChangeKind.LIMIT, raises=(Raise("q", 32), Raise("r", 16, "H100"))),
            "raise the limit of queue 'q' to 32 GPUs;"
            " raise the limit of H100 of queue 'r' to 16 GPUs",
        ),
    ],
)
def test_changes_are_told_in_words(change: Change, words: str) -> None:
    assert change_words(change) == words


def test_every_kind_of_change_has_words() -> None:
    for kind in ChangeKind:
        assert change_words(Change(kind, (A,), nodes=(NodeId("n1"),), size=1)) is not None


def test_answer_on_a_gang_that_fits_is_its_placement() -> None:
    assert isinstance(ask(world_of(), gang(8), Policy(), NOW_S), Placement)


# -- the line -------------------------------------------------------------------------------------


def test_change_whose_room_others_in_line_would_take_says_so_and_comes_last() -> None:
    world = world_of(racks=1, nodes=2)
    run(world, "a", gang(8))
    run(world, "b", gang(8))
    first = submit(world, gang(8), "first", priority=1)
    late = submit(world, gang(8, dp=2), "late")
    for uid in (first, late):
        world.put_job(replace(world.jobs[uid], state=JobState.PENDING))
    found = waiting(world, world.jobs[late], Policy(), NOW_S)
    assert isinstance(found, Answer)
    assert found.ahead == 1
    told_last = {change.kind: change.others_first for change in found.changes}
    assert told_last == {ChangeKind.FINISH: 1}
    assert "1 job before it in line would take the room" in change_words(found.changes[-1])


def test_change_that_makes_room_for_those_ahead_as_well_is_no_worse_for_it() -> None:
    world = world_of(racks=1, nodes=4)
    run(world, "large", gang(8, dp=4))
    submit(world, gang(8), "first", priority=1)
    late = submit(world, gang(8, dp=2), "late")
    found = waiting(world, world.jobs[late], Policy(), NOW_S)
    assert isinstance(found, Answer)
    (finish,) = of_kind(found, ChangeKind.FINISH)
    assert (found.ahead, finish.others_first) == (1, 0)


def test_asking_leaves_claims_and_counts_as_they_were() -> None:
    world = world_of(racks=1, nodes=2)
    run(world, "low", gang(8, dp=2))
    submit(world, gang(8, dp=2), "high", priority=5)
    cycle(world, now_s=NOW_S)
    submit(world, gang(8), "third", priority=1)
    table = world.table
    before = (list(table.free), dict(table.claimed), dict(table.vacant), list(table.cpu_milli))
    found = told(world, gang(8, dp=2))
    assert found.ahead == 2
    after = (list(table.free), dict(table.claimed), dict(table.vacant), list(table.cpu_milli))
    assert after == before
