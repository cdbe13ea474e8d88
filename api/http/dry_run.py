"""Where a job would go now, or why nowhere; nothing is written."""

from api.auth import Caller
from api.http.explaining import may_see
from api.http.placement_laid import Laid
from api.http.placement_view import placement
from api.http.service import Service
from api.http.shapes import Shape
from api.http.verdicts import answered, fits_now
from api.schemas.job import JobBody
from api.store.policy import load_policy
from api.store.views import PodView
from scheduler.cluster.world import World
from scheduler.explain.answer import Answer
from scheduler.explain.explain import ask
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import PodState
from scheduler.model.placement import Placement, PodPlace
from scheduler.topology.tree import Topology


def dry_run_of(service: Service, caller: Caller, body: JobBody) -> Shape:
    """The answer of a dry run.

    Raises:
        JobError: With every contradiction found, by its path.
    """
    spec = service.door.check(body, caller.namespaces).spec

    now_s, policy = service.clock.now_s(), load_policy(service.database)

    def question(world: World) -> tuple[Placement | Answer, Topology, int]:
        found = ask(world, spec, policy, now_s, may_see(caller))
        return found, world.topology, world.revision

    found, topology, revision = service.reader.ask(question)
    if isinstance(found, Answer):
        return answered(found)
    proposed = _laid(spec, found, topology, revision)
    return fits_now(found) | {"placement": placement(service, proposed)}


def _laid(spec: JobSpec, found: Placement, topology: Topology, revision: int) -> Laid:
    return Laid(
        spec=spec,
        attempt=0,
        revision=revision,
        search=found.search,
        node_type=found.node_type,
        gpus_per_pod=found.gpus_per_pod,
        pods=tuple(_pod(spec, place, topology, revision) for place in found.pods),
        topology=topology,
        gap=found.gap,
    )


def _pod(spec: JobSpec, place: PodPlace, topology: Topology, revision: int) -> PodView:
    name = (
        (spec.name, place.role, str(place.index)) if place.role else (spec.name, str(place.index))
    )
    return PodView(
        uid="",
        job_uid="",
        namespace=spec.namespace,
        job=spec.name,
        name="-".join(name),
        role=place.role,
        index=place.index,
        node=topology.nodes[place.node_index].name,
        gpu_mask=place.gpu_mask,
        first_rank=place.first_rank,
        state=PodState.BOUND,
        attempt=0,
        exit_code=None,
        resources=place.resources,
        revision=revision,
    )
