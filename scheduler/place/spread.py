"""Which domains take how many pods: the tightest one, the fewest inside it, the last tight."""

from bisect import bisect_left
from itertools import accumulate, islice

from scheduler.errors import invariant
from scheduler.place.room import Room, Scope

Piece = tuple[int, int, int]
"""(node_lo, node_hi, pods): so many pods on the nodes of a range."""

CANDIDATE_LIMIT = 8
"""Equally possible domains that are compared for what is left free. They tie in every rule and in
predicted time; the limit bounds only how well the rest stays packed."""

ROOT: Scope = (-1, 0)


Soft = tuple[int, int]
"""(level index, pods of a unit): keep as many units as can be whole in one domain of the level."""


def choose(
    room: Room,
    wanted: int,
    soft: Soft | None = None,
    stop: int | None = None,
    *,
    even: bool = False,
) -> list[Piece]:
    """Pieces that hold `wanted` pods; `room.fits(wanted)` must hold.

    Args:
        stop: Level inside whose domains nothing is chosen; None = down to the racks of nodes.
        even: Of as few domains each takes about as many pods, for the one that holds fewest has
            the fewest uplinks to talk over.

    The domain for the whole gang is the one that needs the fewest domains inside it, then has the
    fewest pods free, then whose parents have.
    """
    start = start_of(room, wanted)
    out: list[Piece] = []
    if soft is not None and soft[1] >= wanted and soft[0] > start[0]:
        lo, hi = _inside(room, start, soft[0])
        capacities = list(zip(room.pods_of(soft[0], lo, hi), range(lo, hi), strict=True))
        for domain, share in fewest(capacities, wanted):
            spread(room, (soft[0], domain), share, out, stop=stop)
        return out
    spread(room, start, wanted, out, soft, stop, even=even)
    return out


def start_of(room: Room, wanted: int) -> Scope:
    """The domain for the whole gang, or all there is where none is asked for."""
    level = room.bounds.whole
    if level is None:
        return ROOT if room.scope is None else room.scope
    if level == len(room.topology.levels) - 1:
        return level, _tightest_node(room, wanted)
    return level, _tightest_domain(room, level, wanted)


def _inside(room: Room, at: Scope, level: int) -> tuple[int, int]:
    """Domains of a level further in that lie in one domain, or in the whole cluster."""
    if at == ROOT:
        return 0, len(room.topology.levels[level].names)
    return room.topology.inside(*at, level)


def spread(
    room: Room,
    at: Scope,
    wanted: int,
    out: list[Piece],
    soft: Soft | None = None,
    stop: int | None = None,
    *,
    even: bool = False,
) -> None:
    """Share `wanted` pods among the domains inside one, in tree order."""
    level, domain = at
    topology = room.topology
    last = len(topology.levels) - 1
    if level == last:
        out.append((domain, domain + 1, wanted))
        return
    cuts_nodes = bool(room.bounds.units) and room.bounds.units[-1][0] == last
    # Where all that is free is wanted, there is nothing to choose further in.
    filled = level >= 0 and room.view.counts[level][domain] == wanted
    filled = filled or (stop is not None and level >= stop)
    if (level == last - 1 or filled) and not cuts_nodes:
        if level < 0:
            out.append((0, topology.node_count, wanted))
        else:
            out.append(
                (
                    topology.levels[level].node_lo[domain],
                    topology.levels[level].node_hi[domain],
                    wanted,
                )
            )
        return
    lo, hi = 0, len(topology.levels[0].names)
    if level >= 0:
        lo, hi = topology.levels[level].child_lo[domain], topology.levels[level].child_hi[domain]
    capacities = list(zip(room.pods_of(level + 1, lo, hi), range(lo, hi), strict=True))
    if soft is not None and soft[0] == level + 1:
        shares = whole_first(capacities, wanted, soft[1])
    else:
        shares = fewest(capacities, wanted)
        if even and len(shares) > 1:
            shares = evened(capacities, wanted, len(shares), _unit_at(room, level + 1))
    if level + 2 == last and not cuts_nodes:
        # As each call below would: nothing is chosen inside a rack of nodes.
        row = topology.levels[level + 1]
        out += [(row.node_lo[child], row.node_hi[child], share) for child, share in shares]
        return
    for child, share in shares:
        spread(room, (level + 1, child), share, out, soft, stop, even=even)


def _unit_at(room: Room, level: int) -> int:
    """Pods that a domain of the level takes at a time."""
    return next((unit for at, unit, _ in room.bounds.units if at >= level), 1)


