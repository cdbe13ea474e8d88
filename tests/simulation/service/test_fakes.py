"""No module of the service waits, looks at the time or draws lots but on the stage."""

import sys
import threading

from api.store import topology
from tests.simulation.service.fakes import Lock, installed
from tests.simulation.service.stage import Stage


def test_locks_that_a_module_imports_by_name_are_of_the_stage_while_it_plays() -> None:
    with installed(Stage(1)):
        assert isinstance(topology.TopologyCache()._lock, Lock)
    assert vars(topology)["Lock"] is threading.Lock


def test_actor_that_waits_for_the_lock_of_a_topology_lets_its_holder_go_on() -> None:
    stage = Stage(1)
    done: list[float] = []
    with installed(stage):
        cache = topology.TopologyCache()

        def build() -> None:
            with cache._lock:
                stage.sleep(1.0)
            done.append(stage.now_s)

        for name in ("first", "second"):
            stage.spawn(name, build)
        while stage.step():
            continue
    assert done == [1.0, 2.0]


def test_modules_are_as_they_were_after_a_play() -> None:
    def names() -> dict[tuple[str, str], int]:
        return {
            (name, word): id(value)
            for name, module in sys.modules.items()
            if name.startswith("api.")
            for word, value in vars(module).items()
        }

    before = names()
    with installed(Stage(1)):
        assert names() != before
    assert names() == before
