"""Every question that can be asked of a service: each read of `/v1`, each kind of Kubernetes'."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from api.k8s.registry import registry
from tests.api.http.contract import description
from tests.api.http.yard import Json
from tests.api.tenants.town import ALPHA, BETA, MARK, alpha_job, gang

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

NODES = tuple(f"{rack}{number}" for rack in "abc" for number in (1, 2, 3, 4))
OURS = ("low", "run", "high", "wait", "gone-for-good")
THEIRS = tuple(f"{MARK}-{name}" for name in ("run", "low", "high", "wait", "held", "done", "gone"))
QUEUES = ("default", "org", "ours", "shared")

POD = "/v1/namespaces/{namespace}/pods/{name}"
JOB = "/v1/namespaces/{namespace}/jobs/{name}"

OF_NOBODY = frozenset(
    {"/v1/audit", "/v1/whoami", "/healthz", "/readyz", "/metrics", "/v1/watch", f"{POD}/logs"}
)
"""Not this tenant's to ask, of no tenant, or asked with more care, as watches are."""


@dataclass(frozen=True)
class Question:
    """Attributes:
    accept: Kubernetes' tables are another way to the same texts.
    """

    method: str
    path: str
    body: Json | None = field(default=None, hash=False)
    accept: str = ""

    @property
    def headers(self) -> dict[str, str] | None:
        return {"Accept": self.accept} if self.accept else None

    def as_of(self, old: str, new: str) -> "Question":
        """The same about things of another name."""
        body = None if self.body is None else _renamed(self.body, old, new)
        return Question(self.method, self.path.replace(old, new), body, self.accept)


def questions(*, theirs: bool) -> Iterator[Question]:
    """All of them; with `theirs` those that name things of the other tenant, else the others.

    Raises:
        KeyError: If a route is new and nobody has said what it is to be asked.
    """
    every = [*_of_v1(theirs=theirs), *_of_kubernetes(theirs=theirs), *_posted(theirs=theirs)]
    for question in every:
        if (MARK in f"{question.path}{question.body}") is theirs:
            yield question


def _of_v1(*, theirs: bool) -> Iterator[Question]:
    spaces = (BETA,) if theirs else (ALPHA,)
    jobs = THEIRS if theirs else OURS
    for route, methods in description()["paths"].items():
        if "get" in methods and route not in OF_NOBODY:
            for path in _filled(route, spaces, jobs):
                yield Question("GET", path)
    for route, queries in _queries(theirs=theirs).items():
        for query in queries:
            yield Question("GET", f"{route}?{query}")


def _filled(route: str, spaces: tuple[str, ...], jobs: tuple[str, ...]) -> list[str]:
    if "{" not in route:
        return [route]
    begin = route.split("{")[0]
    if route.startswith(JOB):
        return [route.replace("{namespace}", s).replace("{name}", j) for s in spaces for j in jobs]
    if begin == "/v1/nodes/":
        return [route.replace("{name}", n).replace("{id}", i) for n in NODES for i in ("1", "9")]
    known = {
        "/v1/queues/": (*QUEUES, f"{MARK}-queue", f"{MARK}-gone"),
        "/v1/reservations/": ("none", "window"),
        "/v1/hooks/deliveries/": ("1", "2", "none"),
        "/dashboard/": ("main.js",),
    }
    return [route.replace("{name}", n).replace("{id}", n) for n in known[begin]]


