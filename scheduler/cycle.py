"""One scheduling cycle: facts and the line of pending gangs in, a plan out."""

from scheduler.cluster.world import World
from scheduler.draft import Draft
from scheduler.model.ids import NodeId, PodId
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import PodState, Reason
from scheduler.model.placement import NoFit, Placement, PodPlace
from scheduler.model.plan import JobRecord, Plan, PodRecord
from scheduler.order.queue import in_order
from scheduler.place.admit import never_fits_in
from scheduler.place.grow import grow
from scheduler.place.search import place
from scheduler.policy import Policy

FRESH_VERDICTS = 100
"""Gangs at the head of the line whose verdict is told anew whenever it changes. Further back only a
new reason is: else each end of one job would rewrite every job that waits. `explain` asks anew."""


def run_cycle(world: World, policy: Policy, now_s: float) -> Plan:
    """Decide one cycle; the world is as it was afterwards."""
    draft = Draft(world)
    mark = world.trial.mark()
    try:
        # 1. Take account of what was reported: ended pods free their GPUs for this very cycle.
        draft.apply_facts()
        # 2. Order the pending gangs.
        # 3. Place each in turn; keep the verdict of those that do not fit.
        paused = world.paused or policy.paused
        verdicts: dict[int, NoFit] = {}
        for position, job in enumerate(in_order(draft.jobs.values())):
            if paused:
                draft.wait(job, Reason.PAUSED, "the scheduler is paused", None)
            else:
                _place_or_wait(world, draft, job, verdicts, fresh=position < FRESH_VERDICTS)
        # 4. Gangs above their minimum take what nobody waiting could use.
        if not paused:
            for job in draft.incomplete():
                _grow(world, draft, job)
        # 5. Check the rules of gangs whose pods or map changed.
        draft.audit(everything=world.map_changed)
        # 6. Return the plan, stamped with the revision it was decided on.
        return draft.plan()
    finally:
        world.trial.roll_back(mark)


def _place_or_wait(
    world: World, draft: Draft, job: JobRecord, verdicts: dict[int, NoFit], *, fresh: bool
) -> None:
    # Space only shrinks while gangs are placed: what did not fit once in this cycle never will.
    key = world.wish[job.uid]
    found = verdicts.get(key)
    if found is None:
        answer = place(world.trial, job.spec)
        if isinstance(answer, Placement):
            _bind(world, draft, job, answer)
            return
        found = verdicts[key] = _never_or(world, job.spec, key, answer)
    draft.wait(job, found.code, found.message, found, fresh=fresh)


def _never_or(world: World, spec: JobSpec, key: int, verdict: NoFit) -> NoFit:
    """The verdict, or the one on the empty cluster if not even that could hold the gang."""
    if key not in world.never:
        world.never[key] = never_fits_in(world.emptied(), spec)
    return world.never[key] or verdict


def _bind(world: World, draft: Draft, job: JobRecord, placement: Placement) -> None:
    pods = [_pod_record(world, job, place) for place in placement.pods]
    world.trial.hold_places(placement.pods)
    draft.bind(job, pods, placement)


def _grow(world: World, draft: Draft, job: JobRecord) -> None:
    pods = draft.pods(job.uid).values()
    have = {(p.role, p.index): world.topology.node_index[p.node] for p in pods if p.is_live}
    done = {(p.role, p.index) for p in pods if p.state is PodState.SUCCEEDED}
    found = grow(world.trial, job.spec, have, done)
    if found:
        draft.add_pods(job, [_pod_record(world, job, place_) for place_ in found])


def _pod_record(world: World, job: JobRecord, place_: PodPlace) -> PodRecord:
    uid = PodId(f"{job.uid}-{place_.role}-{place_.index}")
    before = world.pods.get(job.uid, {}).get(uid)
    part = f"{place_.role}-{place_.index}" if place_.role else str(place_.index)
    return PodRecord(
        uid=uid,
        job=job.uid,
        name=f"{job.spec.name}-{part}",
        role=place_.role,
        index=place_.index,
        node=NodeId(world.topology.nodes[place_.node_index].name),
        gpu_mask=place_.gpu_mask,
        first_rank=place_.first_rank,
        state=PodState.BOUND,
        attempt=1 if before is None else before.attempt + 1,
        resources=place_.resources,
    )
