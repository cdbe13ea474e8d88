"""What holds for any tree of queues and any order of events."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import QueueError
from scheduler.model.ids import PodId
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.plan import JobRecord
from scheduler.model.queue import DEPTH_MAX, QueueRecord
from scheduler.order import line as line_module
from scheduler.order.line import line, line_of
from scheduler.order.shares import Shares, shares_of
from scheduler.order.tree import chain, check_queue
from scheduler.policy import Policy
from tests.core.order.lines import gpus, job, names, queue, run, shares, world_with

NAMES = ("a", "b", "c", "d", "e", "f")
FEW = settings(max_examples=40)
POLICIES = (Policy(), Policy(order="shortest_first", ageing=0.5))


@st.composite
def trees(draw: st.DrawFn) -> dict[str, QueueRecord]:
    """Queues a to f, each below none or below one before it; limits and quotas at random."""
    found: dict[str, QueueRecord] = {}
    for index, name in enumerate(NAMES):
        parents = st.sampled_from(NAMES[:index]) if index else st.nothing()
        found[name] = queue(
            name,
            draw(st.none() | parents),
            limit_gpus=draw(st.none() | st.integers(0, 40)),
            quota_gpus=draw(st.none() | st.integers(0, 40)),
            limit_by_model=draw(st.just({}) | st.just({"H100-80GB": 20})),
            weight=draw(st.sampled_from((0.5, 1.0, 1.0, 2.0))),
        )
    return found


SOME_JOBS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from((1, 2, 8)), st.integers(0, 2)), max_size=30
)


def jobs_of(wanted: list[tuple[str, int, int]]) -> list[JobRecord]:
    """One job for each (queue, GPUs, priority), submitted in this order."""
    return [
        job(
            f"j{index}",
            name,
            gpus=count,
            priority=priority,
            age=index + 1,
            duration_s=float(count * 100),
            submitted_s=index * 30.0,
        )
        for index, (name, count, priority) in enumerate(wanted)
    ]


@FEW
@given(trees(), SOME_JOBS, st.data())
def test_no_limit_is_passed_and_who_denies_has_a_reason(
    tree: dict[str, QueueRecord], wanted: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    """Gangs come and go in any order; each comes only if nobody denies it."""
    found = shares(*tree.values())
    there: list[tuple[JobRecord, int]] = []
    for record, (_, count, _) in zip(jobs_of(wanted), wanted, strict=True):
        while data.draw(st.booleans(), "one ends") and there:
            gone, held = there.pop(data.draw(st.integers(0, len(there) - 1), "which"))
            found.remove(gone, gpus(held))
        denied = found.denied(record, gpus(count))
        if denied is None:
            found.add(record, gpus(count))
            there.append((record, count))
        else:
            limiting = tree[denied.queue]
            above = [q.name for q in chain(record.spec.queue, tree)]
            assert denied.queue in above
            assert f"'{denied.queue}'" in denied.message
            assert denied.reason is Reason.LIMIT
            limits = [n for n in (limiting.limit_gpus, *limiting.limit_by_model.values()) if n]
            assert denied.never is all(count > n for n in limits if str(n) in denied.message)
        for name, stated in tree.items():
            used = sum(n for r, n in there if name in [q.name for q in chain(r.spec.queue, tree)])
            assert found.account(name).gpus == used
            assert stated.limit_gpus is None or used <= stated.limit_gpus
            assert used <= stated.limit_by_model.get("H100-80GB", 10**9)


@FEW
@given(trees(), SOME_JOBS, st.integers(0, 12))
def test_quotas_are_kept_and_owed_as_they_are_defined(
    tree: dict[str, QueueRecord], wanted: list[tuple[str, int, int]], more: int
) -> None:
    found = shares(*tree.values())
    for record, (_, count, _) in zip(jobs_of(wanted), wanted, strict=True):
        found.add(record, gpus(count))
    used = {name: found.account(name).gpus for name in NAMES}
    quotas = {
        name: {q.name: q.quota_gpus for q in chain(name, tree) if q.quota_gpus is not None}
        for name in NAMES
    }
    for name in NAMES:
        kept = found.keeps_quota(name, gpus(more))
        assert kept is (not more or all(used[up] - more >= n for up, n in quotas[name].items()))
        for other in NAMES:
            mine = {up: n for up, n in quotas[name].items() if up not in chain_names(other, tree)}
            theirs = {up: n for up, n in quotas[other].items() if up not in chain_names(name, tree)}
            is_owed = bool(mine) and all(used[up] <= n for up, n in mine.items())
            is_over = any(used[up] > n for up, n in theirs.items())
            assert found.owes(other, name) is (is_owed and is_over)


def chain_names(name: str, tree: Mapping[str, QueueRecord]) -> list[str]:
    return [queue.name for queue in chain(name, tree)]


@pytest.mark.parametrize(("short_turns", "one_by_one"), [(0, 0), (0, 3), (2, 256), (16, 256)])
@FEW
@given(tree=trees(), wanted=SOME_JOBS, placed=st.sets(st.integers(0, 29)))
def test_line_is_what_its_definition_says(
    short_turns: int,
    one_by_one: int,
    tree: dict[str, QueueRecord],
    wanted: list[tuple[str, int, int]],
    placed: set[int],
) -> None:
    """Some gangs are placed as their turn comes, which changes who is next."""
    jobs = jobs_of(wanted)
    kept, plain = shares(*tree.values()), shares(*tree.values())
    expected = _plain_line(jobs, plain, placed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_module, "SHORT_TURNS", short_turns)
        patch.setattr(line_module, "MERGED_ONE_BY_ONE", one_by_one)
        found = []
        for turn, record in enumerate(line(reversed(jobs), kept, Policy(), 0.0)):
            found.append(record.spec.name)
            if turn in placed:
                kept.add(record, gpus(record.spec.gpu_count))
    assert found == expected


def _plain_line(jobs: list[JobRecord], shares_: Shares, placed: set[int]) -> list[str]:
    """By the words of the definition, in the slowest way."""
    left, out = list(jobs), list[str]()
    while left:
        top = max(record.spec.priority for record in left)
        chosen = _next_of([r for r in left if r.spec.priority == top], None, shares_)
        left.remove(chosen)
        if len(out) in placed:
            shares_.add(chosen, gpus(chosen.spec.gpu_count))
        out.append(chosen.spec.name)
    return out


def _next_of(jobs: list[JobRecord], above: str | None, shares_: Shares) -> JobRecord:
    """The first of jobs that all stand in the tree below one queue; None = in any tree."""
    chains = shares_.accounts.chains
    own = [r for r in jobs if r.spec.queue == above]
    if own:
        return min(own, key=lambda r: r.age)
    by_branch: dict[str, list[JobRecord]] = {}
    for record in jobs:
        names_up = chains[record.spec.queue]
        at = len(names_up) - 1 if above is None else names_up.index(above) - 1
        by_branch.setdefault(names_up[at], []).append(record)
    heads = {name: _next_of(below, name, shares_) for name, below in by_branch.items()}
    return heads[min(heads, key=lambda name: (shares_.rank(name), heads[name].age))]


@FEW
@given(trees(), SOME_JOBS, st.randoms(use_true_random=False))
def test_line_does_not_depend_on_the_order_of_its_jobs(
    tree: dict[str, QueueRecord], wanted: list[tuple[str, int, int]], random: object
) -> None:
    jobs = jobs_of(wanted)
    shuffled = list(jobs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' own kind of Random
    for policy in POLICIES:
        lines = (line(r, shares(*tree.values()), policy, 0.0) for r in (jobs, shuffled))
        first, second = map(names, lines)
        assert first == second
        assert sorted(first) == sorted(record.spec.name for record in jobs)


@FEW
@given(trees(), SOME_JOBS, st.data())
def test_kept_lines_equal_new_ones_after_any_change(
    tree: dict[str, QueueRecord], wanted: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    """Jobs change queue, priority and state, some of them only within the cycle."""
    world = world_with(*tree.values())
    for record in jobs_of(wanted):
        world.put_job(record)
    for policy in POLICIES:
        line_of(world, world.jobs, {}, shares_of(world), policy)
    changed = {}
    for record in list(world.jobs.values()):
        if not data.draw(st.booleans()):
            continue
        state = data.draw(st.sampled_from((JobState.PENDING, JobState.RUNNING, JobState.RESERVED)))
        spec = replace(
            record.spec,
            queue=data.draw(st.sampled_from(NAMES)),
            priority=data.draw(st.integers(0, 2)),
        )
        new = replace(record, state=state, spec=spec, held=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            world.put_job(new)
        else:
            changed[record.uid] = new
    now = world.jobs | changed
    for policy in POLICIES:
        kept = names(line_of(world, now, changed, shares_of(world), policy))
        assert kept == names(line(now.values(), shares_of(world), policy, 0.0))


@FEW
@given(st.data())
def test_use_of_queues_equals_the_sum_of_their_live_pods(data: st.DataObject) -> None:
    """Pods come, stop and end; queues move; jobs end before their pods do."""
    world = world_with(*(queue(name) for name in NAMES))
    nodes = [record.name for record in world.topology.nodes]
    at: dict[PodId, str] = {}
    for step in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(("start", "stop", "tree", "end")))
        free = sorted(set(nodes) - {pod.node for pod in world._held.values()})
        if action == "start" and free:
            record = job(f"j{step}", data.draw(st.sampled_from(NAMES)))
            run(world, record, free[0])
            at[PodId(f"j{step}-{free[0]}-255")] = record.spec.queue
        elif action == "stop" and world._held:
            pod = world._held[data.draw(st.sampled_from(sorted(world._held)))]
            state = data.draw(st.sampled_from((PodState.TERMINATING, PodState.STOPPED)))
            world.put_pod(replace(pod, state=state))
        elif action == "end" and world.jobs:
            uid = data.draw(st.sampled_from(sorted(world.jobs)))
            world.put_job(replace(world.jobs[uid], state=JobState.CANCELLED))
        else:
            parents = [None, *NAMES]
            world.set_queues(
                queue(name, data.draw(st.sampled_from(parents[: index + 1])))
                for index, name in enumerate(NAMES)
            )
        expected = dict.fromkeys((*NAMES, "default"), 0)
        for pod in world._held.values():
            for name in world.accounts.chains[at[pod.uid]]:
                expected[name] += 8
        assert {name: a.gpus for name, a in world.accounts.total.items()} == expected


@FEW
@given(
    st.lists(st.floats(0.1, 8.0), min_size=2, max_size=6),
    st.lists(st.sampled_from((1, 2, 4, 8)), min_size=2, max_size=6),
)
def test_fair_share_fills_a_cluster_by_weight(weights: list[float], sizes: list[int]) -> None:
    """Each queue has more gangs of its size than fit: when the cluster is full, no queue is ahead
    of another by more than the gang that it got last."""
    queues = [queue(f"q{i}", weight=weight) for i, weight in enumerate(weights)]
    size_of = {q.name: sizes[i % len(sizes)] for i, q in enumerate(queues)}
    found = shares(*queues)
    jobs = [
        job(f"{q.name}-{n}", q.name, gpus=size_of[q.name], age=n * 10 + i)
        for n in range(64)
        for i, q in enumerate(queues)
    ]
    free = 64
    for record in line(jobs, found, Policy(), 0.0):
        size = record.spec.gpu_count
        if size > free:
            break
        found.add(record, gpus(size))
        free -= size
    for ahead in queues:
        for behind in queues:
            before = found.account(ahead.name).gpus - size_of[ahead.name]
            assert before / 64 / ahead.weight <= found.share(behind.name) + 1e-12


@FEW
@given(
    st.lists(st.tuples(st.floats(1, 1e5), st.floats(0, 1e5)), min_size=2, max_size=20),
    st.sampled_from((0.05, 0.2, 1.0, 7.0)),
)
def test_shortest_first_overtakes_nobody_for_longer_than_it_says(
    wanted: list[tuple[float, float]], ageing: float
) -> None:
    """Who was submitted later than a gang's run time / ageing after it, goes behind it."""
    jobs = [
        job(f"j{index}", duration_s=duration_s, submitted_s=submitted_s, age=index + 1)
        for index, (duration_s, submitted_s) in enumerate(wanted)
    ]
    policy = Policy(order="shortest_first", ageing=ageing)
    found = list(line(jobs, shares(), policy, 0.0))
    for place, record in enumerate(found):
        bound_s = record.submitted_s + (record.spec.duration_s or 0.0) / ageing
        for earlier in found[:place]:
            assert earlier.submitted_s <= bound_s * (1 + 1e-9)


