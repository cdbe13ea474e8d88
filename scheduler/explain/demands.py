"""Asking for less: rules that are relaxed, gangs that are smaller."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import gcd

from scheduler.explain.answer import Change, ChangeKind, RuleChange
from scheduler.explain.engine import Engine
from scheduler.model.job import JobSpec, Mode, ParallelSizes, Parts, Role, Rule
from scheduler.place.bounds import level_of, rules_of_parallel
from scheduler.topology.tree import Topology

RULES_TRIED = 16
"""Required rules that are relaxed one by one; after that only all of them together."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a required rule stands in a job: the job's own, a role's, or that of its parts."""

    rule: Rule
    role: str = ""
    is_of_parts: bool = False


def relax_changes(engine: Engine, binding: Rule | None) -> list[Change]:
    """The rule that has to give way, to the innermost level that is enough; or several."""
    spots = list(_required(engine.spec))
    if binding is not None:
        spots.sort(key=lambda spot: spot.rule != binding)
    for spot in spots[:RULES_TRIED]:
        for after in _looser(spot.rule, engine.world.topology):
            spec = with_rule(engine.spec, spot.role, spot.rule, after)
            if engine.fits(spec):
                return [_relaxed(engine, spec, [(spot, after)])]
    return _several(engine, spots) if len(spots) > 1 else []


def _several(engine: Engine, spots: list[_Spot]) -> list[Change]:
    """All rules preferred, then as many of them required again as still fit."""
    left = list(spots)
    if not engine.fits(_softened(engine.spec, left)):
        return []
    for spot in spots[:RULES_TRIED]:
        fewer = [other for other in left if other != spot]
        if engine.fits(_softened(engine.spec, fewer)):
            left = fewer
    pairs = [(spot, replace(spot.rule, mode=Mode.PREFERRED)) for spot in left]
    return [_relaxed(engine, _softened(engine.spec, left), pairs)]


def _softened(spec: JobSpec, spots: list[_Spot]) -> JobSpec:
    for spot in spots:
        spec = with_rule(spec, spot.role, spot.rule, replace(spot.rule, mode=Mode.PREFERRED))
    return spec


def _relaxed(engine: Engine, spec: JobSpec, pairs: list[tuple[_Spot, Rule]]) -> Change:
    rules = tuple(RuleChange(spot.rule, after, spot.role) for spot, after in pairs)
    return Change(ChangeKind.RELAX, rules=rules, others_first=engine.others_first((), spec))


def _required(spec: JobSpec) -> Iterator[_Spot]:
    own = rules_of_parallel(spec) if spec.parallelism is not None else spec.rules
    for rule in own:
        if rule.mode is Mode.REQUIRED:
            yield _Spot(rule)
    for role in spec.roles:
        parts = role.parts.rules if role.parts is not None else ()
        for rule in (*role.rules, *parts):
            if rule.mode is Mode.REQUIRED:
                yield _Spot(rule, role.name)


def _looser(rule: Rule, topology: Topology) -> Iterator[Rule]:
    """The same rule at each level further out, innermost first; then as a preference."""
    level = level_of(rule.within, topology, None)
    if level is not None:
        for outer in range(level - 1, -1, -1):
            yield replace(rule, within=topology.levels[outer].name)
    yield replace(rule, mode=Mode.PREFERRED)


def with_rule(spec: JobSpec, role: str, before: Rule, after: Rule) -> JobSpec:
    """The job with another rule in the place of one of its own; a default becomes explicit."""
    if not role:
        if before not in spec.rules:
            return replace(spec, rules=(after, *spec.rules))
        return replace(spec, rules=_swapped(spec.rules, before, after))
    roles = tuple(
        replace(
            r,
            rules=_swapped(r.rules, before, after),
            parts=None
            if r.parts is None
            else replace(r.parts, rules=_swapped(r.parts.rules, before, after)),
        )
        if r.name == role
        else r
        for r in spec.roles
    )
    return replace(spec, roles=roles)


def _swapped(rules: tuple[Rule, ...], before: Rule, after: Rule) -> tuple[Rule, ...]:
    return tuple(after if rule == before else rule for rule in rules)


def shrink_changes(engine: Engine) -> list[Change]:
    """The largest gang of its kind that fits: `dp` of a parallel job, `min` of a role."""
    spec = engine.spec
    if spec.parallelism is not None:
        step = dp_step(spec.parallelism, spec.gpus_per_pod)
        least = min(spec.dp_sizes, default=spec.parallelism.dp)
        size = _largest(
            (least - 1) // step,
            lambda k: engine.may_fit(with_dp(spec, k * step)),
        )
        smaller = with_dp(spec, size * step)
        return [_shrunk(engine, smaller, "", size * step)] if size and engine.fits(smaller) else []
    for role in spec.roles:
        step = role.parts.size if role.parts is not None else 1
        name = role.name

        def fits(k: int, name: str = name, step: int = step) -> bool:
            return engine.may_fit(with_min(spec, name, k * step))

        size = _largest(role.min // step - 1, fits)
        smaller = with_min(spec, name, size * step)
        if size and engine.fits(smaller):
            return [_shrunk(engine, smaller, name, size * step)]
    return []


def _shrunk(engine: Engine, spec: JobSpec, role: str, size: int) -> Change:
    first = engine.others_first((), spec)
    return Change(ChangeKind.SHRINK, role=role, size=size, others_first=first)


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest k in 1 .. `most` that fits, where a smaller one fits too; 0 if none does."""
    if most < 1 or not fits(1):
        return 0
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def dp_step(sizes: ParallelSizes, gpus_per_pod: int | None) -> int:
    """`dp` may be any multiple of this: experts and pods of a fixed size must come out even."""
    experts = sizes.expert_tp * sizes.ep
    step = experts // gcd(experts, sizes.tp * sizes.cp)
    if gpus_per_pod is not None:
        pods = gpus_per_pod // gcd(gpus_per_pod, sizes.tp * sizes.cp * sizes.pp)
        step = step * pods // gcd(step, pods)
    return step


def with_dp(spec: JobSpec, dp: int) -> JobSpec:
    """The job with one `dp`, whatever it allowed before."""
    sizes = spec.parallelism
    if sizes is None:
        return spec
    return replace(spec, parallelism=replace(sizes, dp=dp), dp_sizes=())


def with_min(spec: JobSpec, role: str, least: int) -> JobSpec:
    """The job with a role that needs fewer members to run; it still wants as many."""
    return replace(
        spec, roles=tuple(_needing(r, least) if r.name == role else r for r in spec.roles)
    )


def _needing(role: Role, least: int) -> Role:
    parts: Parts | None = role.parts
    if parts is not None:
        parts = replace(parts, min=least // parts.size)
    return replace(role, min=least, parts=parts)
