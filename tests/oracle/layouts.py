"""Every layout of a small problem that differs from the others in more than names."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.oracle.exact import Problem, Spread

Path = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Limit:
    """Groups, how often each comes, and the most domains of a level that all of them may touch."""

    depth: int
    groups: tuple[tuple[tuple[int, ...], int], ...]
    most: int


@dataclass(slots=True)
class _Tree:
    """Domains by their path from the outermost level; which hold a pod, and which look alike.

    Attributes:
        form: A number for what a domain is made of: the same where the same can be done.
        inside: Pods in each domain so far.
    """

    form: dict[Path, int] = field(default_factory=dict)
    inside: dict[Path, int] = field(default_factory=dict)
    numbers: dict[object, int] = field(default_factory=dict)
    limits: list[_Limit] = field(default_factory=list)


def layouts(problem: Problem, spread: Spread | None = None) -> Iterator[tuple[int, ...]]:
    """Bin of each pod, for every layout with all pods, the required rules kept and this spread.

    Of layouts that differ only in which of several equal and still empty domains is used, one
    comes.
    """
    tree = _Tree()
    for b in range(len(problem.bins)):
        for depth in range(len(_path(problem, b)) + 1):
            tree.inside[_path(problem, b)[:depth]] = 0
    for path in sorted(tree.inside, key=len, reverse=True):
        form = _form(problem, tree, path)
        tree.form[path] = tree.numbers.setdefault(form, len(tree.numbers))
    if spread is not None:
        tree.limits = _limits(problem, spread)
    yield from _extend(problem, tree, [], [bin.room for bin in problem.bins])


def _limits(problem: Problem, spread: Spread) -> list[_Limit]:
    depths = [
        (depth, Counter(groups))
        for level, groups in problem.preferred
        for depth in range(level, -1, -1)
    ]
    return [
        _Limit(depth, tuple(counts.items()), most)
        for (depth, counts), most in zip(depths, spread, strict=True)
    ]


def _path(problem: Problem, b: int) -> Path:
    """Levels above the node, and the bin itself, which may be one of several in its domain."""
    return (*problem.bins[b].domains[:-1], str(b))


def _form(problem: Problem, tree: _Tree, path: Path) -> object:
    if len(path) == len(_path(problem, 0)):
        bin = problem.bins[int(path[-1] or 0)]
        return ("room", bin.room, bin.free, bin.dead)
    children = [p for p in tree.inside if len(p) == len(path) + 1 and p[:-1] == path]
    # A place without a name is another thing than a domain: no rule can hold in it.
    return tuple(sorted((tree.form[child], child[-1] is None) for child in children))


def _extend(
    problem: Problem, tree: _Tree, chosen: list[int], room: list[int]
) -> Iterator[tuple[int, ...]]:
    pod = len(chosen)
    if any(_domains(problem, chosen, limit) > limit.most for limit in tree.limits):
        return
    if pod == problem.pods:
        yield tuple(chosen)
        return
    seen: set[object] = set()
    for b in range(len(problem.bins)):
        if not room[b] or not _allowed(problem, chosen, b):
            continue
        key = _key(problem, tree, b)
        if key in seen:
            continue
        seen.add(key)
        _count(problem, tree, b, 1)
        room[b] -= 1
        chosen.append(b)
        yield from _extend(problem, tree, chosen, room)
        chosen.pop()
        room[b] += 1
        _count(problem, tree, b, -1)


def _domains(problem: Problem, chosen: list[int], limit: _Limit) -> int:
    """Domains that the pods placed so far touch; it only grows."""
    at = [problem.bins[b].domains[limit.depth] for b in chosen]
    placed, total = len(at), 0
    for group, count in limit.groups:
        places = [at[pod] for pod in group if pod < placed]
        nowhere = places.count(None)
        total += count * (len(set(places)) - bool(nowhere) + nowhere)
    return total


def _key(problem: Problem, tree: _Tree, b: int) -> object:
    """Equal for bins that lie alike in equal domains which hold no pod yet."""
    path = _path(problem, b)
    out: list[object] = []
    for depth in range(1, len(path) + 1):
        at = path[:depth]
        out.append(at if tree.inside[at] else (tree.form[at], at[-1] is None))
    return tuple(out)


def _count(problem: Problem, tree: _Tree, b: int, step: int) -> None:
    path = _path(problem, b)
    for depth in range(len(path) + 1):
        tree.inside[path[:depth]] += step


def _allowed(problem: Problem, chosen: list[int], b: int) -> bool:
    """Whether the next pod may go into a bin beside those that have theirs."""
    pod = len(chosen)
    for level, groups in problem.required:
        for group in groups:
            if pod not in group or len(group) == 1:
                continue
            domain = problem.bins[b].domains[level]
            others = [problem.bins[chosen[other]].domains[level] for other in group if other < pod]
            if domain is None or any(other != domain for other in others):
                return False
    return True