def _queries(*, theirs: bool) -> dict[str, list[str]]:
    space, job = (BETA, f"{MARK}-run") if theirs else (ALPHA, "run")
    of_job = [f"namespace={space}", f"job={job}", f"namespace={space}&job={job}"]
    names = OURS if not theirs else THEIRS
    return {
        "/v1/jobs": [f"namespace={space}", "state=running", "limit=1", f"queue={MARK}-queue"],
        "/v1/pods": [*of_job, f"job={space}/{job}", *(f"node={node}" for node in NODES), "limit=1"],
        "/v1/claims": [*of_job, *(f"node={node}" for node in NODES), "limit=1"],
        "/v1/events": [*of_job, "limit=5", "kind=queue", "kind=object", "kind=job.submitted"],
        "/v1/watch": [
            f"since=0&timeout_s=0.2&{query}" for query in ("kind=job", *of_job, "pace_s=0")
        ],
        "/v1/usage": [
            f"by={by}{more}"
            for by in ("queue", "namespace", "job", "gpu")
            for more in ("", f"&namespace={space}", f"&queue={MARK}-queue", "&limit=1")
        ],
        "/v1/hooks/deliveries": [*of_job, "limit=1"],
        "/v1/domains": ["level=rack", "level=leaf"],
        "/v1/map": ["since=1"],
        "/v1/queues": ["limit=1"],
        "/v1/series": ["span_s=60"],
        **{f"/v1/namespaces/{space}/jobs/{name}": ["wait=finished&timeout_s=0"] for name in names},
        **{f"/v1/namespaces/{space}/jobs/{name}/explain": ["at=60"] for name in names},
    }


def _posted(*, theirs: bool) -> Iterator[Question]:
    """What is asked with a body: dry runs, what-ifs, reviews."""
    big = alpha_job("new", **gang(11))
    changes: list[Json] = [{"kind": "drain", "nodes": ["a[1-4]", "b[1-4]"]}]
    bodies: list[Json] = [
        {"jobs": [big]},
        {"changes": changes},
        {"jobs": [big, big | {"name": "m"}]},
    ]
    jobs = [big, alpha_job("new", queue="shared", **gang(12))]
    if theirs:
        jobs = [big | {"namespace": BETA}, big | {"queue": f"{MARK}-queue"}]
        names = (f"{BETA}/{MARK}-run", f"{BETA}/{MARK}-wait")
        changed: list[Json] = [
            {"kind": "priority", "job": names[1], "priority": 5},
            {"kind": "quota", "queue": f"{MARK}-queue", "quota_gpus": 8},
        ]
        for kind in ("finish", "cancel"):
            changed += [{"kind": kind, "job": name} for name in names]
        bodies = [{"changes": [change]} for change in changed]
        bodies += [{"jobs": [job]} for job in jobs]
    yield from (Question("POST", "/v1/whatif", body) for body in bodies)
    yield from (Question("POST", "/v1/jobs?dry_run=true", job) for job in jobs)


def _of_kubernetes(*, theirs: bool) -> Iterator[Question]:
    space = BETA if theirs else ALPHA
    for path in ("/version", "/api", "/apis", "/api/v1", "/openapi/v3"):
        yield Question("GET", path)
    for handler in registry().handlers:
        kind = handler.kind
        if "list" not in kind.verbs:
            continue
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        lists = [f"{root}/{kind.plural}"]
        if kind.namespaced:
            lists.append(f"{root}/namespaces/{space}/{kind.plural}")
        for path in lists:
            for accept in ("application/json", TABLE):
                yield Question("GET", path, accept=accept)
                yield Question("GET", f"{path}?limit=1", accept=accept)
            if "watch" in kind.verbs:
                watch = "watch=true&resourceVersion=0&timeoutSeconds=1"
                yield Question("GET", f"{path}?{watch}")
        yield from _named(f"{lists[-1]}/", kind.plural, theirs=theirs)
    yield Question("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da1")
    yield Question("GET", f"/api/v1/events?fieldSelector=involvedObject.name%3D{MARK}-run")


def _named(root: str, plural: str, *, theirs: bool) -> Iterator[Question]:
    by_kind = {
        "jobs": (*OURS, *THEIRS),
        "nodes": NODES,
        "queues": (*QUEUES, "root", f"{MARK}-queue", f"{MARK}-gone"),
        "namespaces": (ALPHA, BETA, "default"),
        "pods": (f"{MARK}-run-{MARK}-m-0", "run-m-0", f"{MARK}-pod"),
    }
    for name in by_kind.get(plural, (f"{MARK}-object", "object")):
        yield Question("GET", f"{root}{name}")


def _renamed(body: Json, old: str, new: str) -> Json:
    def of(value: object) -> object:
        if isinstance(value, dict):
            return {key: of(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [of(inner) for inner in value]
        return value.replace(old, new) if isinstance(value, str) else value

    return {key: of(value) for key, value in body.items()}
