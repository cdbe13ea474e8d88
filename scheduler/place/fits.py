"""Whether a gang fits now, asked again and again while pods leave and return: by counts alone."""

from dataclasses import dataclass

from scheduler.cluster.trial import Trial
from scheduler.cluster.view import Shape
from scheduler.model.job import JobSpec, Rule
from scheduler.model.placement import Placement
from scheduler.place.bounds import Bounds, bounds_of, job_level
from scheduler.place.members import ask_for_role, node_types_for
from scheduler.place.room import Room
from scheduler.place.search import ask_for_parallel, place
from scheduler.place.uniform import Ask, required_wants


@dataclass(frozen=True, slots=True)
class Demand:
    """Equal pods that must be placed together.

    Attributes:
        least: Pods that must be placed.
        step: They come in multiples of this.
    """

    shape: Shape
    bounds: Bounds
    least: int
    step: int


class Fit:
    """Answers for one gang on one trial, always as of the moment of the question.

    Attributes:
        demands: One for each node type that could take the gang; empty for a gang of unlike roles,
            which only a whole placement can answer for.
        whole: Level inside one domain of which the whole gang must lie; None = anywhere.
    """

    def __init__(self, trial: Trial, spec: JobSpec) -> None:
        self._trial = trial
        self._spec = spec
        self.is_uniform = (spec.parallelism is not None and not spec.dp_sizes) or len(
            spec.roles
        ) == 1
        self.demands = list(self._demands()) if self.is_uniform else []
        self.whole = self._whole()

    def now(self) -> bool:
        """Whether the gang fits."""
        if not self.is_uniform:
            return isinstance(place(self._trial, self._spec), Placement)
        return any(self._has_room(demand) for demand in self.demands)

    @property
    def least_gpus(self) -> int:
        """GPUs that it needs at least, whatever the node type."""
        if self.is_uniform:
            return min((d.least * d.shape.gpus for d in self.demands), default=0)
        return sum(role.min * role.gpus for role in self._spec.roles)

    @property
    def least_pods(self) -> int:
        """Pods that must be placed, on the node type that needs most of them."""
        return max((d.least for d in self.demands), default=0)

    def _has_room(self, demand: Demand) -> bool:
        room = Room(self._trial.view(demand.shape), demand.bounds)
        return _whole_steps(room.most(), demand.step) >= demand.least

    def _demands(self) -> "list[Demand]":
        out: list[Demand] = []
        for ask in self._asks():
            wants = required_wants(ask)
            if isinstance(wants, Rule):
                continue
            bounds = bounds_of(wants, ask.units)
            out.append(Demand(ask.view.shape, bounds, max(ask.least, 1), ask.step))
        return out

    def _asks(self) -> list[Ask]:
        spec, trial = self._spec, self._trial
        if spec.parallelism is not None:
            kinds = node_types_for(trial, spec.gpu, spec.gpus_per_pod or 1)
            return [
                ask_for_parallel(trial, spec, spec.parallelism, kind)
                for kind in kinds
                if kind is not None
            ]
        role = spec.roles[0]
        return [
            ask_for_role(trial, spec, role, kind, role.replicas, role.min, None, alone=True)
            for kind in node_types_for(trial, spec.gpu, role.gpus)
        ]

    def _whole(self) -> int | None:
        if self.is_uniform:
            levels = {demand.bounds.whole for demand in self.demands}
            return levels.pop() if len(levels) == 1 else None
        level = job_level(self._spec, self._trial.table.topology)
        return None if isinstance(level, Rule) else level


def _whole_steps(pods: int, step: int) -> int:
    return pods - pods % step
