"""Bytes per step and axis, against sums done by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.job import HEAVY_FIRST, JobSpec, ModelShape, ParallelSizes, Role
from scheduler.parallel.traffic import TRAFFIC_DEFAULTS, AxisTraffic, traffic_of

SMALL = ModelShape(
    params=1e9, layers=8, hidden=100, seq=1_000, micro_batch=2, global_batch=64, dtype="bf16"
)
"""Activations of one micro-batch: 2 x 1,000 tokens x 100 wide x 2 bytes = 400,000 bytes."""


def spec(
    model: ModelShape | None = SMALL, weights: dict[str, float] | None = None, **sizes: int
) -> JobSpec:
    return JobSpec(
        name="a",
        parallelism=ParallelSizes(**sizes),  # type: ignore[arg-type]  # sizes by name
        model=model,
        axis_weights=weights or {},
    )


def axis(name: str, job: JobSpec) -> AxisTraffic:
    return traffic_of(job)[name]


def test_tp_carries_four_pairs_of_collectives_per_layer_and_micro_batch() -> None:
    """dp 4 x micro-batch 2 leave 64 / 8 = 8 micro-batches; pp 2 leaves 4 layers a stage.

    32 passes x 4 pairs = 128 calls; each sends 2 x 3/4 x 400,000 = 600,000 bytes per rank.
    """
    found = axis("tp", spec(tp=4, dp=4, pp=2))
    assert found.bytes_per_step == pytest.approx(128 * 600_000)
    assert found.flows[0].calls == 128
    assert found.messages_per_step == 128 * 2 * 3
    assert not found.assumed


def test_pp_carries_activations_one_way_and_gradients_the_other() -> None:
    """8 micro-batches, 400,000 bytes cut over tp 4: 100,000 bytes forward, as many back."""
    assert axis("pp", spec(tp=4, dp=4, pp=4)).bytes_per_step == pytest.approx(8 * 2 * 100_000)


def test_pp_of_two_stages_sends_one_way_from_each() -> None:
    assert axis("pp", spec(tp=4, dp=4, pp=2)).bytes_per_step == pytest.approx(8 * 100_000)


def test_dp_carries_gradients_in_fp32_and_parameters_in_bf16() -> None:
    """1e9 / (4 x 2) = 125e6 parameters of a rank; 3/4 of them x (4 + 2) bytes.

    125e6 / 40e6 = 4 buckets; each a ring of 3 steps for either half.
    """
    found = axis("dp", spec(tp=4, dp=4, pp=2))
    assert found.bytes_per_step == pytest.approx(0.75 * 125e6 * 6)
    assert found.messages_per_step == 4 * 2 * 3


def test_cp_sends_keys_and_values_round_a_ring_and_their_gradients_back() -> None:
    """cp 2 halves the tokens: 200,000 bytes, over tp 4 keys and values of 100,000 together.

    8 layers x 8 micro-batches = 64 passes x 1 step x 3 = 192 times 100,000 bytes.
    """
    found = axis("cp", spec(tp=4, cp=2, dp=4))
    assert found.bytes_per_step == pytest.approx(192 * 100_000)
    assert found.messages_per_step == 192


def test_gradients_of_dp_are_reduced_over_cp_too() -> None:
    """The ring is over cp x dp = 8 ranks: 7/8 of 250e6 parameters x 6 bytes."""
    found = axis("dp", spec(tp=4, cp=2, dp=4))
    assert found.flows[0].over == ("cp", "dp")
    assert found.bytes_per_step == pytest.approx(7 / 8 * 250e6 * 6)


def test_cp_carries_the_gradients_where_there_is_no_dp() -> None:
    alone = axis("cp", spec(tp=4, cp=2))
    assert [flow.collective for flow in alone.flows] == ["ring", "reduce_scatter+all_gather"]


EXPERTS = replace(SMALL, experts=8, top_k=2)
"""Attention: 4 x 8 layers x 100^2 = 320,000 parameters; the rest of 1e9 are in experts."""


def test_ep_sends_each_token_to_its_experts_and_back_in_both_passes() -> None:
    """8 layers x 8 micro-batches x 4 all-to-alls; 2 experts x 400,000 / tp 4 = 200,000 bytes."""
    found = axis("ep", spec(EXPERTS, tp=4, dp=4, ep=4))
    assert found.bytes_per_step == pytest.approx(64 * 4 * 3 / 4 * 200_000)
    assert found.collective == "all_to_all"


def test_dense_and_expert_gradients_go_over_groups_of_their_own() -> None:
    """World 16: etp 1 x ep 4 leave edp 4. Experts: (1e9 - 320,000) / 4 parameters a rank."""
    dense, experts = axis("dp", spec(EXPERTS, tp=4, dp=4, ep=4)).flows
    assert (dense.over, dense.expert, dense.size) == (("dp",), False, 4)
    assert (experts.over, experts.expert, experts.size) == (("dp",), True, 4)
    assert dense.sent_bytes == pytest.approx(0.75 * 320_000 / 4 * 6)
    assert experts.sent_bytes == pytest.approx(0.75 * (1e9 - 320_000) / 4 * 6)


def test_feed_forward_half_of_a_layer_of_experts_leaves_tp() -> None:
    dense, experts = (axis("tp", spec(m, tp=4, dp=4, ep=1)) for m in (SMALL, EXPERTS))
    alone = axis("tp", spec(EXPERTS, tp=4, dp=4, ep=4))
    assert alone.bytes_per_step == dense.bytes_per_step / 2
    assert experts.bytes_per_step == dense.bytes_per_step  # etp is tp where ep is 1


def test_smaller_numbers_carry_fewer_bytes() -> None:
    half = axis("tp", spec(replace(SMALL, dtype="fp8"), tp=4, dp=4))
    assert half.bytes_per_step == axis("tp", spec(tp=4, dp=4)).bytes_per_step / 2


def test_unknown_batch_is_assumed_and_dp_does_not_rest_on_it() -> None:
    """4 micro-batches per stage x pp 2 = 8."""
    found = traffic_of(spec(replace(SMALL, global_batch=None), tp=4, dp=4, pp=2))
    assert {name: item.assumed for name, item in found.items()} == {
        "tp": True,
        "dp": False,
        "pp": True,
    }
    assert found["tp"].bytes_per_step == axis("tp", spec(tp=4, dp=4, pp=2)).bytes_per_step


def test_without_a_model_axes_weigh_as_stated_and_say_so() -> None:
    found = traffic_of(spec(None, tp=2, cp=2, dp=2, pp=2, ep=2))
    by_weight = sorted(found, key=lambda name: -found[name].bytes_per_step)
    assert by_weight == list(HEAVY_FIRST)
    assert all(item.assumed for item in found.values())


@pytest.mark.parametrize(("heavy", "light"), [("dp", "pp"), ("pp", "dp")])
def test_weights_without_a_model_are_the_bytes(heavy: str, light: str) -> None:
    """tp 8, pp 4, dp 8 where one axis carries 10x the bytes of the other."""
    found = traffic_of(spec(None, {heavy: 10, light: 1}, tp=8, pp=4, dp=8))
    assert found[heavy].bytes_per_step == 10e9
    assert found[light].bytes_per_step == 1e9
    assert found["tp"].bytes_per_step == 1e9 * TRAFFIC_DEFAULTS.tp_gb


def test_weights_with_a_model_are_factors() -> None:
    plain, weighted = (traffic_of(spec(SMALL, w, tp=4, dp=4, pp=2)) for w in ({}, {"dp": 3.0}))
    assert weighted["dp"].bytes_per_step == 3 * plain["dp"].bytes_per_step
    assert weighted["tp"] == plain["tp"]


def test_job_of_roles_has_no_traffic() -> None:
    assert traffic_of(JobSpec(name="a", roles=(Role("w", 4, 4),))) == {}


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2, 4]),
    dp=st.sampled_from([1, 2, 3, 8]),
    pp=st.sampled_from([1, 2, 4]),
    ep=st.sampled_from([1, 2, 4]),
    model=st.sampled_from([None, SMALL, EXPERTS]),
)
def test_every_axis_above_one_carries_bytes_and_no_other(
    tp: int, cp: int, dp: int, pp: int, ep: int, model: ModelShape | None
) -> None:
    found = traffic_of(spec(model, tp=tp, cp=cp, dp=dp, pp=pp, ep=ep))
    sizes = {"tp": tp, "cp": cp, "ep": ep, "dp": dp, "pp": pp}
    assert set(found) == {name for name, size in sizes.items() if size > 1}
    for item in found.values():
        assert item.bytes_per_step > 0
        assert item.messages_per_step > 0
        assert item.bytes_per_step == sum(flow.sent_bytes for flow in item.flows)
        assert 0 <= item.overlap < 1
