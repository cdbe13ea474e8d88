"""Limits of queues that keep a gang from starting, and what they would have to be."""

from copy import copy
from dataclasses import replace

from scheduler.cluster.accounts import Account
from scheduler.cluster.world import World
from scheduler.explain.answer import Change, ChangeKind, Raise
from scheduler.explain.engine import Engine, as_job
from scheduler.model.job import JobSpec
from scheduler.model.lifecycle import Reason
from scheduler.model.queue import DEPTH_MAX, QueueRecord
from scheduler.order.limits import Denied
from scheduler.order.shares import Shares, shares_of
from scheduler.order.use import least_use


def shares_if_limited(world: World, queue: str) -> Shares | None:
    """The accounts of all queues, if one of these has a limit or is closed."""
    chain = world.accounts.chains.get(queue, ())
    records = (world.accounts.queues[name] for name in chain)
    limited = any(r.closed or r.limit_gpus is not None or r.limit_by_model for r in records)
    return shares_of(world) if limited else None


def denial(world: World, spec: JobSpec) -> Denied | None:
    """Which queue does not let the gang start now."""
    shares = shares_if_limited(world, spec.queue)
    found = None if shares is None else shares.within(as_job(spec))
    return found if isinstance(found, Denied) else None


def limit_change(engine: Engine) -> list[Change]:
    """The limits that would have to be raised for the gang to fit, and to how much."""
    before = engine.shares
    if before is None:
        return []
    accounts = copy(before.accounts)
    raises: dict[tuple[str, str], Raise] = {}
    for _ in range(2 * DEPTH_MAX):
        engine.shares = Shares(accounts)
        denied = engine.shares.within(as_job(engine.spec))
        if not isinstance(denied, Denied):
            break
        record = accounts.queues[denied.queue]
        changes = _too_low(engine.spec, engine.shares.account(record.name), record)
        if denied.reason is not Reason.LIMIT or not changes:
            break
        for change in changes:
            record = _raised(record, change)
            raises[change.queue, change.model] = change
        accounts.queues = {**accounts.queues, record.name: record}
    try:
        fits = bool(raises) and engine.fits()
    finally:
        engine.shares = before
    return [Change(ChangeKind.LIMIT, raises=tuple(raises.values()))] if fits else []


def _too_low(spec: JobSpec, account: Account, record: QueueRecord) -> list[Raise]:
    """Limits of a queue that leave too little, and what they would have to be."""
    wanted = least_use(spec).gpu_count
    found: list[Raise] = []
    if record.limit_gpus is not None and account.gpus + wanted > record.limit_gpus:
        found.append(Raise(record.name, account.gpus + wanted))
    of_models = [
        Raise(record.name, account.by_model.get(model, 0) + wanted, model)
        for model, limit in sorted(record.limit_by_model.items())
        if spec.gpu in (None, model) and account.by_model.get(model, 0) + wanted > limit
    ]
    if spec.gpu is None:
        # One model with enough of it will do.
        of_models = sorted(of_models, key=lambda r: (r.gpus, r.model))[:1]
    return found + of_models


def _raised(record: QueueRecord, change: Raise) -> QueueRecord:
    if not change.model:
        return replace(record, limit_gpus=change.gpus)
    return replace(record, limit_by_model={**record.limit_by_model, change.model: change.gpus})
