"""The kinds of Volcano that are served, in the order of discovery."""

from api.k8s.kinds import Handler
from api.k8s.volcano.commands import Commands
from api.k8s.volcano.groups import PodGroups
from api.k8s.volcano.hypernodes import HyperNodes
from api.k8s.volcano.jobs import VolcanoJobs
from api.k8s.volcano.priorities import PriorityClasses
from api.k8s.volcano.queues import Queues

HANDLERS: tuple[Handler, ...] = (
    VolcanoJobs(),
    PodGroups(),
    Queues(),
    HyperNodes(),
    Commands(),
    PriorityClasses(),
)
