"""The inventory: import a cluster's description in many formats, and read it back."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from api.http import example_bodies, examples
from api.http.answers import Json, answers, takes_text, text_answer
from api.http.body import JSON, YAML_TYPES, media_type
from api.http.routing import Served, make_router
from api.http.shapes import Shape
from api.ingest.asked import PODYARD, Asked
from api.schemas.common import LEVEL_PATTERN, LINE_PATTERN, NAME_PATTERN
from api.schemas.inventory import Imported
from api.schemas.reading import InvalidFields
from api.store.changes import FieldChange
from api.store.inventory import export_inventory, find_node_type, import_inventory
from api.store.views import ImportResult
from scheduler.errors import Problem
from scheduler.importers import podyard_yaml
from scheduler.model.resources import MAX_GPUS_PER_NODE

router = make_router("cluster")

TYPES = (*YAML_TYPES, JSON, "text/plain", "text/csv", "application/xml", "text/xml")
YAML = YAML_TYPES[0]

_LIST = {"max_length": 4_000, "pattern": LINE_PATTERN}


Format = Annotated[
    str | None,
    Query(
        max_length=40,
        pattern=LINE_PATTERN,
        description="podyard, slurm, topograph, kubernetes, csv, ibnetdiscover, sharp, nccl or "
        "nvidia-smi; without it the format is guessed where that is safe.",
    ),
]
Cluster = Annotated[str | None, Query(pattern=NAME_PATTERN, description="Name of the cluster.")]
NodeTypeName = Annotated[
    str | None,
    Query(
        pattern=NAME_PATTERN,
        description="Type of the nodes whose hardware the text does not tell: a built-in one, "
        "one that the cluster has, or a new one with `gpus`. For nccl and nvidia-smi the type "
        "that was measured.",
    ),
]
Gpu = Annotated[
    str | None,
    Query(max_length=100, pattern=LINE_PATTERN, description="The GPU of such a node."),
]
Gpus = Annotated[
    int | None,
    Query(ge=0, le=MAX_GPUS_PER_NODE, description="The number of GPUs of such a node."),
]
ScaleUp = Annotated[
    str | None,
    Query(
        pattern=LEVEL_PATTERN,
        description="Level inside which GPUs talk over NVLink or the like.",
    ),
]
LevelNames = Annotated[
    str | None,
    Query(
        **_LIST,
        description="For slurm, topograph, ibnetdiscover and sharp: names of the levels from "
        "the nodes outwards, as in leaf,block,core.",
    ),
]
LabelLevels = Annotated[
    str | None,
    Query(
        **_LIST,
        description="For kubernetes: level:label for each level, outermost first, in place of "
        "the usual table; a level named twice has two labels, of which the first that a node "
        "has counts.",
    ),
]
LabelSets = Annotated[
    str | None,
    Query(**_LIST, description="For kubernetes: kind:label for each kind of named sets."),
]
Columns = Annotated[
    str | None,
    Query(
        **_LIST,
        description="For csv: column:meaning for each column that is used; meanings are host, "
        "gpu model, gpus, cpu, memory, accelerator, or the name of a level, outermost first.",
    ),
]
TopologyName = Annotated[
    str | None,
    Query(
        max_length=253,
        pattern=LINE_PATTERN,
        description="For slurm: which topology of a topology.yaml that holds several.",
    ),
]


async def _text(request: Request) -> bytes:
    media_type(request, TYPES)
    return await request.body()


def _asked(
    *,
    format: Format = None,
    cluster: Cluster = None,
    node_type: NodeTypeName = None,
    gpu: Gpu = None,
    gpus: Gpus = None,
    scale_up: ScaleUp = None,
    level_names: LevelNames = None,
    label_levels: LabelLevels = None,
    label_sets: LabelSets = None,
    columns: Columns = None,
    topology: TopologyName = None,
) -> Asked:
    return Asked(
        format=format or "",
        cluster=cluster or "",
        node_type=node_type or "",
        gpu=gpu or "",
        gpus=gpus,
        scale_up=scale_up or "",
        level_names=level_names or "",
        label_levels=label_levels or "",
        label_sets=label_sets or "",
        columns=columns or "",
        topology=topology or "",
    )


@router.post(
    "/v1/inventory",
    summary="Import a cluster's description",
    responses=answers(Imported, examples.IMPORTED, 400, 413, 415, 422, says="What it changed."),
    openapi_extra=takes_text(TYPES, example_bodies.INVENTORY),
)
def post_inventory(
    service: Served,
    text: Annotated[bytes, Depends(_text)],
    asked: Annotated[Asked, Depends(_asked)],
    *,
    dry_run: Annotated[bool, Query(description="Change nothing; say what would change.")] = False,
    prune: Annotated[bool, Query(description="Remove the nodes that it does not name.")] = False,
) -> Json:
    """Create and update nodes; nothing is written when any record is wrong.

    What the text does not tell stays as it is: a table of cables leaves alone what GPUs there are,
    a list of Kubernetes nodes without labels of places where they are. A node that holds live pods
    is never removed. The same import again changes nothing.
    """
    database = service.database
    # The readers of all formats come with networkx: a service that starts has no time for them.
    from api.ingest.topology import read_inventory

    read = read_inventory(text, asked, lambda name: find_node_type(database, name))
    result = import_inventory(
        database,
        read.inventory,
        prune=prune,
        dry_run=dry_run,
        now_s=service.clock.now_s(),
        coverage=read.coverage,
    )
    return Json({"format": read.format} | _told(result))


def _told(result: ImportResult) -> Shape:
    changes = result.changes
    return {
        "created": result.created,
        "updated": result.updated,
        "unchanged": result.unchanged,
        "removed": result.removed,
        "kept": result.kept,
        "warnings": list(result.warnings),
        "cluster_changes": [_field(change) for change in changes.cluster],
        "changes": [
            {"node": node.node, "change": node.change, "fields": [_field(f) for f in node.fields]}
            for node in changes.nodes
        ],
        "changes_left_out": changes.left_out,
        "revision": result.revision,
    }


def _field(change: FieldChange) -> Shape:
    return {"field": change.field, "from": change.before, "to": change.after}


@router.get(
    "/v1/inventory",
    summary="Export the inventory",
    response_class=Response,
    responses=text_answer(
        YAML, example_bodies.FOUR_NODES, "The whole inventory; its import would change nothing."
    ),
)
def get_inventory(
    service: Served,
    format: Annotated[
        str, Query(max_length=40, pattern=LINE_PATTERN, description="Format of the answer.")
    ] = PODYARD,
) -> Response:
    """Levels, types, nodes, racks, sets and fabric as they were given, contradictions included."""
    if format != PODYARD:
        raise InvalidFields(Problem("format", f"found '{format}'; it is written as {PODYARD}"))
    text = podyard_yaml.render(export_inventory(service.database))
    return Response(text, media_type=YAML)
