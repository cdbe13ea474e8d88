"""How often a placement is the best there is: random small clusters against the exact oracle.

The floor is the oracle itself, which is 1 by its nature. The oracle is a part of the tests and
needs what they need.
"""

from collections.abc import Iterator

from benchmarks.harness import Options, Row, row
from tests.oracle.audit import audit_seed, tally

ROWS = ("optimal_spread_share", "optimal_time_share", "worst_over_optimum")

CASES, SMALL_CASES = 2_000, 100


def rows(options: Options) -> Iterator[Row]:
    """Shares of the cases that have a preferred rule, or more than one node to talk between."""
    if not options.wants(*ROWS):
        return
    cases = SMALL_CASES if options.small else CASES
    found = tally([audit_seed(seed) for seed in range(cases)])
    said = {
        "cases": found.cases,
        "fitting": found.fitting,
        "wrong_verdicts_or_answers": len(found.faults),
    }
    yield row(
        "optimal_spread_share", found.optimal_spread_share, "share", 1.0, ruled=found.ruled, **said
    )
    yield row(
        "optimal_time_share",
        found.optimal_time_share,
        "share",
        1.0,
        timed=found.timed,
        not_judged=found.unjudged,
        equal_within=0.01,
        **said,
    )
    yield row(
        "worst_over_optimum",
        found.worst_over_optimum,
        "ratio",
        1.0,
        timed=found.timed,
        not_said_in_the_answer=len(found.unsaid),
        **said,
    )
