"""Hooks of a job at the door: what could never be called is refused there."""

from dataclasses import dataclass

from api.hooks.allow import NOWHERE, Allowed, HookRefused
from api.schemas.job import JobBody
from scheduler.errors import JobError, Problem


@dataclass(frozen=True, slots=True)
class HookRules:
    """Which hooks jobs may have.

    Attributes:
        grace_s_max: Longest time that a job may have to save before it leaves.
    """

    allowed: Allowed = NOWHERE
    grace_s_max: float = 3_600.0


NO_HOOKS = HookRules()


def check_hooks(body: JobBody, rules: HookRules) -> None:
    """Refuse hooks that may not be where they are said to be.

    Raises:
        JobError: With every one, by its path.
    """
    checkpoint = body.checkpoint
    urls = [(f"hooks[{index}].url", hook.url) for index, hook in enumerate(body.hooks or [])]
    problems: list[Problem] = []
    if checkpoint is not None and checkpoint.hook is not None:
        urls.insert(0, ("checkpoint.hook", checkpoint.hook))
        if checkpoint.grace_s > rules.grace_s_max:
            problems.append(
                Problem(
                    "checkpoint.grace_s",
                    f"found {checkpoint.grace_s:g} s; a job with a hook is waited for at most "
                    f"{rules.grace_s_max:g} s (hook_grace_s_max)",
                )
            )
    for path, url in urls:
        try:
            rules.allowed.check_url(url)
        except HookRefused as error:
            problems.append(Problem(path, str(error)))
    if problems:
        raise JobError(problems)
