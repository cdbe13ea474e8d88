"""All kinds there are, in the order in which discovery tells of them."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from api.k8s import events, jobs, namespaces, nodes, pods, reviews, stored
from api.k8s.kinds import Handler
from api.k8s.volcano.registry import HANDLERS as VOLCANO


class Registry:
    """Handlers by what paths say.

    Attributes:
        handlers: In order; names that several kinds share mean the first.
    """

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self.handlers = tuple(handlers)
        self._by_path: Mapping[tuple[str, str, str], Handler] = {
            (h.kind.group, h.kind.version, h.kind.plural): h for h in self.handlers
        }
        self.groups: Mapping[str, tuple[str, ...]] = self._versions()

    def find(self, group: str, version: str, plural: str) -> Handler | None:
        return self._by_path.get((group, version, plural))

    def of_version(self, group: str, version: str) -> list[Handler]:
        """Handlers of one version of a group, in order."""
        return [h for h in self.handlers if (h.kind.group, h.kind.version) == (group, version)]

    def _versions(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for handler in self.handlers:
            group, version = handler.kind.group, handler.kind.version
            versions = found.setdefault(group, ())
            if version not in versions:
                found[group] = (*versions, version)
        return found


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The kinds of this service."""
    return Registry(
        (
            namespaces.Namespaces(),
            nodes.Nodes(),
            pods.Pods(),
            events.Events(),
            *stored.HANDLERS,
            jobs.Jobs(),
            *VOLCANO,
            *reviews.HANDLERS,
        )
    )
