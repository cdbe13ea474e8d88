import os
import pytest
from tests.crash.test_kill import rounds_of_kills

@pytest.mark.timeout(560)
def test_many_rounds_now(database_url, tmp_path):
    rounds_of_kills(database_url, tmp_path / "log", 60, int(os.environ["S"]))
