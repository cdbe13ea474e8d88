"""What a node's health follows from, what codes ask for, and who is a lemon."""

from dataclasses import replace

import pytest

from scheduler.model.node import Health
from scheduler.model.standing import (
    PLAIN,
    Drain,
    FaultAction,
    NodeFault,
    NodeStanding,
    aside_of,
    standing_of_word,
)
from scheduler.policy import Policy, PolicyError
from scheduler.recover.breaker import breaker_of
from scheduler.recover.codes import CODES, code_of_xid
from scheduler.recover.health import Heard, Verdict, health_of
from scheduler.recover.lemons import drains_domain, is_lemon, quarantined_until_s

H = Health


def fault(code: str, id_: int = 1) -> NodeFault:
    return NodeFault(id_, code, 0.0, CODES[code].action)


@pytest.mark.parametrize(
    ("heard", "was", "expected"),
    [
        (Heard.NONE, H.HEALTHY, H.HEALTHY),
        (Heard.HEARD, H.SUSPECT, H.HEALTHY),
        (Heard.SUSPECT, H.HEALTHY, H.SUSPECT),
        (Heard.SUSPECT, H.LOST, H.LOST),
        (Heard.LOST, H.SUSPECT, H.LOST),
        (Heard.HEARD, H.LOST, H.HEALTHY),
        (Heard.NONE, H.OUT, H.HEALTHY),
        (Heard.NONE, H.LOST, H.HEALTHY),
    ],
)
def test_health_follows_silence_when_there_is_no_fault(
    heard: Heard, was: Health, expected: Health
) -> None:
    assert health_of((), heard, was).health is expected


def test_a_machine_that_is_gone_is_lost_and_fenced_whatever_is_heard() -> None:
    for heard in Heard:
        found = health_of([fault("node_lost")], heard, H.HEALTHY)
        assert found == Verdict(H.LOST, "fault node_lost", fenced=True)


def test_a_machine_that_is_no_use_is_out_until_its_fault_is_cleared() -> None:
    assert health_of([fault("xid_79")], Heard.HEARD, H.HEALTHY).health is H.OUT
    assert not health_of([fault("xid_79")], Heard.HEARD, H.HEALTHY).fenced
    assert health_of((), Heard.HEARD, H.OUT).health is H.HEALTHY


def test_a_node_with_pods_that_should_not_run_stays_lost_until_they_are_gone() -> None:
    assert health_of((), Heard.HEARD, H.LOST, is_clean=False).health is H.LOST
    assert health_of((), Heard.HEARD, H.LOST, is_clean=True).health is H.HEALTHY


def test_a_fence_alone_brings_nobody_back() -> None:
    found = health_of((), Heard.LOST, H.LOST, fenced=True)
    assert (found.health, found.fenced) == (H.LOST, True)


def test_a_node_to_be_reset_is_drained_then_tested_then_used() -> None:
    these = [fault("ecc_dbe")]
    full = health_of(these, Heard.HEARD, H.HEALTHY, is_empty=False)
    assert (full.health, full.drain) == (H.HEALTHY, True)
    empty = health_of(these, Heard.HEARD, H.HEALTHY, is_empty=True)
    assert (empty.health, empty.drain) == (H.TESTING, True)
    assert health_of(these, Heard.HEARD, H.TESTING, passed=True).health is H.HEALTHY
    assert health_of((), Heard.NONE, H.TESTING).health is H.HEALTHY


def test_notes_and_restarts_leave_a_node_in_use() -> None:
    for code in ("xid_63", "xid_13", "rail_down"):
        assert health_of([fault(code)], Heard.HEARD, H.HEALTHY) == Verdict(H.HEALTHY)


def test_the_first_fault_of_the_worst_kind_is_told() -> None:
    these = [fault("ecc_dbe", 1), fault("xid_79", 2), replace(fault("xid_79", 3), detail="GPU 3")]
    assert health_of(these, Heard.HEARD, H.HEALTHY).why == "fault xid_79"


