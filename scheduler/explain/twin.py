"""A second world like the first, to be edited for good."""

from itertools import chain

from scheduler.cluster.world import World
from scheduler.topology.tree import Topology


def twin(world: World, topology: Topology | None = None) -> World:
    """A world with the same jobs, pods, claims, queues and facts; nothing done to it shows here.

    Args:
        topology: Another map; pods whose nodes it lacks hold nothing on it.
    """
    out = World(topology or world.topology)
    out.revision = world.revision
    out.paused = world.paused
    out.map_changed = world.map_changed or topology is not None
    out.set_queues(world.queues.values())
    for job in world.jobs.values():
        out.put_job(job)
    out.put_pods(chain.from_iterable(mine.values() for mine in world.pods.values()))
    out.put_claims(world.claims.values())
    out.set_windows(world.windows.values())
    out.facts = list(world.facts)
    out.set_dead_rails(world.dead_rails)
    for name, standing in world.standing.items():
        out.put_node(name, standing)
    return out
