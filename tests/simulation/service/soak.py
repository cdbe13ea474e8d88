"""Many plays of the service, a part at a time, with one line that says how far it has come.

    python -m tests.simulation.service.soak                     all plays, one after the other
    python -m tests.simulation.service.soak --part 3 --of 10    a tenth of them
    python -m tests.simulation.service.soak --seed 5021         one play, told in full
    python -m tests.simulation.service.soak --total             what the parts have come to

Each play that ends is a line of a tally file, which parts share. Plays of an earlier state of the
source are kept in it, told apart by a fingerprint, and not counted. A broken promise is told with
its seed, counted, and makes the exit status 1; the other plays go on.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from tests.simulation.service.play import Played, make_template, play

ROOT = Path(__file__).parents[3]
SEEDS = range(10_000, 12_000)
STEPS = 6_000
"""Turns of actors while the weather is bad; until all has come to its end there are more."""

TALLY = ROOT / ".plays.jsonl"


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one play.

    Attributes:
        source: Fingerprint of the service and of the play.
        broken: Promises it broke, in words.
        took_s: Seconds of processor time.
    """

    source: str
    seed: int
    steps: int
    commits: int
    events: int
    jobs: int
    happened: dict[str, int] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    took_s: float = 0.0


def run_one(seed: int, source: str, template: Path, steps: int = STEPS) -> Ended:
    """One play to its end, by the source that this fingerprint is of."""
    began_s = time.process_time()
    done = play(seed, steps, template)
    took_s = round(time.process_time() - began_s, 1)
    counts = (done.steps, done.commits, done.events, done.jobs)
    return Ended(source, seed, *counts, done.happened, tuple(done.broken), took_s)


def fingerprint() -> str:
    """Of every source file that a play runs through."""
    digest = hashlib.sha256()
    for folder in ("scheduler", "api", "tests/simulation/service"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def part(number: int, of: int) -> Sequence[int]:
    """The seeds of one part; all parts together are all seeds, each once."""
    return SEEDS[len(SEEDS) * number // of : len(SEEDS) * (number + 1) // of]


def read(path: Path) -> list[Ended]:
    """What a tally holds; none where there is none."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [Ended(**json.loads(line)) for line in lines]
    return found


def add(path: Path, ended: Ended) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(ended)) + "\n")


def total(found: Iterable[Ended], source: str) -> str:
    """The line: steps, commits, plays, broken promises, and what happened meanwhile."""
    by_seed = {ended.seed: ended for ended in found if ended.source == source}
    plays = by_seed.values()
    happened: dict[str, int] = {}
    for ended in plays:
        for kind, count in ended.happened.items():
            happened[kind] = happened.get(kind, 0) + count
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(happened.items()))
    left = len(SEEDS) - len(by_seed)
    return (
        f"{sum(p.steps for p in plays):,} steps and {sum(p.commits for p in plays):,} commits in"
        f" {len(by_seed)} plays with {sum(p.jobs for p in plays):,} jobs"
        + (f" ({told})" if told else "")
        + f", {sum(bool(p.broken) for p in plays)} broken promises, source {source}"
        + (f"; {left} plays of {len(SEEDS)} are still to come" if left else "")
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run a part, or tell what has been run; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.service.soak")
    parser.add_argument("--part", type=int, default=0, help="which part, from 0 on")
    parser.add_argument("--of", type=int, default=1, help="into how many parts it is split")
    parser.add_argument("--seed", type=int, help="one play alone, told in full and not counted")
    parser.add_argument("--tally", type=Path, default=TALLY)
    parser.add_argument("--total", action="store_true", help="run nothing; tell the total")
    args = parser.parse_args(words)
    if not 1 <= args.of <= len(SEEDS) or not 0 <= args.part < args.of:
        parser.error(f"--part lies in 0 to --of - 1, --of in 1 to {len(SEEDS)}")
    structlog.configure(processors=[_drop])
    if args.seed is not None:
        return _show(args.seed)
    source = fingerprint()
    if not args.total:
        run_part(part(args.part, args.of), args.tally, source)
    found = read(args.tally)
    print(total(found, source))  # noqa: T201  the command's answer
    return int(any(ended.broken for ended in found if ended.source == source))


def _show(seed: int) -> int:
    with TemporaryDirectory() as folder:
        done: Played = play(seed, STEPS, make_template(Path(folder)))
    print(json.dumps(asdict(done), indent=2))  # noqa: T201  the command's answer
    return int(bool(done.broken))


def run_part(seeds: Sequence[int], tally: Path, source: str) -> None:
    """Those of these plays that the tally has not for this source."""
    done = {ended.seed for ended in read(tally) if ended.source == source}
    with TemporaryDirectory() as folder:
        template = make_template(Path(folder))
        for seed in seeds:
            if seed in done:
                continue
            ended = run_one(seed, source, template)
            add(tally, ended)
            said = "; ".join(ended.broken) or "no promise broken"
            print(  # noqa: T201  progress of a long run
                f"play {seed}: {ended.steps:,} steps, {ended.commits:,} commits, {said},"
                f" {ended.took_s:.0f} s",
                file=sys.stderr,
                flush=True,
            )


def _drop(_logger: object, _name: str, _event: object) -> str:
    """What the service logs in a play is of no interest: the seed brings it back."""
    raise structlog.DropEvent


if __name__ == "__main__":
    sys.exit(main())
