"""Which gang goes next."""

from dataclasses import replace

from scheduler.model.ids import JobId
from scheduler.model.lifecycle import JobState
from scheduler.order.line import line, line_of
from scheduler.order.shares import shares_of
from scheduler.policy import Policy
from tests.core.order.lines import ages, charged, gpus, job, names, queue, shares, world_with

FAIR = Policy()
SHORT = Policy(order="shortest_first", ageing=0.5)


def test_higher_priority_goes_first_then_the_older() -> None:
    jobs = [job("new", age=9), job("old", age=2), job("high", age=10, priority=1)]
    assert names(line(jobs, shares(), FAIR, 0.0)) == ["high", "old", "new"]


def test_running_and_held_gangs_do_not_stand_in_line() -> None:
    jobs = [
        job("runs", state=JobState.RUNNING),
        replace(job("held"), held=True),
        job("reserved", state=JobState.RESERVED),
        job("suspended", state=JobState.SUSPENDED),
    ]
    assert names(line(jobs, shares(), FAIR, 0.0)) == ["reserved"]


def test_gang_in_recovery_goes_before_new_work_of_its_priority_only() -> None:
    jobs = ages([job("new"), job("hurt", state=JobState.RECOVERING), job("high", priority=1)])
    assert names(line(jobs, shares(), FAIR, 0.0)) == ["high", "hurt", "new"]


def test_queue_that_uses_less_goes_first() -> None:
    found = charged(shares(queue("a"), queue("b")), ("a", 8))
    jobs = ages([job("a1", "a"), job("a2", "a"), job("b1", "b")])
    assert names(line(jobs, found, FAIR, 0.0)) == ["b1", "a1", "a2"]


def test_priority_goes_before_share() -> None:
    found = charged(shares(queue("a"), queue("b")), ("a", 8))
    jobs = ages([job("a1", "a", priority=1), job("b1", "b")])
    assert names(line(jobs, found, FAIR, 0.0)) == ["a1", "b1"]


def test_queues_take_turns_as_gangs_are_placed() -> None:
    found = shares(queue("a"), queue("b", weight=2.0))
    jobs = ages([job(f"{q}{n}", q) for q in "ab" for n in range(4)])
    order = []
    for record in line(jobs, found, FAIR, 0.0):
        order.append(record.spec.name)
        found.add(record, gpus(8))
    assert order == ["a0", "b0", "b1", "a1", "b2", "b3", "a2", "a3"]


def test_nobody_changes_places_while_nothing_is_placed() -> None:
    found = shares(queue("a"), queue("b"))
    jobs = ages([job("b0", "b"), job("a0", "a"), job("b1", "b")])
    assert names(line(jobs, found, FAIR, 0.0)) == ["b0", "a0", "b1"]


def test_share_is_compared_among_siblings_from_the_root_down() -> None:
    """a1 uses less than b, but a in all uses more."""
    queues = (queue("a"), queue("a1", "a"), queue("a2", "a"), queue("b"))
    found = charged(shares(*queues), ("a1", 4), ("a2", 16), ("b", 8))
    jobs = ages([job("in-a2", "a2"), job("in-a1", "a1"), job("in-b", "b")])
    assert names(line(jobs, found, FAIR, 0.0)) == ["in-b", "in-a1", "in-a2"]


def test_job_right_in_a_queue_that_has_others_below_it_is_in_line_too() -> None:
    found = charged(shares(queue("a"), queue("a1", "a")), ("a1", 4))
    jobs = ages([job("below", "a1"), job("above", "a")])
    assert names(line(jobs, found, FAIR, 0.0)) == ["above", "below"]


def test_job_in_a_queue_that_is_not_known_is_in_line_too() -> None:
    assert names(line([job("j", "gone")], shares(), FAIR, 0.0)) == ["j"]


def test_shorter_job_goes_first_whatever_its_queue_uses() -> None:
    found = charged(shares(queue("a"), queue("b")), ("a", 8))
    jobs = ages([job("long", "b", duration_s=600.0), job("short", "a", duration_s=60.0)])
    assert names(line(jobs, found, SHORT, 0.0)) == ["short", "long"]


def test_job_that_waited_goes_before_a_shorter_one() -> None:
    """Ageing 0.5: 600 s of run time are made up for in 1,200 s."""
    jobs = ages(
        [
            job("long", duration_s=600.0),
            job("before", duration_s=1.0, submitted_s=1_190.0),
            job("after", duration_s=1.0, submitted_s=1_199.0),
        ]
    )
    assert names(line(jobs, shares(), SHORT, 0.0)) == ["before", "long", "after"]


def test_job_without_a_duration_is_taken_for_its_time_limit_or_a_long_one() -> None:
    limited = job("limited", age=3)
    limited = replace(limited, spec=replace(limited.spec, time_limit_s=60.0))
    jobs = [job("unknown", age=1), job("stated", age=2, duration_s=120.0), limited]
    assert names(line(jobs, shares(), SHORT, 0.0)) == ["limited", "stated", "unknown"]


def test_kept_lines_say_the_same_as_new_ones() -> None:
    world = world_with(queue("a"), queue("b"))
    jobs = ages([job(f"{q}{n}", q, priority=n % 2) for n in range(6) for q in "ab"])
    for record in jobs:
        world.put_job(record)
    gone = replace(jobs[3], state=JobState.CANCELLED)
    moved = replace(jobs[4], spec=replace(jobs[4].spec, queue="b", priority=7))
    back = job("back", "a", age=99)
    changed = {record.uid: record for record in (gone, moved, back)}
    now = {record.uid: record for record in jobs} | changed
    for policy in (FAIR, SHORT):
        kept = names(line_of(world, now, changed, shares_of(world), policy))
        assert kept == names(line(now.values(), shares_of(world), policy, 0.0))
        assert len(kept) == 12
        before = names(line_of(world, world.jobs, {}, shares_of(world), policy))
        assert before == names(line(world.jobs.values(), shares_of(world), policy, 0.0))


def test_many_queues_of_equal_share_are_one_line_by_age_until_a_share_changes() -> None:
    queues = [queue(f"q{n}") for n in range(30)]
    jobs = ages([job(f"j{n}", f"q{n * 7 % 30}") for n in range(1_000)])
    found = shares(*queues)
    line_ = line(reversed(jobs), found, FAIR, 0.0)
    told = [next(line_) for _ in range(900)]
    assert names(told) == [f"j{n}" for n in range(900)]
    late = jobs[900:]
    found.add(late[0], gpus(8))
    own = [record for record in late if record.spec.queue == late[0].spec.queue]
    others = [record for record in late if record not in own]
    assert names(line_) == names([*others, *own])


def test_line_forgets_jobs_that_ended() -> None:
    world = world_with()
    world.put_job(job("j"))
    world.put_job(replace(job("j"), state=JobState.CANCELLED))
    assert len(world.accounts.waiting) == 0
    assert world.accounts.waiting.lines == {}
    assert world.jobs.get(JobId("j")) is None
