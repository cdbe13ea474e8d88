"""What goes wrong in one play, and how often: drawn from its seed; no mix of faults suits all."""

import random
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad it gets.

    Chances are of each occasion; `every` is a mean in virtual seconds, 0 = never.

    Attributes:
        replicas: Processes of the service.
        latency_s: Of the database, at most, each way.
        pause_in_write: Chance that others have a turn between two statements of a transaction.
        cut_before, cut_after: Chances that the connection breaks as a commit is asked for, and as
            it was done and nobody was told.
        die_before, die_after: The same of the process itself.
        cut_in_write: Chance that it breaks at a statement.
        stall: Chance that the process stands still for `stall_s` as it begins a write, or asks for
            its commit.
        net_s: Of a message, at most.
        lost, doubled, late: Chances of a message to the service, and of its answer; how often one
            comes a second time; how often it takes up to `late_s`.
        hook_fails, hook_hangs: Chances of a call of a hook.
        crash_every, pause_every, part_every, restart_every: Of the service's processes: they die,
            stand still, are cut off from the database; the database itself starts anew.
        jump_every, jump_s: Of the wall clock of one process, on or back.
        silence_every, agent_every, reboot_every: Of machines: cut off, its agent starts anew, all
            of it does.
        fault_every, drain_every, control_every, cancel_every: What people do and report.
        submit_every: Jobs that come.
        event_history: Events kept, at least.
    """

    replicas: int = 2
    latency_s: float = 0.01
    pause_in_write: float = 0.0
    cut_before: float = 0.0
    cut_after: float = 0.0
    die_before: float = 0.0
    die_after: float = 0.0
    cut_in_write: float = 0.0
    stall: float = 0.0
    stall_s: float = 10.0
    net_s: float = 0.05
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_s: float = 30.0
    hook_fails: float = 0.0
    hook_hangs: float = 0.0
    crash_every: float = 0.0
    pause_every: float = 0.0
    part_every: float = 0.0
    restart_every: float = 0.0
    jump_every: float = 0.0
    jump_s: float = 0.0
    silence_every: float = 0.0
    agent_every: float = 0.0
    reboot_every: float = 0.0
    fault_every: float = 0.0
    drain_every: float = 0.0
    control_every: float = 0.0
    cancel_every: float = 60.0
    submit_every: float = 15.0
    event_history: int = 200_000

    def as_words(self) -> str:
        """What is not as in fair weather."""
        fair = asdict(Weather())
        found = {name: value for name, value in asdict(self).items() if value != fair[name]}
        return ", ".join(f"{name} {value:g}" for name, value in found.items()) or "fair"


def drawn(rng: random.Random) -> Weather:
    """Each fault is there or not, and often or seldom."""

    def maybe(least: float, most: float, chance: float = 0.5) -> float:
        there, share = rng.random() < chance, rng.random()
        return float(least * (most / least) ** share) if there else 0.0

    return Weather(
        replicas=rng.choice((1, 2, 2, 3)),
        latency_s=rng.choice((0.0, 0.005, 0.02, 0.3)),
        pause_in_write=maybe(0.01, 0.3),
        cut_before=maybe(0.002, 0.05),
        cut_after=maybe(0.002, 0.05),
        die_before=maybe(0.001, 0.02),
        die_after=maybe(0.001, 0.02),
        cut_in_write=maybe(0.0005, 0.01),
        stall=maybe(0.002, 0.05),
        stall_s=rng.choice((1.0, 10.0, 90.0)),
        net_s=rng.choice((0.01, 0.05, 0.5)),
        lost=maybe(0.005, 0.2),
        doubled=maybe(0.005, 0.2),
        late=maybe(0.005, 0.1),
        late_s=rng.choice((5.0, 30.0, 120.0)),
        hook_fails=maybe(0.02, 0.5),
        hook_hangs=maybe(0.02, 0.2),
        crash_every=maybe(20.0, 300.0),
        pause_every=maybe(15.0, 200.0),
        part_every=maybe(20.0, 300.0),
        restart_every=maybe(60.0, 600.0, 0.3),
        jump_every=maybe(30.0, 300.0),
        jump_s=rng.choice((1.0, 60.0, 900.0)),
        silence_every=maybe(30.0, 300.0),
        agent_every=maybe(30.0, 300.0),
        reboot_every=maybe(60.0, 600.0),
        fault_every=maybe(40.0, 400.0),
        drain_every=maybe(60.0, 400.0),
        control_every=maybe(20.0, 200.0),
        cancel_every=maybe(20.0, 200.0, 0.8),
        submit_every=maybe(5.0, 25.0, 1.0),
        event_history=rng.choice((200_000, 200_000, 100)),
    )
