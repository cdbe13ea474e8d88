"""Runs side by side: as rows for a table, and as one page of HTML that stands by itself."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from scheduler.sim.compare import POLICIES, Outcome
from scheduler.sim.measures import Summary
from scheduler.sim.plots import Axis, Curve, line_plot

DAY_S = 86_400.0
HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a table.

    Attributes:
        key: Name in exports.
        meaning: In words, under the table.
    """

    key: str
    title: str
    meaning: str
    text: Callable[[Summary], str]


def duration(seconds: float) -> str:
    """Short, for people: `12 s`, `3.4 min`, `5.6 h`, `2.1 d`."""
    if not math.isfinite(seconds):
        return "never"
    if seconds < 60.0:
        return f"{seconds:.0f} s"
    for unit_s, name, most in ((60.0, "min", HOUR_S), (HOUR_S, "h", DAY_S)):
        if seconds < most:
            return f"{seconds / unit_s:.1f} {name}"
    return f"{seconds / DAY_S:.1f} d"


COLUMNS: Sequence[Column] = (
    Column(
        "wait_mean_s", "wait mean", "Mean time from submission to the first start.",
        lambda s: duration(s.wait_mean_s),
    ),
    Column("wait_p50_s", "p50", "Half waited no longer.", lambda s: duration(s.wait_p50_s)),
    Column("wait_p99_s", "p99", "99 of 100 waited no longer.", lambda s: duration(s.wait_p99_s)),
    Column(
        "slowdown_mean", "slowdown",
        "Mean of time from submission to end over run time; run times count as 10 s at least.",
        lambda s: f"{s.slowdown_mean:.2f}",
    ),
    Column(
        "utilisation", "used", "GPUs in use, from the end of the warm-up to the last submission.",
        lambda s: f"{100 * s.utilisation:.1f} %",
    ),
    Column(
        "spread", "spread",
        "Domains used over the fewest possible, mean over gangs of two nodes and more.",
        lambda s: f"{s.spread:.2f}",
    ),
    Column(
        "single_share", "in one",
        "Of the gangs of two nodes and more that one domain could hold, those that lie in one.",
        lambda s: f"{100 * s.single_share:.1f} %",
    ),
    Column(
        "fragmentation", "fragments",
        "1 - most free nodes of one domain / what it could be with so many free, at submissions.",
        lambda s: f"{s.fragmentation:.2f}",
    ),
    Column(
        "fairness", "fair",
        "Jain's index over queues of GPU time had until the last submission / asked for.",
        lambda s: f"{s.fairness:.3f}",
    ),
    Column(
        "starved", "starved", "Jobs that waited over ten of the longest run times, or never began.",
        lambda s: str(s.starved),
    ),
    Column(
        "longest_wait_runs", "longest", "The longest wait, in longest run times.",
        lambda s: f"{s.longest_wait_runs:.2f}",
    ),
    Column(
        "evictions", "evicted", "Times that a job left before its end.", lambda s: str(s.evictions)
    ),
)  # fmt: skip


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Policy and figures as text, one row for each run."""
    return [[o.policy, *(column.text(o.summary) for column in COLUMNS)] for o in outcomes]


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
body{color:#1a1a1a}
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #444}
tbody tr:nth-child(odd){background:#f4f6f8}dt{font-weight:600}dd{margin:0 0 .4rem 1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(30rem,1fr));gap:1rem}
figure{margin:0}figcaption{font-weight:600}svg{width:100%;height:auto}svg text{font-size:11px}
.tick{text-anchor:middle}.side{text-anchor:end}.axis{fill:none;stroke:#444}.grid{stroke:#e3e3e3}
""".strip()


def html_page(title: str, conditions: Mapping[str, str], outcomes: Sequence[Outcome]) -> str:
    """A page with a table, plots and what every figure means; it loads nothing from elsewhere.

    Args:
        conditions: What was simulated, in words: cluster, workload, load, seed.
    """
    said = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in conditions.items())
    head = "".join(f"<th scope='col'>{escape(c.title)}</th>" for c in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows(outcomes)
    )
    words = "".join(f"<dt>{escape(c.title)}</dt><dd>{escape(c.meaning)}</dd>" for c in COLUMNS)
    names = "".join(
        f"<dt>{escape(o.policy)}</dt><dd>{escape(POLICIES.get(o.policy, ''))}</dd>"
        for o in outcomes
    )
    figures = "".join(
        f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>"
        for caption, svg in _plots(outcomes)
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>\n<dl>{said}</dl>\n"
        f"<table><thead><tr><th scope='col'>policy</th>{head}</tr></thead><tbody>{body}</tbody>"
        f"</table>\n<div class='plots'>{figures}</div>\n"
        f"<h2>Policies</h2><dl>{names}</dl>\n<h2>Figures</h2><dl>{words}</dl>\n</body></html>\n"
    )


def _plots(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    waits, slow, used, line, fragments = [], [], [], [], []
    for outcome in outcomes:
        jobs = list(outcome.measures.jobs.values())
        samples = outcome.measures.samples
        hours = [sample.at_s / HOUR_S for sample in samples]
        gpus = sum(kind.gpus for kind in outcome.measures.topology.types)
        waits.append(_distribution(outcome.policy, [told.wait_s for told in jobs]))
        slow.append(_distribution(outcome.policy, [told.slowdown for told in jobs]))
        used.append(Curve(outcome.policy, hours, [100 * s.held_gpus / gpus for s in samples]))
        line.append(Curve(outcome.policy, hours, [float(s.waiting) for s in samples]))
        fragments.append(Curve(outcome.policy, hours, [s.fragmented for s in samples]))
    share, time = Axis("share of jobs, %"), Axis("hours")
    wait, slowdown = (
        Axis("wait, s", logarithmic=True, least=1.0),
        Axis("slowdown", logarithmic=True, least=1.0),
    )
    found = [
        ("Waits", waits, wait, share),
        ("Slowdowns", slow, slowdown, share),
        ("GPUs in use", used, time, Axis("%")),
        ("Jobs in line", line, time, Axis("jobs")),
        ("Fragmentation", fragments, time, Axis("share")),
    ]
    return [(title, line_plot(title, curves, x, y)) for title, curves, x, y in found]


def _distribution(name: str, values: Sequence[float]) -> Curve:
    """The share of all values at or below each."""
    ordered = sorted(v for v in values if math.isfinite(v))
    count = max(len(values), 1)
    return Curve(name, ordered, [100 * (i + 1) / count for i in range(len(ordered))])
