"""Services for tests of Volcano objects."""

import pytest

from tests.api.http.yard import Yard
from tests.api.k8s.volcano.yards import TWO_DOMAINS, VolcanoYard


@pytest.fixture
def volcano(yard: Yard) -> VolcanoYard:
    """Two tier-1 domains of four nodes, nothing on them."""
    yard.load(TWO_DOMAINS)
    return VolcanoYard(yard)
