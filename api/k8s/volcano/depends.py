"""Tasks that start after others: whether there is an order, and which."""

from collections.abc import Iterator, Sequence

from api.k8s.volcano.pod_rules import text_at, texts, tree
from api.k8s.volcano.shape import Tree
from scheduler.errors import Problem


def names_before(task: Tree) -> list[str]:
    """Tasks that a task waits for."""
    return texts(tree(task, "dependsOn"), "name")


def order_problems(tasks: Sequence[Tree]) -> Iterator[Problem]:
    """Unknown tasks, or tasks that wait for each other."""
    names = [text_at(task, "name") for task in tasks]
    unknown = False
    for index, task in enumerate(tasks):
        for other in names_before(task):
            if other not in names:
                unknown = True
                known = ", ".join(names)
                yield Problem(
                    f"spec.tasks[{index}].dependsOn.name",
                    f"no task '{other[:60]}'; the tasks are {known}",
                )
    if unknown:
        return
    edges = dict(zip(names, map(names_before, tasks), strict=True))
    ring = sorted(on_cycle(edges))
    if ring:
        index = names.index(ring[0])
        message = f"tasks wait for each other: {', '.join(ring)}"
        yield Problem(f"spec.tasks[{index}].dependsOn", message)


def on_cycle(edges: dict[str, list[str]]) -> set[str]:
    """Names that are left when all that can come first has; empty where there is an order."""
    left = dict(edges)
    while True:
        ready = [name for name, before in left.items() if not any(b in left for b in before)]
        if not ready:
            return set(left)
        for name in ready:
            del left[name]
        if not left:
            return set()
