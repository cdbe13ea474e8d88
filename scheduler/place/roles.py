"""Gangs of unlike members: a domain in which all roles' minimums fit together, then the rest."""

from collections.abc import Iterator, Sequence
from itertools import islice, permutations

from scheduler.cluster.trial import Trial
from scheduler.model.job import JobSpec, Role, Rule
from scheduler.model.placement import NoFit, PodPlace
from scheduler.place.bounds import job_level
from scheduler.place.exact import pack_exactly
from scheduler.place.grow import more_of_role
from scheduler.place.members import (
    Cut,
    ask_for_role,
    no_such_node,
    node_types_for,
    place_role,
    shape_of,
)
from scheduler.place.room import Scope
from scheduler.place.uniform import required_wants
from scheduler.place.verdict import missing_level, shortfall

SCOPE_LIMIT = 256
"""Domains of one level that are tried for a gang of unlike roles before the answer says
`bounded`."""

ORDER_LIMIT = 6
"""Orders of the roles that are tried in one domain before the exact search."""


def place_roles(trial: Trial, spec: JobSpec) -> tuple[list[PodPlace], Cut] | NoFit:
    """Place every role's minimum, then as many more as fit; the trial is left as it was."""
    found = _place(trial, spec)
    if spec.exclusive:
        trial.table.set_own(())
    return found


def _place(trial: Trial, spec: JobSpec) -> tuple[list[PodPlace], Cut] | NoFit:
    cut = Cut()
    mark = trial.mark()
    if len(spec.roles) == 1:
        found = place_role(trial, spec, spec.roles[0], spec.roles[0].min, None, cut, alone=True)
        trial.roll_back(mark)
        return found if isinstance(found, NoFit) else (found, cut)
    level = job_level(spec, trial.table.topology)
    if isinstance(level, Rule):
        return missing_level(level, trial.table.topology.level_names)
    first: NoFit | None = None
    for scope in _scopes(trial, spec, level, cut):
        found = _pack(trial, spec, scope, cut)
        if not isinstance(found, NoFit):
            found += _extras(trial, spec, found, _at_level(trial, scope, level))
            trial.roll_back(mark)
            return _numbered(spec, found), cut
        trial.roll_back(mark)
        first = found if first is None or found.fitting > first.fitting else first
    return first if first is not None else _nothing_fits(trial, spec)


def _scopes(trial: Trial, spec: JobSpec, required: int | None, cut: Cut) -> Iterator[Scope | None]:
    """Domains in which the job might fit: innermost levels first, the tightest first in each."""
    topology = trial.table.topology
    largest = max(spec.roles, key=lambda r: (r.gpus, r.min))
    shape = shape_of(trial.table.topology, spec, largest, None)
    for level in range(len(topology.levels) - 1, (-1 if required is None else required - 1), -1):
        blank = topology.levels[level].is_blank
        # A list, since counts move while the caller tries a domain.
        fitting = [
            d for d in trial.view(shape).buckets(level).at_least(largest.min) if not blank(d)
        ]
        hopeful = (d for d in fitting if _each_fits(trial, spec, (level, d)))
        for tried, domain in enumerate(hopeful):
            if tried == SCOPE_LIMIT:
                cut.bounded = True
                break
            yield (level, domain)
    if required is None:
        yield None


def _each_fits(trial: Trial, spec: JobSpec, scope: Scope) -> bool:
    """Whether every role's minimum would fit in the domain by itself."""
    return all(
        trial.view(shape_of(trial.table.topology, spec, role, None)).counts[scope[0]][scope[1]]
        >= role.min
        for role in spec.roles
    )


def _pack(trial: Trial, spec: JobSpec, scope: Scope | None, cut: Cut) -> list[PodPlace] | NoFit:
    """Place all minimums inside a scope: large members first, then other orders, then exactly."""
    mark = trial.mark()
    large_first = sorted(
        spec.roles, key=lambda r: (-r.gpus, -r.resources.cpu_milli, -r.min, r.name)
    )
    best: NoFit | None = None
    for order in islice(permutations(large_first), ORDER_LIMIT):
        found = _in_order(trial, spec, order, scope, cut)
        if not isinstance(found, NoFit):
            return found
        trial.roll_back(mark)
        best = found if best is None or found.fitting > best.fitting else best
    exact, bounded = pack_exactly(trial, spec, scope)
    cut.bounded = cut.bounded or bounded
    if exact is not None:
        return exact
    return best if best is not None else _nothing_fits(trial, spec)


def _in_order(
    trial: Trial, spec: JobSpec, order: Sequence[Role], scope: Scope | None, cut: Cut
) -> list[PodPlace] | NoFit:
    out: list[PodPlace] = []
    for role in order:
        found = place_role(trial, spec, role, role.min, scope, cut, alone=False, wanted=role.min)
        if isinstance(found, NoFit):
            return _whole_job(spec, found, len(out))
        out += found
    return out


def _whole_job(spec: JobSpec, verdict: NoFit, placed: int) -> NoFit:
    """The verdict of one role, counted in members of the job."""
    return NoFit(
        never=verdict.never,
        code=verdict.code,
        rule=verdict.rule,
        message=verdict.message,
        nearest=verdict.nearest,
        fitting=placed + verdict.fitting,
        wanted=sum(role.min for role in spec.roles),
        set_aside=verdict.set_aside,
    )


def _numbered(spec: JobSpec, pods: Sequence[PodPlace]) -> list[PodPlace]:
    """By role in the job's order, then by index."""
    position = {role.name: i for i, role in enumerate(spec.roles)}
    return sorted(pods, key=lambda p: (position[p.role], p.index))


def _nothing_fits(trial: Trial, spec: JobSpec) -> NoFit:
    """No domain has room for even each role by itself: the verdict on the largest role."""
    largest = max(spec.roles, key=lambda r: (r.gpus * r.min, r.gpus))
    kinds = node_types_for(trial, spec.gpu, largest.gpus)
    if not kinds:
        return no_such_node(spec, largest)
    ask = ask_for_role(trial, spec, largest, kinds[0], largest.min, largest.min, None, alone=True)
    wants = required_wants(ask)
    if isinstance(wants, Rule):
        return missing_level(wants, trial.table.topology.level_names)
    return _whole_job(spec, shortfall(ask, wants), 0)


def _extras(
    trial: Trial, spec: JobSpec, placed: Sequence[PodPlace], scope: Scope | None
) -> list[PodPlace]:
    """Members above the minimums, role by role, as many as fit beside what is placed."""
    out: list[PodPlace] = []
    for role in spec.roles:
        have = {p.index: p.node_index for p in placed if p.role == role.name}
        if len(have) < role.replicas:
            out += more_of_role(trial, spec, role, have, scope)
    return out


def _at_level(trial: Trial, scope: Scope | None, level: int | None) -> Scope | None:
    """The domain of the level that must hold the whole job, around where it was placed."""
    if scope is None or level is None:
        return None
    topology = trial.table.topology
    return level, topology.place[level][topology.levels[scope[0]].node_lo[scope[1]]]