def evened(
    capacities: list[tuple[int, int]], wanted: int, count: int, unit: int
) -> list[tuple[int, int]]:
    """The `count` largest domains with shares as equal as their room and whole units allow.

    Args and Returns: As for `fewest`; `unit` divides `wanted` and every capacity.
    """
    largest = sorted([(-capacity, child) for capacity, child in capacities])[:count]
    left, out = wanted, []
    for position, (negative, child) in enumerate(reversed(largest)):
        others = count - position - 1
        share = min(-negative, left // (others + 1) // unit * unit) if others else left
        out.append((child, share))
        left -= share
    return sorted((child, share) for child, share in out if share)


def whole_first(capacities: list[tuple[int, int]], wanted: int, unit: int) -> list[tuple[int, int]]:
    """As many whole units as fit in one domain each, then the rest on what is left, largest first.

    Args and Returns: As for `fewest`.
    """
    taken = dict.fromkeys((child for _, child in capacities), 0)
    left = wanted
    for whole in (True, False):
        ordered = sorted(capacities, key=lambda c: (taken[c[1]] - c[0], c[1]))
        for capacity, child in ordered:
            share = min(capacity - taken[child], left)
            share -= share % unit if whole else 0
            taken[child] += share
            left -= share
    invariant(not left, f"{left} of {wanted} pods have no domain")
    return sorted((child, share) for child, share in taken.items() if share)


def fewest(capacities: list[tuple[int, int]], wanted: int) -> list[tuple[int, int]]:
    """The fewest domains that hold `wanted` pods: largest first, the last the tightest that does.

    Args:
        capacities: (pods it holds, domain index); any order.

    Returns:
        (domain index, pods), by index.
    """
    fitting = [c for c in capacities if c[0] >= wanted]
    if fitting:
        return [(min(fitting)[1], wanted)]
    left, chosen = wanted, []
    # Negative, so that pairs sort without a key: largest first, then by index.
    ordered = sorted([(-capacity, child) for capacity, child in capacities if capacity])
    for position, (negative, child) in enumerate(ordered):
        if -negative >= left:
            tight = min([(-c, at) for c, at in ordered[position:] if -c >= left])
            chosen.append((tight[1], left))
            return sorted(chosen)
        chosen.append((child, -negative))
        left += negative
    invariant(not left, f"{left} of {wanted} pods have no domain")
    return sorted(chosen)


def _tightest_domain(room: Room, level: int, wanted: int) -> int:
    counts, place = room.view.counts, room.topology.place
    here, node_lo = counts[level], room.topology.levels[level].node_lo
    around = [(counts[up], place[up]) for up in range(level - 1, -1, -1)]
    fewest_possible = _fewest_possible(room, level, wanted)
    best: tuple[int, int, tuple[int, ...], int] | None = None
    for domain in islice(room.candidates(wanted), CANDIDATE_LIMIT):
        count, node = here[domain], node_lo[domain]
        is_least = best is not None and best[0] == fewest_possible
        if best is not None and is_least and count > best[1]:
            break
        outer = tuple([held[domains[node]] for held, domains in around])
        if best is not None and is_least and best[1:] < (count, outer, domain):
            continue  # it cannot need fewer domains inside, and is no better in all else
        key = (_inner_domains(room, level, domain, wanted), count, outer, domain)
        if best is None or key < best:
            best = key
    invariant(best is not None, f"no domain holds {wanted} pods")
    return -1 if best is None else best[-1]


def _fewest_possible(room: Room, level: int, wanted: int) -> int:
    """Domains of the next level that any choice touches at least; nodes are not counted."""
    inner = level + 1
    if inner >= len(room.topology.levels) - 1:
        return 0
    return -(-wanted // max(1, room.view.buckets(inner).largest))


def _inner_domains(room: Room, level: int, domain: int, wanted: int) -> int:
    """Domains of the next level that the pods would touch; nodes are not counted."""
    inner = level + 1
    if inner >= len(room.topology.levels) - 1:
        return 0
    lo, hi = (
        room.topology.levels[level].child_lo[domain],
        room.topology.levels[level].child_hi[domain],
    )
    # Which ones makes no difference here: `fewest` takes as many.
    largest_first = sorted(room.pods_of(inner, lo, hi), reverse=True)
    return bisect_left(list(accumulate(largest_first)), wanted) + 1


def _tightest_node(room: Room, wanted: int) -> int:
    """The node whose use leaves the rest best packed: part-used first, then in tight domains."""
    view, topology = room.view, room.topology
    last = len(topology.levels) - 1
    if room.scope is not None:
        lo, hi = topology.inside(*room.scope, last)
        fitting = [n for n in range(lo, hi) if view.slots[n] >= wanted]
    else:
        tight = (node for node in view.tight_nodes() if view.slots[node] >= wanted)
        fitting = list(islice(tight, 1))
        if last > 0 and fitting and _is_empty(room, fitting[0]):
            fitting = _in_tight_domain(room, wanted) or fitting
        else:
            fitting += islice(tight, CANDIDATE_LIMIT - 1)

    def key(node: int) -> tuple[object, ...]:
        outer = tuple(view.counts[up][topology.place[up][node]] for up in range(last - 1, -1, -1))
        aligned = aligned_free(view.free(node), view.shape.gpus)
        return (view.tightness_of(node), not aligned, outer, node)

    return min(fitting, key=key)


def _is_empty(room: Room, node: int) -> bool:
    gpus = room.topology.types[node].gpus
    if not gpus:
        return not room.view.table.pod_count[node]
    return room.view.table.free[node].bit_count() == gpus


def _in_tight_domain(room: Room, wanted: int) -> list[int]:
    """Nodes that fit, of the domains just above the node with the fewest pods free."""
    view, topology = room.view, room.topology
    level = len(topology.levels) - 2
    out: list[int] = []
    for domain in islice(view.buckets(level).at_least(wanted), CANDIDATE_LIMIT):
        lo, hi = topology.levels[level].node_lo[domain], topology.levels[level].node_hi[domain]
        fitting = (n for n in range(lo, hi) if view.slots[n] >= wanted)
        best = min(fitting, key=lambda n: (view.tightness_of(n), n), default=None)
        if best is not None:
            out.append(best)
    return out


def aligned_free(free: int, gpus: int) -> bool:
    """Whether a block of so many GPUs that starts at a multiple of its size is free."""
    return gpus == 0 or any(mask & free == mask for mask in aligned_masks(free.bit_length(), gpus))


def aligned_masks(gpu_count: int, gpus: int) -> list[int]:
    """Masks of the aligned blocks, lowest first.

    A size that is no power of two starts where blocks of the next larger power do.
    """
    step = 1 << (gpus - 1).bit_length() if gpus else 1
    block = (1 << gpus) - 1
    return [block << start for start in range(0, gpu_count - gpus + 1, step)]
