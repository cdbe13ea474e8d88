"""`yardctl placement`: the price beside the map, and every format."""

import pytest

from client.shapes import Placement
from tests.client.fake_server import Answer, FakeServer
from tests.client.golden_text import Yardctl
from tests.client.sample import make_placement

PATH = "/v1/namespaces/research/jobs/llama-70b/placement"


def priced(*, assumed: bool = False, regret: float | None = 1.25) -> Placement:
    found = make_placement(4)
    found["groups"]["pp"] |= {
        "bytes_per_step": 1.074e9,
        "seconds": 0.0234,
        "exposed_s": 0.0117,
        "bottleneck": "leaf",
    }
    found["inter_node_s"] = 0.1402
    found["assumed"] = assumed
    found["cost_table"] = "2026-12-01"
    found["regret"] = regret
    return found


def test_price_of_a_place_is_told_with_its_table(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.replies["GET", PATH] = Answer(priced())
    lines = yardctl("placement", "research/llama-70b").stdout.splitlines()
    assert "between nodes: 140.2 ms a step, by table 2026-12-01" in lines
    assert "regret: 1.25" in lines
    heading, tp, pp = (line.split() for line in lines[-3:])
    assert heading[-4:] == ["MB/STEP", "MS/STEP", "EXPOSED", "BOTTLENECK"]
    assert tp[-4:] == ["-"] * 4
    assert pp[-4:] == ["1074", "23.4", "11.7", "leaf"]


def test_assumed_price_says_what_would_make_it_real(cluster: FakeServer, yardctl: Yardctl) -> None:
    cluster.replies["GET", PATH] = Answer(priced(assumed=True, regret=None))
    found = yardctl("placement", "research/llama-70b").stdout
    assert "(assumed; state `model` for real bytes)" in found
    assert "regret" not in found


@pytest.mark.parametrize(
    "format", ["torchrun", "hostfile", "rankfile", "slurm", "megatron", "nccl"]
)
def test_every_format_is_asked_for_by_name(
    server: FakeServer, yardctl: Yardctl, format: str
) -> None:
    server.replies["GET", PATH] = Answer({"job": "research/llama-70b"})
    assert yardctl("placement", "research/llama-70b", "--format", format).exit_code == 0
    assert server.requests[0].query == {"format": format}
