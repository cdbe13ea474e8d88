"""The page of figures: one section a benchmark, the others left as they are."""

from benchmarks.harness import row
from benchmarks.performance import GOALS, HEAD, replaced, section


def test_section_shows_value_goal_floor_and_conditions() -> None:
    rows = [row("decide_64_p99_ms", 0.5, "ms", 0.25, nodes=4096)]
    text = section("placement", rows, "2026-12-01", 0.5)
    assert text.startswith("## placement\n")
    assert f"| `decide_64_p99_ms` | 0.5 ms | {GOALS['decide_64_p99_ms']} | 0.25 | 2 |" in text
    assert "nodes 4096 |" in text
    assert "0.5 other processes wanted a core" in text


def test_sections_that_are_not_measured_stay() -> None:
    page = replaced(
        replaced(HEAD, "placement", "## placement\nold\n"), "restart", "## restart\nr\n"
    )
    again = replaced(page, "placement", "## placement\nnew\n")
    assert "old" not in again
    assert again.count("## ") == 2
    assert again.endswith("## restart\nr\n")
    assert replaced(again, "placement", "## placement\nnew\n") == again
