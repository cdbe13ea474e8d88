"""Cases in which an answer was once worse than the optimum, each by its seed."""

import pytest

from tests.oracle.audit import Audit, audit, is_said
from tests.oracle.cases import rail_case, random_case
from tests.oracle.seconds import EQUAL

WIDER = {
    "second_preferred_rule_within_the_optimum_of_the_first": 485,
    "tp_over_trays_preferred_in_a_rack": 848,
    "job_preferred_in_a_supernode": 874,
    "role_preferred_in_a_leaf_and_then_on_one_node": 876,
    "tp_then_job_preferred_in_a_supernode": 889,
    "dp_of_uneven_pods_preferred_in_a_supernode": 1157,
    "ep_over_half_of_the_pipelines_preferred_in_a_leaf": 1163,
    "parts_preferred_in_a_rack_under_a_job_preferred_in_it": 1554,
    "tp_preferred_in_the_outermost_level": 1762,
    "ep_preferred_in_a_leaf_after_another_axis": 1927,
    "parts_preferred_further_out_than_one_domain_can_hold": 2013,
    "pp_tp_and_cp_preferred_in_a_leaf": 2603,
    "pp_of_uneven_pods_preferred_in_a_rack": 2767,
    "role_of_whole_nodes_preferred_on_one_node": 3108,
    "role_of_small_members_preferred_on_one_node": 3390,
    "parts_and_role_preferred_at_three_levels": 5361,
    "role_that_fits_one_leaf_only_with_more_racks": 6051,
    "parts_preferred_beside_a_preferred_job": 6111,
    "pods_of_two_sizes_on_two_node_types": 6533,
    "role_on_fewer_nodes_or_in_fewer_leaves": 6969,
    "parts_and_job_preferred_in_a_rack": 7164,
    "parts_before_their_role": 7977,
    "parts_on_the_type_whose_first_nodes_have_no_rack": 3675,
}
"""Preferred rules that touched more domains than they had to."""

SLOWER = {
    "rings_of_trays_that_cross_a_row_once_too_often": 161,
    "equal_spread_split_unevenly": 230,
    "half_used_nodes_whose_free_gpus_differ": 290,
    "second_best_order_of_stages": 541,
    "tp_over_trays_apart_from_its_experts": 875,
    "small_gain_under_a_preferred_cp": 1187,
    "pp_and_job_preferred_in_a_leaf": 1217,
    "required_cp_beside_a_wide_ep": 1246,
    "an_axis_of_size_one_preferred_in_a_rack": 1298,
    "tp_over_two_nodes_preferred_in_a_leaf": 1393,
    "required_cp_and_preferred_pp_further_out": 2510,
    "required_ep_and_pp_at_two_levels": 2995,
    "pods_of_six_gpus_on_nodes_with_six_free": 5627,
    "pairs_of_trays_over_six_supernodes": 9863,
}
"""Layouts that keep the rules as well as any but took longer than another that does."""

RAILS = {
    "stages_beside_a_dead_rail": 64,
    "required_tp_and_ep_beside_a_dead_rail": 163,
    "tp_over_trays_with_dead_rails": 756,
    "four_stages_with_dead_rails": 797,
    "stages_on_nodes_that_lost_some_rails_where_none_may_be_used": 1033,
    "pairs_on_nodes_that_lost_one_rail_where_none_may_be_used": 1118,
    "experts_beside_a_node_with_a_dead_rail": 1320,
}
"""The same among dead rails."""


@pytest.mark.parametrize("seed", WIDER.values(), ids=WIDER.keys())
def test_preferred_rules_touch_the_fewest_domains(seed: int) -> None:
    found = audit(random_case(seed))
    assert found.fault is None, found.line()
    assert found.spreads_least, found.line()


@pytest.mark.parametrize("seed", SLOWER.values(), ids=SLOWER.keys())
def test_a_layout_is_the_fastest_or_says_how_far_off_it_may_be(seed: int) -> None:
    check_seconds(audit(random_case(seed)))


@pytest.mark.parametrize("seed", RAILS.values(), ids=RAILS.keys())
def test_a_layout_among_dead_rails_is_the_fastest_or_says_how_far_off_it_may_be(seed: int) -> None:
    check_seconds(audit(rail_case(seed)))


def check_seconds(found: Audit) -> None:
    assert found.fault is None, found.line()
    over = found.over_optimum
    assert over is None or over <= EQUAL or is_said(found), found.line()
