"""What a gang in recovery lacks, and how that is said."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.draft.book import Draft
from scheduler.model.job import JobSpec, Rule, Scope
from scheduler.model.lifecycle import PodState
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.place.verdict import rule_words
from scheduler.recover.missing import THERE, Lacks, Member, lacks_of

NODES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Wound:
    """A gang that lacks members, and those of them that are to be placed.

    Attributes:
        kept: Pods of members that stay where they are.
        lost: Pods of members to be placed, as they were last; None for one that never was.
        is_whole: All members start anew in a new attempt of the gang.
    """

    job: JobRecord
    lacks: Lacks
    kept: tuple[PodRecord, ...]
    lost: dict[Member, PodRecord | None]
    is_whole: bool


def wound_of(draft: Draft, job: JobRecord) -> Wound:
    """What a gang lacks; one that restarts as a whole wants members back that were done, too."""
    pods = list(draft.pods(job.uid).values())
    gone = draft.world.gone
    back = {(p.role, p.index) for p in pods if p.state is PodState.LOST and p.node not in gone}
    lacks = lacks_of(job, pods, back)
    by_member = {(p.role, p.index): p for p in pods}
    is_whole = job.spec.failure.scope is Scope.GANG
    wanted = dict.fromkeys(lacks.needed)
    if is_whole:
        done = [m for m, p in by_member.items() if p.state is PodState.SUCCEEDED]
        wanted |= dict.fromkeys(sorted(done))
    kept = [p for p in there_of(pods) if (p.role, p.index) not in wanted]
    lost = {member: by_member.get(member) for member in wanted}
    return Wound(job, lacks, tuple(kept), lost, is_whole)


def there_of(pods: Iterable[PodRecord]) -> list[PodRecord]:
    return sorted((p for p in pods if p.state in THERE), key=lambda p: (p.role, p.index))


def spare_members_of(job: JobRecord, there: Iterable[PodRecord]) -> list[PodRecord]:
    """Live members above the minimum, those that leave first at the front."""
    out: list[PodRecord] = []
    pods = list(there)
    for role in job.spec.roles:
        mine = sorted((p for p in pods if p.role == role.name), key=lambda p: -p.index)
        size = role.parts.size if role.parts is not None else 1
        spare = max(0, len(mine) - role.min) // size * size
        out += [pod for pod in mine[:spare] if pod.is_live]
    return out


def looked(spec: JobSpec, rule: Rule | None) -> str:
    """Where a place was looked for in vain."""
    if rule is not None:
        return f"the map has no level '{rule.within}', which a rule names"
    required = [r for r in spec.rules if r.mode.value == "required"]
    for role in spec.roles:
        required += [r for r in role.rules if r.mode.value == "required"]
    beside = "no room beside the members that are left"
    if required:
        beside += f" under the rule '{rule_words(required[0])}'"
    if spec.failure.scope is Scope.POD:
        return beside
    return f"{beside}, nor elsewhere for all"


def anew_words(wound: Wound, pods: list[PodRecord]) -> str:
    """Who starts anew, and where."""
    if wound.is_whole:
        return "starts anew after members were lost"
    nodes = sorted({pod.node for pod in pods})
    shown = ", ".join(nodes[:NODES_SHOWN])
    more = f" and {len(nodes) - NODES_SHOWN} more" if len(nodes) > NODES_SHOWN else ""
    what = "1 lost member starts" if len(pods) == 1 else f"{len(pods)} lost members start"
    return f"{what} anew on {shown}{more}"
