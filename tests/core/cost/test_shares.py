"""What is left of NICs where rails are dead."""

import pytest

from scheduler.cost.constants import CONSTANTS
from scheduler.cost.shares import nic_shares
from tests.builders import make_type

EIGHT = make_type(gpus=8)


def shares(gpus: int, mask: int, dead: int) -> tuple[float, float]:
    """Of one pod: of flows that spread over its NICs, and of those that do not."""
    found = nic_shares(EIGHT, gpus, [5], [mask], {5: dead}, CONSTANTS)
    assert found is not None
    return float(found[0, 0]), float(found[1, 0])


@pytest.mark.parametrize(
    ("gpus", "mask", "dead", "left"),
    [
        (8, 0xFF, 0b1, (7 / 8, 1 / 2)),
        (8, 0xFF, 0b1111, (1 / 2, 1 / 2)),
        (8, 0xFF, 0b11111, (3 / 8, 1 / 3)),
        (4, 0x0F, 0xF0, (1.0, 1.0)),
        (4, 0xF0, 0xF0, (1 / 2, 1 / 2)),
        (2, 0b11, 0b1111111, (1 / 4, 1 / 4)),
        (8, 0xFF, 0xFF, (CONSTANTS.no_rail_share, CONSTANTS.no_rail_share)),
    ],
)
def test_pod_keeps_the_nics_that_are_left(
    gpus: int, mask: int, dead: int, left: tuple[float, float]
) -> None:
    """Two GPUs whose rails are dead share one foreign NIC, half of which is another's."""
    assert shares(gpus, mask, dead) == pytest.approx(left)


def test_dead_rails_elsewhere_are_nobodys_business() -> None:
    assert nic_shares(EIGHT, 8, [1, 2], None, {3: 1}, CONSTANTS) is None
    assert nic_shares(EIGHT, 8, [1, 2], None, {}, CONSTANTS) is None
    assert nic_shares(EIGHT, 8, [1, 2], None, None, CONSTANTS) is None


def test_each_node_has_its_own() -> None:
    found = nic_shares(EIGHT, 8, [1, 2], None, {2: 0b11}, CONSTANTS)
    assert found is not None
    assert found[0].tolist() == [1.0, 6 / 8]
