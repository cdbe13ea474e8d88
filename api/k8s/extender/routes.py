"""The routes of scheduler extenders: `/extender/volcano/VERB` and `/extender/kube/VERB`."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from api.k8s.extender.kube import KubeExtender
from api.k8s.extender.reading import MalformedRequest, Tree, read_tree
from api.k8s.extender.volcano import VolcanoExtender
from api.schemas.reading import write_json
from api.store.engine import Database
from api.store.topology import load_topology
from scheduler.topology.tree import Topology

PREFIX = "/extender/"
VOLCANO, KUBE = f"{PREFIX}volcano/", f"{PREFIX}kube/"


def extender_router(database: Database) -> APIRouter:
    """One POST for each verb; described by the schedulers that ask."""
    router = APIRouter(include_in_schema=False)

    def own_topology() -> Topology:
        return load_topology(database).topology

    volcano, kube = VolcanoExtender(own_topology), KubeExtender(own_topology)
    for verb in volcano.verbs:
        router.add_api_route(
            VOLCANO + verb, _route(_volcano_verb(volcano, verb)), methods=["POST"], name=verb
        )
    for name, answer in (("filter", kube.filter), ("prioritize", kube.prioritize)):
        router.add_api_route(KUBE + name, _route(answer), methods=["POST"], name=f"kube-{name}")
    return router


def _volcano_verb(extender: VolcanoExtender, verb: str) -> Callable[[Tree], object]:
    return lambda body: extender.answer(verb, body)


def _route(answer: Callable[[Tree], object]) -> Callable[[Request], object]:
    async def route(request: Request) -> Response:
        body = await request.body()
        try:
            found = await run_in_threadpool(lambda: answer(read_tree(body)))
        except MalformedRequest as error:
            # Schedulers take any status but 200 for a failure and log the text.
            return Response(f"{error}\n", status_code=400, media_type="text/plain")
        return Response(write_json(found), media_type="application/json")

    return route
