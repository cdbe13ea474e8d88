"""The table of constants."""

from dataclasses import fields, replace

from scheduler.cost.constants import (
    CONSTANTS,
    SOURCES,
    Constants,
    changed,
    numbers,
    traffic_numbers,
)
from scheduler.cost.step import predict
from tests.core.cost.yards import job, yard


def test_every_constant_has_a_source() -> None:
    assert set(SOURCES) == {f.name for f in fields(Constants)} - {"version"}
    assert set(numbers()) == set(SOURCES) - {"traffic"}
    assert all(len(source) > 20 for source in SOURCES.values())


def test_version_of_the_table_is_in_the_answer() -> None:
    map_ = yard()
    other = replace(CONSTANTS, version="mine")
    found = predict(job(dp=2, tp=8), map_, map_.kinds[0], 8, [0, 1], constants=other)
    assert found.table_version == "mine"


def test_every_constant_can_be_changed_by_half_either_way() -> None:
    map_ = yard(leaf_uplinks=2.0)
    spec = job(tp=8, dp=4, pp=2, ep=4)
    for name in (*numbers(), *traffic_numbers()):
        for factor in (0.5, 1.5):
            table = changed(CONSTANTS, name, factor)
            assert table != CONSTANTS or name.endswith("p_overlap")  # that of tp and ep is 0
            found = predict(spec, map_, map_.kinds[0], 8, range(8), constants=table)
            assert found.inter_node_s > 0


def test_heavier_traffic_takes_longer() -> None:
    map_ = yard()
    spec = job(tp=8, dp=8)
    twice = changed(CONSTANTS, "traffic.dp_gb", 2.0)
    once_s, twice_s = (
        predict(spec, map_, map_.kinds[0], 8, range(8), constants=table).inter_node_s
        for table in (CONSTANTS, twice)
    )
    assert 1.9 * once_s < twice_s < 2 * once_s
