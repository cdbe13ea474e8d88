"""Rows of a benchmark, printed as a table or as one JSON object.

Each row stands beside a floor measured in the same run, so that figures of two machines compare.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Conditions = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        what: Name of the figure, as in the table of goals.
        floor: The same work done in the plainest way in this run, in `unit`; None where none is.
        ratio: value / floor; None without a floor.
        conditions: Nodes, gangs, constraints, free share and the like.
    """

    what: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    conditions: Conditions = field(default_factory=dict)


def row(
    what: str, value: float, unit: str, floor: float | None = None, **conditions: object
) -> Row:
    """A row with its ratio."""
    ratio = None if not floor else value / floor
    return Row(what, value, unit, floor, ratio, conditions)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asked for.

    Attributes:
        rows: Names of the rows wanted; empty = all.
        small: A quick run on small clusters, for tests of the harness itself.
    """

    rows: frozenset[str]
    small: bool

    def wants(self, *names: str) -> bool:
        return not self.rows or bool(self.rows & set(names))


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    cores = 0
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        cores = sum(line.startswith("processor") for line in lines)
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = names[0] if names else model
    return {"cpu": model, "cores": cores, "python": platform.python_version()}


def run(name: str, measure: Callable[[Options], Iterator[Row]], known: Sequence[str]) -> int:
    """Entry point of a benchmark module; prints and returns the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--rows", default="", help="names of the rows wanted, comma-separated")
    parser.add_argument("--size", choices=["small", "full"], default="full")
    args = parser.parse_args()
    rows = frozenset(filter(None, args.rows.split(",")))
    unknown = sorted(rows - set(known))
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(known)}")
    options = Options(rows, small=args.size == "small")
    found = [r for r in measure(options) if options.wants(r.what)]
    if args.json:
        print(json.dumps({"name": name, "machine": machine(), "rows": [asdict(r) for r in found]}))
    else:
        _show(name, found)
    return 0


def _show(name: str, rows: Sequence[Row]) -> None:
    table = Table(title=f"{name} on {machine()['cpu']}", box=None)
    for title in ("what", "value", "unit", "floor", "ratio", "conditions"):
        table.add_column(title, justify="right" if title in {"value", "floor", "ratio"} else "left")
    for r in rows:
        said = ", ".join(f"{key} {value}" for key, value in r.conditions.items())
        table.add_row(r.what, _text(r.value), r.unit, _text(r.floor), _text(r.ratio), said)
    Console(file=sys.stdout, width=160).print(table)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of them lie; `values` not empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
