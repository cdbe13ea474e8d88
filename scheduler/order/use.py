"""What gangs, pods and placements use of what queues are accountable for."""

from collections.abc import Iterable

from scheduler.model.job import JobSpec
from scheduler.model.placement import PodPlace
from scheduler.model.plan import PodRecord
from scheduler.model.queue import Use
from scheduler.topology.tree import Topology


def least_use(spec: JobSpec) -> Use:
    """What a gang must have to start. CPUs and memory of a parallel job are known once placed."""
    model = spec.gpu or ""
    if spec.parallelism is not None:
        return Use({model: spec.parallelism.world})
    gpus = cpu = memory = 0
    for role in spec.roles:
        gpus += role.min * role.gpus
        cpu += role.min * role.resources.cpu_milli
        memory += role.min * role.resources.memory_mib
    return Use({model: gpus} if gpus else {}, cpu, memory)


def use_of_places(topology: Topology, places: Iterable[PodPlace]) -> Use:
    """What the pods of a placement would hold."""
    gpus: dict[str, int] = {}
    cpu = memory = 0
    for place in places:
        if place.gpu_mask:
            model = topology.types[place.node_index].gpu
            gpus[model] = gpus.get(model, 0) + place.gpu_mask.bit_count()
        cpu += place.resources.cpu_milli
        memory += place.resources.memory_mib
    return Use(gpus, cpu, memory)


def use_of_pods(topology: Topology, pods: Iterable[PodRecord]) -> Use:
    """What these pods hold, if they are live."""
    gpus: dict[str, int] = {}
    cpu = memory = 0
    for pod in pods:
        if pod.gpu_mask:
            node = topology.node_index.get(pod.node)
            model = "" if node is None else topology.types[node].gpu
            gpus[model] = gpus.get(model, 0) + pod.gpu_mask.bit_count()
        cpu += pod.resources.cpu_milli
        memory += pod.resources.memory_mib
    return Use(gpus, cpu, memory)
