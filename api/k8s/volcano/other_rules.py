"""What the webhook asks of pod groups, pods, hypernodes, cron jobs and job flows."""

import re
from collections.abc import Iterator
from zoneinfo import available_timezones

from api.k8s.volcano import words
from api.k8s.volcano.cron import cron_problem
from api.k8s.volcano.depends import on_cycle
from api.k8s.volcano.job_defaults import defaulted_job
from api.k8s.volcano.job_rules import create_problems, topology_problems
from api.k8s.volcano.patch import Operation
from api.k8s.volcano.pod_rules import text_at, texts, tree, trees
from api.k8s.volcano.shape import Tree
from api.k8s.volcano.site import Site
from scheduler.errors import Problem

JDB_LEAST = "volcano.sh/jdb-min-available"
JDB_MOST = "volcano.sh/jdb-max-unavailable"
CRON_NAME_MAX = 52
"""The name of a job that a cron job makes has 11 characters more."""

_PERCENT = re.compile(r"[1-9][0-9]?%\Z")
_COUNT = re.compile(r"0*[1-9][0-9]{0,8}\Z")
_SELECTORS = ("exactMatch", "regexMatch", "labelMatch")


def group_defaults(group: Tree, site: Site, namespace: str) -> list[Operation]:
    """The queue that the group's namespace names, for a group that names none of its own."""
    queue = site.namespace_queues.get(namespace)
    if queue and text_at(tree(group, "spec"), "queue") == "default":
        return [{"op": "add", "path": "/spec/queue", "value": queue}]
    return []


def group_problems(group: Tree, site: Site) -> Iterator[Problem]:
    """What is wrong with a new pod group."""
    spec = tree(group, "spec")
    queue = text_at(spec, "queue")
    if queue:
        found = site.queues.get(queue)
        if found is None:
            yield Problem("spec.queue", f"there is no queue '{queue[:60]}'")
        elif found.state != "Open":
            yield Problem("spec.queue", f"queue '{queue}' is {found.state}, not Open")
    yield from topology_problems(spec, "spec")
    for index, policy in enumerate(trees(spec, "subGroupPolicy")):
        yield from topology_problems(policy, f"spec.subGroupPolicy[{index}]")


def pod_problems(pod: Tree, site: Site) -> Iterator[Problem]:
    """What is wrong with a pod for one of our schedulers."""
    if text_at(tree(pod, "spec"), "schedulerName") not in site.schedulers:
        return
    notes = tree(tree(pod, "metadata"), "annotations")
    given = [key for key in (JDB_LEAST, JDB_MOST) if key in notes]
    if len(given) > 1:
        message = f"is given with {JDB_LEAST}; give one of them"
        yield Problem(f"metadata.annotations.[{JDB_MOST}]", message)
    for key in given:
        value = text_at(notes, key)
        if not _COUNT.match(value) and not _PERCENT.match(value):
            yield Problem(
                f"metadata.annotations.[{key}]",
                f"found '{value[:40]}'; write a number above 0, or 1% to 99%",
            )


def hypernode_problems(hypernode: Tree) -> Iterator[Problem]:
    """What is wrong with a hypernode."""
    members = trees(tree(hypernode, "spec"), "members")
    if not members:
        yield Problem("spec.members", "is required; a hypernode has at least one member")
    for index, member in enumerate(members):
        path, selector = f"spec.members[{index}].selector", tree(member, "selector")
        given = [name for name in _SELECTORS if isinstance(selector.get(name), dict)]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            yield Problem(path, f"found {found}; give exactly one of {', '.join(_SELECTORS)}")
            continue
        if "labelMatch" in given and text_at(member, "type") == "HyperNode":
            yield Problem(f"{path}.labelMatch", "selects nodes; this member is a HyperNode")
        yield from _match_problems(selector, path)


def _match_problems(selector: Tree, path: str) -> Iterator[Problem]:
    exact, pattern = tree(selector, "exactMatch"), tree(selector, "regexMatch")
    name = text_at(exact, "name")
    if "exactMatch" in selector and not (words.is_qualified(name) or words.is_subdomain(name)):
        yield Problem(f"{path}.exactMatch.name", words.wrong(name, words.QUALIFIED))
    if "regexMatch" in selector:
        problem = pattern_problem(text_at(pattern, "pattern"))
        if problem:
            yield Problem(f"{path}.regexMatch.pattern", problem)


PATTERN_MAX = 1_000

_NOT_RE2 = re.compile(r"\(\?(?:[=!]|<[=!]|P=|\()|\\[1-9]")
"""What Python's patterns have and RE2 refuses: looking around, going back."""


def pattern_problem(pattern: str) -> str:
    """What is wrong with a regular expression; "" where nothing is."""
    if not pattern:
        return "is required"
    if len(pattern) > PATTERN_MAX:
        return f"found {len(pattern)} characters; at most {PATTERN_MAX} are allowed"
    if _NOT_RE2.search(pattern):
        return f"found '{pattern[:60]}'; RE2 knows no look-around and no back-references"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"found '{pattern[:60]}': {error}"
    return ""


def cron_problems(cron: Tree, site: Site) -> Iterator[Problem]:
    """What is wrong with a cron job."""
    name, spec = text_at(tree(cron, "metadata"), "name"), tree(cron, "spec")
    if not words.is_qualified(name) or len(name) > CRON_NAME_MAX:
        yield Problem("metadata.name", f"found '{name[:80]}'; at most {CRON_NAME_MAX} letters")
    schedule = text_at(spec, "schedule")
    problem = cron_problem(schedule)
    if problem:
        yield Problem("spec.schedule", problem)
    zone = spec.get("timeZone")
    if zone is not None and (zone == "Local" or zone not in available_timezones()):
        yield Problem("spec.timeZone", f"found '{str(zone)[:60]}'; write one as in Europe/Berlin")
    template = tree(spec, "jobTemplate")
    job = defaulted_job({"metadata": {"name": name}, "spec": tree(template, "spec")})
    for problem_ in create_problems(job, site):
        if problem_.path != "metadata.name":
            yield Problem(f"spec.jobTemplate.{problem_.path}", problem_.message)


def flow_problems(flow: Tree) -> Iterator[Problem]:
    """What is wrong with a job flow."""
    flows = trees(tree(flow, "spec"), "flows")
    names = [text_at(item, "name") for item in flows]
    edges: dict[str, list[str]] = {}
    for index, item in enumerate(flows):
        targets = texts(tree(item, "dependsOn"), "targets")
        edges.setdefault(names[index], []).extend(targets)
        for target in targets:
            if target not in names:
                where = f"spec.flows[{index}].dependsOn.targets"
                yield Problem(where, f"no flow '{target[:60]}'")
    ring = sorted(on_cycle({n: [t for t in ts if t in names] for n, ts in edges.items()}))
    if ring:
        yield Problem("spec.flows", f"flows wait for each other: {', '.join(ring)[:200]}")
