"""For how long agents were silent, and what does not count; without a database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.loop.silence import Look, Own, SilenceClock
from api.store.leases import Lease
from api.store.silence import Silent
from scheduler.model.node import Health
from scheduler.policy import Policy
from scheduler.recover.health import Heard

POLICY = Policy(suspect_after_s=30, lost_after_s=300, breaker_share=0.2)
BEGAN_S = 1_000.0


def agent(node: str, seen_s: float, health: Health = Health.HEALTHY, since_s: float = 0.0) -> Lease:
    return Lease(node, seen_s, health, since_s)


def cluster(seen_s: float, *, silent: int = 0, count: int = 10, at_s: float = 0.0) -> list[Lease]:
    """Agents heard at `seen_s`, of which the first few fell silent at `at_s`."""
    return [agent(f"n{i}", at_s if i < silent else seen_s) for i in range(count)]


def judged(clock: SilenceClock, found: list[Lease], now_s: float) -> dict[str, Heard]:
    return {node: said.heard for node, said in clock.look(found, POLICY, now_s).silent.items()}


def test_agent_is_suspect_and_then_lost_when_it_was_silent_for_so_long() -> None:
    clock = SilenceClock(BEGAN_S)
    at = BEGAN_S + 100
    assert judged(clock, cluster(at + 29, silent=1, at_s=at), at + 29.9) == {}
    assert judged(clock, cluster(at + 30, silent=1, at_s=at), at + 30) == {"n0": Heard.SUSPECT}
    still_suspect = [agent("n0", at, Health.SUSPECT), *cluster(at + 299)[1:]]
    assert judged(clock, still_suspect, at + 299.9) == {}
    assert judged(clock, still_suspect, at + 300) == {"n0": Heard.LOST}
    gone = [agent("n0", at, Health.LOST, at + 300), *cluster(at + 400)[1:]]
    assert judged(clock, gone, at + 400) == {}


def test_nobody_was_silent_before_the_service_began() -> None:
    clock = SilenceClock(BEGAN_S)
    found = cluster(BEGAN_S - 600)
    assert judged(clock, found, BEGAN_S + 29) == {}


def test_clock_stands_still_while_too_many_are_silent() -> None:
    clock = SilenceClock(BEGAN_S)
    at = BEGAN_S + 10
    suspect = [agent(f"n{i}", at, Health.SUSPECT) for i in range(10)]
    first = clock.look(cluster(at), POLICY, at + 30)
    assert first.stands_still
    assert {said.heard for said in first.silent.values()} == {Heard.SUSPECT}
    for later_s in (100, 1_000, 100_000):
        assert judged(clock, suspect, at + later_s) == {}
    back = [agent("n0", at, Health.SUSPECT), *cluster(at + 100_000)[1:]]
    assert judged(clock, back, at + 100_001) == {}
    # 30 s had counted before it stood still, and the second until it was seen to go on did not.
    assert judged(clock, [back[0], *cluster(at + 100_270)[1:]], at + 100_270) == {}
    assert judged(clock, [back[0], *cluster(at + 100_271)[1:]], at + 100_271) == {"n0": Heard.LOST}


def test_nodes_lost_for_long_do_not_make_the_clock_stand_still_for_ever() -> None:
    clock = SilenceClock(BEGAN_S)
    dead = [agent(f"d{i}", BEGAN_S, Health.LOST, BEGAN_S + 300) for i in range(5)]
    at = BEGAN_S + 5_000
    assert judged(clock, [*dead, *cluster(at + 300, silent=1, at_s=at)], at + 300) == {
        "n0": Heard.LOST
    }
    just_now = [agent(f"d{i}", at - 400, Health.LOST, at - 100) for i in range(5)]
    fresh = SilenceClock(BEGAN_S)
    assert fresh.look([*just_now, *cluster(at)], POLICY, at).stands_still


def test_pods_guarded_by_a_longer_time_are_not_given_up_before_it() -> None:
    clock = SilenceClock(BEGAN_S)
    at = BEGAN_S + 100
    clock.lowered.append((at + 50, 300.0))
    short = Policy(suspect_after_s=30, lost_after_s=60)
    found = [agent("n0", at, Health.SUSPECT), *cluster(at + 299)[1:]]
    assert clock.look(found, short, at + 299).silent == {}
    assert clock.look(found, short, at + 300).silent == {"n0": Silent(Heard.LOST, at, 300)}
    heard_since = [agent("n0", at + 100, Health.SUSPECT), *cluster(at + 160)[1:]]
    assert clock.look(heard_since, short, at + 160).silent == {
        "n0": Silent(Heard.LOST, at + 100, 60)
    }


def test_next_look_is_when_the_first_could_be_silent_for_long_enough() -> None:
    clock = SilenceClock(BEGAN_S)
    now = BEGAN_S + 100
    found = [agent("n0", now - 4), *cluster(now)[1:]]
    assert clock.look(found, POLICY, now).next_s == now + 26
    assert clock.look([], POLICY, now).next_s == now + 30
    suspect = [agent("n0", now - 270, Health.SUSPECT), *cluster(now)[1:]]
    assert clock.look(suspect, POLICY, now).next_s == now + 30
    late = [agent("n0", now - 29.9), *cluster(now)[1:]]
    assert clock.look(late, POLICY, now).next_s == now + 1


def test_node_is_lost_for_the_least_patient_of_its_jobs_and_again_for_each_other() -> None:
    clock, at = SilenceClock(BEGAN_S), BEGAN_S + 100

    def look(silent_s: float, health: Health, passed_s: float, *own_s: float) -> Look:
        found = [agent("n0", at, health, at), *cluster(at + silent_s)[1:]]
        limits = {"n0": Own(frozenset(own_s), passed_s)}
        return clock.look(found, POLICY, at + silent_s, limits)

    assert look(59, Health.SUSPECT, 0, 60, 900).silent == {}
    assert look(59, Health.SUSPECT, 0, 60, 900).next_s == at + 60
    assert look(60, Health.SUSPECT, 0, 60, 900).silent == {"n0": Silent(Heard.LOST, at, 60)}
    assert look(299, Health.LOST, 60, 900).silent == {}
    assert look(299, Health.LOST, 60, 900).next_s == at + 300
    assert look(300, Health.LOST, 60, 900).silent == {"n0": Silent(Heard.LOST, at, 300)}
    assert look(899, Health.LOST, 300, 900).silent == {}
    assert look(5_000, Health.LOST, 300, 900).silent == {"n0": Silent(Heard.LOST, at, 5_000)}
    assert look(9_000, Health.LOST, 5_000).silent == {}
    # Nobody is lost before its node is suspect, and nothing more of one that is out.
    assert look(20, Health.HEALTHY, 0, 5).silent == {}
    assert look(5_000, Health.OUT, 0, 5).silent == {}


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(0, 10)), min_size=1, max_size=30),
    st.floats(0.05, 1.0),
)
def test_lost_agent_was_silent_for_long_enough_whatever_stood_still(
    steps: list[tuple[float, int]], share: float
) -> None:
    """Time goes on by each step, and that many of ten agents were silent since the beginning."""
    policy = Policy(suspect_after_s=30, lost_after_s=90, breaker_share=share)
    clock = SilenceClock(0.0)
    now, counted = 0.0, 0.0
    stood = False
    for step, silent in steps:
        now += step
        counted += 0.0 if stood else step
        found = [agent(f"n{i}", 0.0 if i < silent else now) for i in range(10)]
        look = clock.look(found, policy, now)
        stood = look.stands_still
        lost = [node for node, said in look.silent.items() if said.heard is Heard.LOST]
        assert bool(lost) == (silent > 0 and counted >= 90) or counted == pytest.approx(90)
