"""Gangs in recovery: lost members get places beside those that stay, or the gang goes elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.backfill.words import moment
from scheduler.draft.book import Draft
from scheduler.draft.charges import Charges
from scheduler.draft.finding import places_beside, whole_place
from scheduler.draft.leaving import give_up_recovery, leave_now
from scheduler.draft.lending import borrowers_of
from scheduler.draft.losing import settle_wound, state_of, wound_words
from scheduler.draft.preempting import Preemption
from scheduler.draft.restarts import begin_attempt, recovery_claim, started_anew
from scheduler.draft.starts import is_free, is_usable, make_way, place_of, pod_record
from scheduler.draft.wounds import Wound, anew_words, looked, spare_members_of, there_of, wound_of
from scheduler.model.claim import Claim, ClaimWhy
from scheduler.model.job import Rule, Scope
from scheduler.model.lifecycle import JobState, PodState, Reason
from scheduler.model.placement import Placement, PodPlace
from scheduler.model.plan import JobRecord, PodRecord
from scheduler.order.use import use_of_places
from scheduler.policy import Policy
from scheduler.recover.breaker import Breaker
from scheduler.recover.missing import Member, broken_parts, lacks_of
from scheduler.recover.replace import Former, spec_of_lost

OWN_TRIED = 64
"""Members above the minimum that are asked, one more each time, to make way for the others."""


class Recovery:
    """What one cycle does for gangs in recovery, each in its turn."""

    def __init__(
        self,
        draft: Draft,
        policy: Policy,
        charges: Charges,
        preemption: Preemption,
        breaker: Breaker,
        pool: Sequence[int] = (),
    ) -> None:
        self._draft = draft
        self._world = draft.world
        self._policy = policy
        self._charges = charges
        self._preemption = preemption
        self._breaker = breaker
        self._pool = pool

    @property
    def is_held(self) -> bool:
        """Whether the circuit breaker keeps lost members from being placed."""
        return self._breaker.is_tripped

    def recover(self, job: JobRecord) -> None:
        """Bring a gang back as far as can be now, or say what it waits for."""
        draft = self._draft
        if self.is_held:
            return
        if draft.claims_of(job.uid, ClaimWhy.RECOVERY):
            if self.start_again(job):
                return
            job = draft.set(draft.jobs[job.uid], reason=None)
        wound = wound_of(draft, job)
        if job.not_before_s is not None and job.not_before_s > draft.now_s:
            draft.wake_at(job.not_before_s)
            if wound.lost and job.hold_until_s is not None and job.hold_until_s <= draft.now_s:
                # Others have its place, and its limit is sooner than its restart.
                self._hold_on(wound, None)
            return
        if not wound.lost:
            settle_wound(draft, job)
            return
        found = self._in_place(wound)
        if found is True or self._elsewhere(wound):
            return
        self._hold_on(wound, found if isinstance(found, Rule) else None)

    def start_again(self, job: JobRecord) -> bool:
        """Start a gang in the places that are kept for it as soon as it may and they are free.

        Returns:
            Whether they are kept still; else it needs others.
        """
        claims = self._draft.claims_of(job.uid, ClaimWhy.RECOVERY)
        if not is_usable(self._world, claims) and not self._only_waits(job, claims):
            self._drop_claims(job)
            return False
        return self._start_if_free(job, claims)

    # -- where they were --------------------------------------------------------------------------

    def _in_place(self, wound: Wound) -> Rule | bool:
        """Get lost members places beside the others: True, False, or the rule in the way."""
        found = self.places_for(wound.job, wound.kept, wound.lost)
        if isinstance(found, Rule):
            return found
        spares = self._draft.claims_of(wound.job.uid, ClaimWhy.SPARE)
        if self._from_borrowers(wound, found, spares):
            return True
        if found is None:
            pools = self._draft.claims_of_pools()
            if pools and self._from_borrowers(wound, None, [*spares, *pools]):
                return True
            return self._from_own(wound) or self._from_others(wound)
        if self._is_denied(wound, found):
            return False
        self._take(wound, found)
        return True

    def _from_borrowers(
        self, wound: Wound, found: list[PodPlace] | None, spares: list[Claim]
    ) -> bool:
        """Call back spares that are lent, if that helps more than what is free."""
        draft, job, nodes = self._draft, wound.job, self._world.topology.nodes
        kept = {claim.node for claim in spares}

        def of_spares(places: Iterable[PodPlace]) -> int:
            return sum(nodes[place_.node_index].name in kept for place_ in places)

        lent = borrowers_of(draft, spares)
        if not lent or (found is not None and of_spares(found) == len(found)):
            return False
        places = self.places_for(job, wound.kept, wound.lost, lent)
        if not isinstance(places, list) or self._is_denied(wound, places):
            return False
        if found is not None and of_spares(places) <= of_spares(found):
            return False
        taken: dict[str, int] = {}
        for place_ in places:
            name = nodes[place_.node_index].name
            taken[name] = taken.get(name, 0) | place_.gpu_mask
        back = [pod for pod in lent if taken.get(pod.node, 0) & pod.gpu_mask]
        self._preemption.call_back(job, back)
        self._keep(job, [self._record(job, place_, wound.lost) for place_ in places])
        said = wound_words(draft, job, wound.lacks)
        self._say(job, f"{said}; has its spares for the others when those who use them have left")
        return True

    def _from_own(self, wound: Wound) -> bool:
        """Let the gang's own members above its minimum make way; whether that helps."""
        spare = spare_members_of(wound.job, wound.kept)
        if not spare:
            return False
        draft, world, job = self._draft, self._world, wound.job
        found: list[PodPlace] | Rule | None = None
        mark, uids = world.trial.mark(), set[str]()
        for pod in spare[:OWN_TRIED]:
            # One after the other, so that no more of them leave than must.
            world.trial.release(world.held_by(pod))
            uids.add(pod.uid)
            kept = [p for p in wound.kept if p.uid not in uids]
            found = self.places_for(job, kept, wound.lost)
            if isinstance(found, list):
                break
        world.trial.roll_back(mark)
        if not isinstance(found, list):
            return False
        names = {world.topology.nodes[place_.node_index].name for place_ in found}
        for pod in spare:
            if pod.uid in uids and pod.node in names:
                draft.move_pod(pod, PodState.TERMINATING)
        self._keep(job, [self._record(job, place_, wound.lost) for place_ in found])
        self._say(job, f"{wound_words(draft, job, wound.lacks)}; others of it make way")
        return True

    def _from_others(self, wound: Wound) -> bool:
        """Let gangs of lower priority make way for lost members; whether that helps."""
        world, job = self._world, wound.job
        index = world.topology.node_index
        kept = {(p.role, p.index): index[p.node] for p in wound.kept if p.node in index}
        former = {
            member: Former() if pod is None else Former(index.get(pod.node), pod.gpu_mask)
            for member, pod in wound.lost.items()
        }
        if not self._preemption.has_time:
            return False
        spec = spec_of_lost(world.trial, job.spec, kept, former, job.gpus_per_pod)
        chosen = None if spec is None else self._preemption.victims_for(job, spec)
        if chosen is None:
            return False
        roles = {role.name: role.resources for role in job.spec.roles}
        places = [
            replace(
                place_,
                role=member[0],
                index=member[1],
                first_rank=member[1] * job.gpus_per_pod,
                resources=roles.get(member[0], job.spec.resources_per_pod),
            )
            for member, place_ in zip(sorted(wound.lost), chosen.placement.pods, strict=True)
        ]
        self._preemption.evict(job, chosen)
        self._keep(job, [self._record(job, place_, wound.lost) for place_ in places])
        said = wound_words(self._draft, job, wound.lacks)
        self._say(job, f"{said}; has places for the others when other jobs have made way")
        return True

    def _is_denied(self, wound: Wound, places: list[PodPlace]) -> bool:
        """Whether what it would hold beyond what it holds is more than its queues may."""
        live = [p for p in wound.lost.values() if p is not None and p.is_live]
        job, own = wound.job, self._charges.use_of(*live)
        self._charges.remove(job, own)
        denied = self._charges.now.denied(job, use_of_places(self._world.topology, places))
        self._charges.add(job, own)
        return denied is not None

    def places_for(
        self,
        job: JobRecord,
        kept: Iterable[PodRecord],
        lost: dict[Member, PodRecord | None],
        leaving: Iterable[PodRecord] = (),
    ) -> list[PodPlace] | Rule | None:
        """Places for members beside those that stay, `leaving` pods of others making way."""
        return places_beside(self._draft, self._pool, job, kept, lost, leaving)

    def _take(self, wound: Wound, places: list[PodPlace]) -> None:
        """Members start anew at these places, or as soon as they have stopped where they were."""
        draft, job = self._draft, wound.job
        pods = [self._record(job, place, wound.lost) for place in places]
        waits = any(
            pod is not None and pod.state is PodState.TERMINATING for pod in wound.lost.values()
        )
        if waits:
            self._keep(job, pods)
            self._say(job, f"{wound_words(draft, job, wound.lacks)}; has places for the others")
            return
        self._start(wound, pods)

    def _start(self, wound: Wound, pods: list[PodRecord]) -> None:
        draft, job = self._draft, wound.job
        if wound.is_whole:
            draft.forget_done(job)
        stay = [started_anew(draft, pod) for pod in wound.kept] if wound.is_whole else []
        self.restart(job, sorted([*stay, *pods], key=lambda p: (p.role, p.index)))
        message = anew_words(wound, pods)
        job = begin_attempt(draft, draft.jobs[job.uid], message, whole=wound.is_whole)
        # From the line a gang is bound first, though members that were done may be all it needs.
        is_in_line = wound.job.state is JobState.PENDING
        state = JobState.BOUND if is_in_line else state_of(draft, job)
        draft.set(job, state=state, message=message if state is JobState.BOUND else "")

    def restart(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Members start, or start anew; what they held and hold is charged to their queue."""
        new, known = list(pods), self._draft.pods(job.uid)
        self._give_up_spares(job, new)
        live = [known[p.uid] for p in new if p.uid in known and known[p.uid].is_live]
        self._charges.remove(job, self._charges.use_of(*live))
        self._charges.add(job, self._charges.use_of(*new))
        self._draft.restart(job, new)

    def give_up_lost(self, job: JobRecord, new: Iterable[PodRecord]) -> None:
        """Lost members give up the places, on nodes that are there again, that others get."""
        pods = list(new)
        for pod in self._draft.live_pods(job.uid):
            if pod.state is PodState.LOST and any(
                other.node == pod.node and other.gpu_mask & pod.gpu_mask and other.uid != pod.uid
                for other in pods
            ):
                self._draft.move_pod(pod, PodState.STOPPED)

    def end_wait(self, job: JobRecord) -> JobRecord:
        """A member above the minimum has waited long enough after its crash: it may come back."""
        if job.reason is not Reason.BACKOFF:
            return job
        self._drop_claims(job)
        return self._draft.set(self._draft.jobs[job.uid], reason=None, message="")

    def mend_parts(self, job: JobRecord) -> None:
        """Parts above the minimum that lost members get them back, or stop as a whole.

        No part runs in part; one that must run makes its gang recovering.
        """
        if all(role.parts is None for role in job.spec.roles):
            return
        draft = self._draft
        sizes = {r.name: r.parts.size for r in job.spec.roles if r.parts is not None}
        for (name, part), there in broken_parts(job, draft.pods(job.uid).values()).items():
            pods = draft.pods(job.uid).values()
            by_member = {(p.role, p.index): p for p in pods}
            members = [(name, part * sizes[name] + k) for k in range(sizes[name])]
            have = {(p.role, p.index) for p in there}
            lost = {m: by_member.get(m) for m in members if m not in have}
            leaves = any(p is not None and p.state is PodState.TERMINATING for p in lost.values())
            wound = Wound(job, lacks_of(job, pods), tuple(there_of(pods)), lost, is_whole=False)
            found = None if leaves else self.places_for(job, wound.kept, lost)
            if found is None or isinstance(found, Rule) or self._is_denied(wound, found):
                for pod in there:
                    if pod.is_live:
                        draft.move_pod(pod, PodState.TERMINATING)
                continue
            self.restart(job, [self._record(job, place_, lost) for place_ in found])

    def places_to_move(self, job: JobRecord, leaving: list[PodRecord]) -> list[PodPlace] | None:
        """Places for members that are to leave theirs, or for the whole gang if need be.

        A move for people's sake costs no other gang its place.
        """
        pods = self._draft.pods(job.uid).values()
        lost: dict[Member, PodRecord | None] = {(p.role, p.index): p for p in leaving}
        kept = [p for p in there_of(pods) if (p.role, p.index) not in lost]
        wound = Wound(job, lacks_of(job, pods), tuple(kept), lost, is_whole=False)
        found = self.places_for(job, kept, lost)
        if isinstance(found, list) and not self._is_denied(wound, found):
            return found
        if job.spec.failure.scope is Scope.POD:
            return None
        whole = self.whole_place(job)
        # Another size is another attempt, which nobody asked for.
        if whole is None or whole.gpus_per_pod != job.gpus_per_pod:
            return None
        live = [p for p in pods if p.is_live]
        return list(whole.pods) if len(whole.pods) == len(live) else None

    def keep_places(self, job: JobRecord, places: Iterable[PodPlace]) -> None:
        """Keep places for members that move there once they have stopped where they are."""
        by_member = {(p.role, p.index): p for p in self._draft.pods(job.uid).values()}
        lost: dict[Member, PodRecord | None] = dict(by_member)
        self._keep(job, [self._record(job, place_, lost) for place_ in places])

    def _record(
        self, job: JobRecord, place_: PodPlace, lost: dict[Member, PodRecord | None]
    ) -> PodRecord:
        pod = pod_record(self._world, job, place_)
        before = lost.get((pod.role, pod.index))
        return pod if before is None else replace(pod, first_rank=before.first_rank)

    def _give_up_spares(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Spares that become places are spares no more; nor are nodes of pools."""
        nodes = {pod.node for pod in pods}
        self._draft.let_go([c for c in self._draft.claims_of_pools() if c.node in nodes])
        spares = self._draft.claims_of(job.uid, ClaimWhy.SPARE)
        used = [c for c in spares if c.node in nodes]
        self._charges.remove(job, self._charges.use_of_claims(used))
        self._draft.let_go(used)

    # -- claims -----------------------------------------------------------------------------------

    def _only_waits(self, job: JobRecord, claims: list[Claim]) -> bool:
        """Whether the places are where its members are or were, and their nodes still there."""
        gone, index = self._world.gone, self._world.topology.node_index
        pods = self._draft.pods(job.uid)
        by_uid = {str(uid): pod for uid, pod in pods.items()}
        return all(
            c.node in index
            and c.node not in gone
            and c.uid in by_uid
            and by_uid[c.uid].node == c.node
            for c in claims
        )

    def _start_if_free(self, job: JobRecord, claims: list[Claim]) -> bool:
        """Start members in the places that are kept for them, once nobody else is there."""
        draft = self._draft
        if job.not_before_s is not None and job.not_before_s > draft.now_s:
            draft.wake_at(job.not_before_s)
            self._wait_for_time(job)
            return True
        wound = wound_of(draft, job)
        ready = {(c.role, c.index): (c.node, c.gpu_mask) for c in claims}
        is_found = any(
            ready.get((p.role, p.index), (p.node, p.gpu_mask)) != (p.node, p.gpu_mask)
            for p in wound.kept
            if p.is_live
        )
        if is_found or set(wound.lost) - ready.keys():
            # Others were lost meanwhile, or some were found where they were, and run there: all
            # that lack a place get one together, beside those that have theirs.
            self._drop_claims(job)
            return False
        pods = {(p.role, p.index): p for p in draft.pods(job.uid).values()}
        before = [pods[member] for member in sorted(ready) if member in pods]
        stopping = [p for p in before if p.state is PodState.TERMINATING]
        if stopping or not is_free(self._world, claims):
            return True
        new = [pod_record(self._world, job, place_of(self._world, claim)) for claim in claims]
        self._drop_claims(job)
        kept = tuple(p for p in wound.kept if (p.role, p.index) not in ready)
        self._start(replace(wound, kept=kept, is_whole=wound.is_whole or not kept), new)
        return True

    def _wait_for_time(self, job: JobRecord) -> None:
        """Once its pods have stopped it holds nothing but its places."""
        if job.state is JobState.RECOVERING and not self._draft.live_pods(job.uid):
            self._draft.set(
                job,
                state=JobState.PENDING,
                reason=Reason.BACKOFF,
                hold_until_s=None,
                bound_s=None,
                started_s=None,
            )

    def _keep(self, job: JobRecord, pods: Iterable[PodRecord]) -> None:
        """Keep places until members can start there."""
        kept = list(pods)
        self._give_up_spares(job, kept)
        claims = [recovery_claim(pod) for pod in kept]
        make_way(self._draft, claims)
        self._draft.keep(claims)
        self._charges.add(job, self._charges.use_to_come(job.uid, claims))

    def _drop_claims(self, job: JobRecord) -> None:
        """Give up places that were kept; whoever was to leave for them and was not asked stays."""
        claims = self._draft.claims_of(job.uid, ClaimWhy.RECOVERY)
        self._charges.remove(job, self._charges.use_to_come(job.uid, claims))
        give_up_recovery(self._draft, job.uid)

    # -- elsewhere --------------------------------------------------------------------------------

    def _elsewhere(self, wound: Wound) -> bool:
        """Move the whole gang to where it fits now, should its rules not be kept where it is."""
        draft, job, world = self._draft, wound.job, self._world
        if job.spec.failure.scope is Scope.POD:
            return False
        found = self.whole_place(job)
        if found is None:
            return False
        pods = [pod_record(world, job, place_) for place_ in found.pods]
        # Spares are of use where the gang is.
        spares = draft.claims_of(job.uid, ClaimWhy.SPARE)
        self._charges.remove(job, self._charges.use_of_claims(spares))
        draft.let_go(spares)
        stopping = self._stop_all(job)
        job = draft.set(
            draft.jobs[job.uid],
            gpus_per_pod=found.gpus_per_pod,
            node_type=found.node_type,
            pod_count=len(pods) if job.spec.dp_sizes else 0,
        )
        if stopping:
            self._keep(job, pods)
            settle_wound(draft, job)
            self._say(
                job,
                f"{wound_words(draft, job, wound.lacks)}; has its place elsewhere as a whole,"
                " starts when its other pods have stopped",
            )
            return True
        empty = Wound(job, wound.lacks, (), {}, is_whole=True)
        self._start(empty, pods)
        return True

    def whole_place(self, job: JobRecord) -> Placement | None:
        """Where the gang fits as a whole."""
        return whole_place(self._draft, self._charges, job)

    def _stop_all(self, job: JobRecord) -> bool:
        """Tell all its pods to stop: without the lost ones the gang is broken; whether any does."""
        stopping = False
        self._draft.forget_done(job)
        for pod in self._draft.live_pods(job.uid):
            if pod.node in self._world.gone or pod.state is PodState.LOST:
                self._charges.remove(job, self._charges.use_of(pod))
                self._draft.move_pod(pod, PodState.STOPPED)
                continue
            stopping = True
            if pod.state is not PodState.TERMINATING:
                self._draft.move_pod(pod, PodState.TERMINATING)
        return stopping

    # -- waiting ----------------------------------------------------------------------------------

    def _hold_on(self, wound: Wound, rule: Rule | None) -> None:
        """Wait with what is left until the limit, then give up all and go first in line."""
        draft, job = self._draft, wound.job
        said = wound_words(draft, job, wound.lacks)
        if job.hold_until_s is not None and job.hold_until_s <= draft.now_s:
            why = f"{said}; no place was found within {job.spec.failure.hold_s:g} s: starts over"
            draft.set(job, goes_first=True, hold_until_s=None, lost_since_s=None)
            before = draft.live_pods(job.uid)
            leave_now(draft, draft.jobs[job.uid], JobState.PENDING, why, PodState.STOPPED)
            now = draft.pods(job.uid)
            left = [pod for pod in before if not now[pod.uid].is_live]
            self._charges.remove(job, self._charges.use_of(*left))
            return
        draft.wake_at(job.hold_until_s)
        until = "" if job.hold_until_s is None else moment(job.hold_until_s, draft.now_s)
        self._say(job, f"{said}; {looked(job.spec, rule)}; holds the rest until {until}")

    def _say(self, job: JobRecord, message: str) -> None:
        job = self._draft.jobs[job.uid]
        if job.message != message or job.reason is not None:
            self._draft.set(job, message=message, reason=None)