def test_every_code_says_what_it_is_and_where_that_comes_from() -> None:
    for name, code in CODES.items():
        assert code.name == name
        assert code.words
        assert code.source
        assert not code.machine_gone or code.action is FaultAction.REPLACE
        assert code.deadline_s is None or code.action is FaultAction.DRAIN_RESET
    assert code_of_xid(79) is CODES["xid_79"]
    assert code_of_xid(999).action is FaultAction.NOTE


def test_why_a_node_is_set_aside_is_told_by_its_health_first() -> None:
    standing = NodeStanding(cordoned=True, drain=Drain())
    assert aside_of(standing, 0.0) == "draining"
    assert aside_of(replace(standing, health=H.SUSPECT), 0.0) == "suspect"
    assert aside_of(replace(standing, drain=None), 0.0) == "cordoned"
    assert aside_of(NodeStanding(quarantined_until_s=5.0), 4.0) == "quarantined"
    assert aside_of(NodeStanding(quarantined_until_s=5.0), 5.0) is None
    for word in ("lost", "out", "testing", "suspect", "draining", "cordoned"):
        assert aside_of(standing_of_word(word), 0.0) == word
    assert standing_of_word(None) == PLAIN


def test_the_breaker_counts_failures_of_the_window_since_its_reset() -> None:
    gone = [NodeStanding(H.LOST, since_s=at_s) for at_s in (100.0, 500.0, 550.0)]
    policy = Policy(breaker_share=0.2)
    assert not breaker_of(gone, 15, policy, 600.0).is_tripped
    found = breaker_of(gone, 10, policy, 600.0)
    assert (found.failing, found.is_tripped, found.closes_s) == (3, True, 700.0)
    assert not breaker_of(gone, 10, policy, 701.0).is_tripped
    assert not breaker_of(gone, 10, replace(policy, breaker_reset_s=520.0), 600.0).is_tripped
    assert not breaker_of(gone, 3, replace(policy, breaker_share=1.0), 600.0).is_tripped
    assert "3 of 10 nodes" in found.words


def test_a_lemon_has_far_more_faults_than_its_like() -> None:
    policy = Policy(lemon_faults=3, lemon_factor=5.0)
    assert not is_lemon(2, 2, 100, policy)
    assert is_lemon(3, 30, 100, policy)
    assert not is_lemon(3, 300, 100, policy)
    assert is_lemon(3, 3, 1, policy)


def test_a_node_that_comes_and_goes_is_kept_out_for_longer_each_time() -> None:
    policy = Policy(flap_count=3, flap_window_s=100.0, quarantine_s=60.0)
    assert quarantined_until_s([0.0, 50.0], 0, policy, 60.0) is None
    assert quarantined_until_s([10.0, 50.0, 60.0], 0, policy, 60.0) == 120.0
    assert quarantined_until_s([10.0, 50.0, 60.0], 2, policy, 60.0) == 300.0
    assert quarantined_until_s([10.0, 50.0, 60.0], 99, policy, 60.0) == 60.0 + 7 * 86_400.0
    off = replace(policy, quarantine_s=0.0)
    assert quarantined_until_s([10.0, 50.0, 60.0], 0, off, 60.0) is None


def test_several_bad_nodes_drain_their_scale_up_domain() -> None:
    policy = Policy(escalate_nodes=3)
    assert not drains_domain(2, 18, policy)
    assert drains_domain(3, 18, policy)
    assert drains_domain(2, 2, policy)
    assert not drains_domain(1, 1, policy)
    assert not drains_domain(18, 18, replace(policy, escalate_nodes=0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("breaker_window_s", 0.0),
        ("breaker_reset_s", -1.0),
        ("crash_loop_s", -1.0),
        ("lemon_faults", 0),
        ("lemon_factor", 0.0),
        ("flap_count", 1),
        ("escalate_nodes", -1),
        ("spare_pool", {"leaf": -1}),
    ],
)
def test_a_tunable_outside_its_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(PolicyError, match=name):
        Policy(**{name: value})  # type: ignore[arg-type]  # by name
