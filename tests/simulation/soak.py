"""A million steps of storms, a part at a time, with one line that says how far it has come.

    python -m tests.simulation.soak                     all 100 storms, one after the other
    python -m tests.simulation.soak --part 3 --of 10    storms 30 to 39
    python -m tests.simulation.soak --total             what the parts have come to

Each storm that ends is a line of a tally file, which parts share. Storms of an earlier state of
the source are kept in it, told apart by a fingerprint, and not counted. A broken promise is told
with its seed, counted, and makes the exit status 1; the other storms go on.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import repeat
from pathlib import Path

from scheduler.errors import InvariantError, SchedulerError
from scheduler.sim.storm import storm
from tests.simulation.clusters import cluster_of

ROOT = Path(__file__).parents[2]
SEEDS = range(5_000, 5_100)
JOBS = 1_100
"""A storm of so many jobs makes at least 10,000 steps; 100 of them are 10^6."""

STEPS_MOST = 50
"""For each job: beyond that a storm does not end."""

TALLY = ROOT / ".storms.jsonl"


@dataclass(frozen=True, slots=True)
class Blown:
    """What became of one storm.

    Attributes:
        source: Fingerprint of the scheduler and the storm.
        happened: Kind of incident -> how many.
        broken: What promise it broke, in words; "" = none.
        took_s: Seconds of processor time.
    """

    source: str
    seed: int
    jobs: int
    steps: int
    happened: dict[str, int] = field(default_factory=dict)
    broken: str = ""
    took_s: float = 0.0


def blow(seed: int, source: str, jobs: int = JOBS) -> Blown:
    """One storm to its end, by the source that this fingerprint is of."""
    began_s = time.process_time()
    found = storm(cluster_of(seed), seed, jobs)
    broken = ""
    try:
        found.engine.run(max_steps=STEPS_MOST * jobs)
        found.checks.finished(found.engine.world)
        if found.engine.world.jobs:
            broken = f"{len(found.engine.world.jobs)} jobs never ended"
    except (InvariantError, SchedulerError) as error:
        broken = f"{type(error).__name__}: {error}"
    stats = found.engine.stats
    return Blown(
        source,
        seed,
        jobs,
        stats.steps,
        {kind.value: count for kind, count in sorted(found.happened.items())},
        broken,
        round(time.process_time() - began_s, 1),
    )


def fingerprint() -> str:
    """Of every source file that a storm runs through."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "scheduler").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def part(number: int, of: int) -> Sequence[int]:
    """The seeds of one part; all parts together are all seeds, each once."""
    return SEEDS[len(SEEDS) * number // of : len(SEEDS) * (number + 1) // of]


def read(path: Path) -> list[Blown]:
    """What a tally holds; none where there is none."""
    if not path.exists():
        return []
    return [Blown(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def add(path: Path, blown: Blown) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(blown)) + "\n")


def total(found: Iterable[Blown], source: str) -> str:
    """The line: steps, storms, broken promises, and what happened meanwhile."""
    by_seed = {blown.seed: blown for blown in found if blown.source == source}
    steps = sum(blown.steps for blown in by_seed.values())
    broken = sum(bool(blown.broken) for blown in by_seed.values())
    happened: dict[str, int] = {}
    for blown in by_seed.values():
        for kind, count in blown.happened.items():
            happened[kind] = happened.get(kind, 0) + count
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(happened.items()))
    left = len(SEEDS) - len(by_seed)
    rest = f"; {left} storms of {len(SEEDS)} are still to come" if left else ""
    during = f" ({told})" if told else ""
    return (
        f"{steps:,} steps in {len(by_seed)} storms{during}, {broken} broken promises,"
        f" source {source}{rest}"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run a part, or tell what has been run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak")
    parser.add_argument("--part", type=int, default=0, help="which part, from 0 on")
    parser.add_argument("--of", type=int, default=1, help="into how many parts it is split")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--tally", type=Path, default=TALLY)
    parser.add_argument("--total", action="store_true", help="run nothing; tell the total")
    args = parser.parse_args(words)
    if not 1 <= args.of <= len(SEEDS) or not 0 <= args.part < args.of:
        parser.error(f"--part lies in 0 to --of - 1, --of in 1 to {len(SEEDS)}")
    source = fingerprint()
    if not args.total:
        run_part(part(args.part, args.of), args.tally, source, args.processes)
    found = read(args.tally)
    print(total(found, source))  # noqa: T201  the command's answer
    return int(any(blown.broken for blown in found if blown.source == source))


def run_part(seeds: Sequence[int], tally: Path, source: str, processes: int | None) -> None:
    """Those of these storms that the tally has not for this source."""
    done = {blown.seed for blown in read(tally) if blown.source == source}
    left = [seed for seed in seeds if seed not in done]
    with ProcessPoolExecutor(max_workers=processes) as pool:
        for blown in pool.map(blow, left, repeat(source)):
            add(tally, blown)
            said = blown.broken or "no promise broken"
            print(  # noqa: T201  progress of a long run
                f"storm {blown.seed}: {blown.steps:,} steps, {said}, {blown.took_s:.0f} s",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
