"""Lifecycle policies of a job or a task: which event leads to which action."""

from collections.abc import Iterator, Sequence

from api.k8s.volcano.kinds_job import ACTIONS, POLICY_EVENTS
from api.k8s.volcano.pod_rules import text_at, texts
from api.k8s.volcano.quantity import parse_duration
from api.k8s.volcano.shape import Tree, shown
from scheduler.errors import Problem

ANY = "*"


def events_of(policy: Tree) -> tuple[str, ...]:
    """`event` and `events` together, each once."""
    event = text_at(policy, "event")
    return tuple(dict.fromkeys([*texts(policy, "events"), *([event] if event else [])]))


def policy_problems(policies: Sequence[Tree], path: str) -> Iterator[Problem]:
    """What is wrong with the policies of one list."""
    seen: dict[str, int] = {}
    codes: dict[int, int] = {}
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        events, code = events_of(policy), policy.get("exitCode")
        if events and code is not None:
            yield Problem(where, "gives both event and exitCode; give one of them")
        elif not events and code is None:
            yield Problem(where, "gives neither event nor exitCode; give one of them")
        elif code is not None:
            yield from _code_problems(code, where, codes, index)
        else:
            yield from _event_problems(policy, events, where)
            for event in events:
                if event in seen:
                    yield Problem(
                        f"{where}.event",
                        f"'{event}' is the event of {path}[{seen[event]}] too; an event has one "
                        "action",
                    )
                seen.setdefault(event, index)
        yield from _timeout_problems(policy, where)
    if ANY in seen and len(seen) > 1:
        yield Problem(f"{path}[{seen[ANY]}].event", "'*' stands for every event; it must be alone")


def _code_problems(
    code: object, where: str, codes: dict[int, int], index: int
) -> Iterator[Problem]:
    number = code if isinstance(code, int) else 0
    if number == 0:
        yield Problem(f"{where}.exitCode", "found 0; that is success, no failure")
    elif number in codes:
        yield Problem(f"{where}.exitCode", f"{number} is that of policies[{codes[number]}] too")
    codes.setdefault(number, index)


def _event_problems(policy: Tree, events: Sequence[str], where: str) -> Iterator[Problem]:
    for event in events:
        if event not in POLICY_EVENTS:
            allowed = ", ".join(POLICY_EVENTS)
            yield Problem(f"{where}.event", f"found {shown(event)}; allowed are {allowed}")
    action = text_at(policy, "action")
    if action not in ACTIONS:
        allowed = ", ".join(ACTIONS)
        yield Problem(f"{where}.action", f"found {shown(action)}; allowed are {allowed}")


def _timeout_problems(policy: Tree, where: str) -> Iterator[Problem]:
    timeout = policy.get("timeout")
    if timeout is None:
        return
    try:
        parse_duration(str(timeout))
    except ValueError as error:
        yield Problem(f"{where}.timeout", str(error))
