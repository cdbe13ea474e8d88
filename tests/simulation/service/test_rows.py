"""What the checker of plays takes for less than a gang's minimum."""

import json

import pytest

from tests.simulation.service.rows import Row, lacks

ROLE = {"name": "m", "min": 2, "parts": {"size": 2, "count": 3, "min": 1}}


def found(indices: list[int], *, starts: bool) -> list[str]:
    job: Row = {"spec": json.dumps({"roles": [ROLE]})}
    there: list[Row] = [{"role": "m", "pod_index": index} for index in indices]
    return list(lacks(job, there, starts=starts))


@pytest.mark.parametrize("starts", [True, False])
def test_whole_parts_of_the_minimum_and_more_lack_nothing(starts: bool) -> None:
    assert found([0, 1], starts=starts) == []
    assert found([0, 1, 4, 5], starts=starts) == []


def test_part_above_the_minimum_is_there_in_part_only_once_its_gang_has_started() -> None:
    assert found([0, 1, 3], starts=True) == ["has 3 members of role 'm', 1 parts"]
    assert found([0, 1, 3], starts=False) == []


def test_members_of_several_parts_are_no_whole_one() -> None:
    assert found([0, 3, 4], starts=False) == ["has 3 members of role 'm', 0 parts"]
