"""Turns of a runner."""

from api.loop.runner import Runner


def settle(runner: Runner) -> None:
    """Make turns until one has nothing to do."""
    while runner.turn():
        pass
