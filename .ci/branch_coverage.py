"""Holds the share of branches taken to a floor of its own.

coverage.py's total mixes lines and branches, and lines are the easier part.

    python .ci/branch_coverage.py COVERAGE_JSON PERCENT_MIN
"""

import json
import sys
from pathlib import Path


def main() -> int:
    """Print the share; 1 if it is below the floor."""
    report, percent_min = Path(sys.argv[1]), float(sys.argv[2])
    totals = json.loads(report.read_text())["totals"]
    taken, there = totals["covered_branches"], totals["num_branches"]
    percent = 100.0 * taken / there if there else 100.0
    print(f"branches: {taken} of {there} taken, {percent:.2f} % (at least {percent_min:g} %)")
    return int(percent < percent_min)


if __name__ == "__main__":
    sys.exit(main())
