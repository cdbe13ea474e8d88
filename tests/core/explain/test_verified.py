"""Whatever is proposed works: made for real, the next cycle binds the gang."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.cluster.world import World
from scheduler.explain.answer import Answer, ChangeKind
from scheduler.explain.explain import explain
from scheduler.explain.twin import twin
from scheduler.model.job import JobSpec
from scheduler.model.placement import NoFit
from scheduler.place.admit import dry_run
from tests.core.explain.yards import make, random_gang, random_world, stop
from tests.core.gangs import cycle, submit

NOW_S = 60.0


def misfits(count: int, seed: int) -> Iterator[tuple[World, JobSpec, NoFit]]:
    """Random gangs that do not fit random worlds."""
    chance = random.Random(seed)
    while count:
        world = random_world(chance)
        for _ in range(10):
            spec = replace(random_gang(chance), priority=chance.choice([0, 0, 20]))
            found = dry_run(world, spec)
            if isinstance(found, NoFit) and count:
                count -= 1
                yield world, spec, found


def check_proposals(count: int, seed: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for number, (world, spec, verdict) in enumerate(misfits(count, seed)):
        free, aside = list(world.table.free), list(world.table.aside)
        answer = explain(world, spec, verdict, NOW_S)
        assert (world.table.free, world.table.aside) == (free, aside), "the world was left changed"
        for change in answer.changes:
            kinds[change.kind] += 1
            changed = twin(world)
            waiting = submit(changed, spec, "waiting", age=10_000, priority=spec.priority)
            make(changed, waiting, change)
            cycle(changed)
            if change.kind is ChangeKind.PREEMPT:
                # Those who leave take a while: they are told to stop, stop, and the gang starts.
                for _ in range(2):
                    stop(changed)
                    cycle(changed)
            state = changed.jobs[waiting]
            assert state.state == "bound", f"seed {seed}, case {number}: {change}: {state.message}"
        kinds["verdicts"] += 1
        kinds["without a change"] += not answer.changes
        kinds["never"] += verdict.never
        _check_that_none_was_missed(answer, world)
    return kinds


def _check_that_none_was_missed(answer: Answer, world: World) -> None:
    """Without a change, what holds the gang back is none that people could change like this."""
    if not answer.changes:
        assert answer.verdict.never or "suspect" in world.table.aside, answer.verdict.message


def test_every_change_proposed_to_100_random_misfits_makes_the_gang_fit() -> None:
    kinds = check_proposals(100, seed=11)
    assert kinds["verdicts"] == 100
    assert kinds["without a change"] <= kinds["never"]
    assert {"finish", "uncordon", "relax", "shrink", "preempt"} <= set(kinds), dict(kinds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_change_proposed_to_many_random_misfits_makes_the_gang_fit(seed: int) -> None:
    assert check_proposals(400, seed=100 + seed)["verdicts"] == 400