def test_long_job_starts_in_time_behind_an_endless_flow_of_short_ones() -> None:
    """One place; a job of 1,000 s at second 0, and a job of 10 s every 10 s. At ageing 0.5 its due
    time is 2,000; that of the job submitted at 1,980 is the same, and the long one is older."""
    policy = Policy(order="shortest_first", ageing=0.5)
    waiting = [job("long", duration_s=1_000.0)]
    now_s, count = 0.0, 0
    while True:
        waiting.append(job(f"s{count}", duration_s=10.0, submitted_s=now_s, age=count + 2))
        first = next(line(waiting, shares(), policy, now_s))
        if first.spec.name == "long":
            break
        waiting.remove(first)
        now_s, count = now_s + 10.0, count + 1
        assert now_s <= 2_000.0
    assert now_s == 1_980.0


CHANGES = st.tuples(
    st.sampled_from(NAMES),
    st.none() | st.sampled_from(NAMES),
    st.none() | st.integers(0, 16),
    st.none() | st.integers(0, 32),
    st.just({}) | st.just({"X": 4}),
)


@FEW
@given(st.lists(CHANGES, max_size=40))
def test_tree_that_was_let_in_keeps_every_promise(
    changes: list[tuple[str, str | None, int | None, int | None, Mapping[str, int]]],
) -> None:
    """Queues are made and changed at random; what is refused changes nothing."""
    tree: dict[str, QueueRecord] = {}
    for name, parent, quota, limit, by_model in changes:
        wanted = queue(name, parent, quota_gpus=quota, limit_gpus=limit, quota_by_model=by_model)
        try:
            check_queue(wanted, tree)
        except QueueError:
            continue
        tree[name] = wanted
        for found in tree.values():
            assert found.parent is None or found.parent in tree
            assert not any(up.name == found.name for up in chain(found.name, tree)[1:])
            promised = _promised(found, tree, None)
            for up in chain(found.name, tree):
                assert up.limit_gpus is None or promised <= up.limit_gpus
            below = [_promised(q, tree, None) for q in tree.values() if q.parent == found.name]
            assert found.quota_gpus is None or sum(below) <= found.quota_gpus
            of_x = [_promised(q, tree, "X") for q in tree.values() if q.parent == found.name]
            assert "X" not in found.quota_by_model or sum(of_x) <= 4


def _promised(found: QueueRecord, tree: Mapping[str, QueueRecord], model: str | None) -> int:
    below = [q for q in tree.values() if q.parent == found.name]
    if model is not None:
        own = found.quota_by_model.get(model)
    else:
        total = sum(found.quota_by_model.values())
        own = found.quota_gpus if found.quota_gpus is not None else total or None
    return own if own is not None else sum(_promised(q, tree, model) for q in below)


def test_tree_has_so_many_levels_and_no_more() -> None:
    tree: dict[str, QueueRecord] = {}
    for name, below in pairwise(_names(DEPTH_MAX + 1)):
        check_queue(queue(below, name or None), tree)
        tree[below] = queue(below, name or None)
    with pytest.raises(QueueError, match="33 levels; at most 32"):
        check_queue(queue("more", f"q{DEPTH_MAX}"), tree)


def _names(count: int) -> Iterator[str]:
    yield ""
    for number in range(1, count):
        yield f"q{number}"
