"""`python -m benchmarks.performance NAME...` measures benchmarks and writes their tables anew.

Each has a section of its own in `docs/performance.md`; sections that are not named stay.
"""

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import Options, Row, machine

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

GOALS = {
    "decide_64_p99_ms": "<= 1",
    "decide_1024_p99_ms": "<= 10",
    "decide_8_mean_ms": "<= 0.1",
    "growth_5k_100k": "<= 1.5",
    "verdict_8k_s": "<= 1",
    "whatif_8k_s": "< 1",
    "full_pass_10k_s": "<= 1",
    "event_pass_ms": "<= 20",
    "search_ms": "<= 100",
    "cost_over_optimum": "<= 1.05",
    "submit_per_s": ">= 300",
    "submit_vs_raw": ">= 0.1",
    "bind_gangs_per_s": ">= 3,000",
    "bind_vs_raw": ">= 1",
    "submit_to_bound_p50_ms": "<= 7",
    "submit_to_bound_p99_ms": "<= 50",
    "first_placement_s": "<= 2",
    "overview_p99_ms": "<= 20",
    "overview_kb": "<= 50",
    "first_paint_s": "<= 2",
    "pan_fps": ">= 30",
    "pollers_200_core_percent": "<= 5",
    "heartbeat_cores": "<= 0.5",
    "replace_p99_s": "<= 1",
    "mass_750_s": "<= 5",
    "mass_750_held_pods": "0",
    "effective_time_gap_points": "<= 0.1",
}
"""What each figure is to be; those not here have no goal."""

HEAD = """# Performance

Every table is written by `python -m benchmarks.performance NAME`, which runs the benchmark
that it shows. A floor is the same work done in the plainest way in the same run, so that figures
of two machines compare; a ratio is value over floor.
"""


def section(name: str, rows: Sequence[Row], day: str, load: float) -> str:
    """One benchmark's heading and table.

    Args:
        load: Processes that wanted a core when it began, the benchmark itself left out.
    """
    info = machine()
    lines = [
        f"## {name}",
        "",
        f"{info['cores']} cores of {info['cpu']}, Python {info['python']}, {day}; "
        f"{load:.1f} other processes wanted a core.",
        "",
        "| what | value | goal | floor | ratio | conditions |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        said = ", ".join(f"{key} {value}" for key, value in row.conditions.items())
        cells = (
            f"`{row.what}`",
            f"{row.value:.3g} {row.unit}",
            GOALS.get(row.what, ""),
            "" if row.floor is None else f"{row.floor:.3g}",
            "" if row.ratio is None else f"{row.ratio:.3g}",
            said,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def replaced(page: str, name: str, text: str) -> str:
    """The page with one section in place of the one of that name, or after all others."""
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(page):
        # A blank line stays before the next section.
        return pattern.sub(lambda _: text + "\n", page).rstrip("\n") + "\n"
    return page.rstrip("\n") + "\n\n" + text


def main(names: Sequence[str], *, small: bool) -> int:
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else HEAD
    day = datetime.now(UTC).date().isoformat()
    for name in names:
        load = os.getloadavg()[0]
        measure = importlib.import_module(f"benchmarks.{name}").measure
        rows = list(measure(Options(frozenset(), small=small)))
        page = replaced(page, name, section(name, rows, day, load))
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance")
    parser.add_argument("names", nargs="+", help="benchmarks, as in placement")
    parser.add_argument("--size", choices=["small", "full"], default="full")
    args = parser.parse_args()
    sys.exit(main(args.names, small=args.size == "small"))
