"""Which right each call needs: a table of methods and path templates, looked up by path.

What is not in the table is served to nobody but where nobody is asked who they are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from api.auth.caller import Caller, Role
from api.auth.rights import Forbidden, Right, check, check_everybody

KNOWN: tuple[Right, ...] = ()
"""Instead of rights: whoever is known at all, whatever their role."""

_NODE = "/v1/nodes/{name}"
_NAMESPACE = "{namespace}"
_OPEN_END = ":path}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call asks for.

    Attributes:
        rights: Any of these will do; none = whoever is known.
        route: The path's template.
        node_of_query: The node is what the query's `node` says.
        everybodys: It tells of all namespaces at once.
    """

    rights: tuple[Right, ...]
    route: str
    namespace: str | None = None
    node: str | None = None
    node_of_query: bool = False
    everybodys: bool = False

    @property
    def is_public(self) -> bool:
        return self.rights == (Right.PUBLIC,)

    @property
    def changes(self) -> bool:
        """Whether a right beyond those of reading is among those that are asked for."""
        return not set(self.rights) <= {Right.READ, Right.PUBLIC}

    def check(self, caller: Caller, query: bytes = b"") -> None:
        """Let the caller do it.

        Raises:
            Forbidden: With what would be needed.
        """
        node = self.node
        if self.node_of_query and caller.role is Role.AGENT:
            node = _one_node(query)
        refusal: Forbidden | None = None
        for right in self.rights:
            try:
                check(caller, right, namespace=self.namespace, node=node)
                break
            except Forbidden as error:
                refusal = refusal or error
        else:
            if refusal is not None:
                raise refusal
        if self.everybodys:
            check_everybody(caller)


@dataclass(slots=True)
class _Place:
    """What follows one beginning of a path."""

    words: dict[str, "_Place"] = field(default_factory=dict)
    any: "tuple[str, _Place] | None" = None
    methods: dict[str, tuple[tuple[Right, ...], str]] = field(default_factory=dict)


class Table:
    """Rights by method and path.

    Args:
        rows: Rights, and the calls that need one of them, as in `GET /v1/jobs`.
        node_of_query, everybodys: Paths with these marks.
    """

    def __init__(
        self,
        rows: Iterable[tuple[tuple[Right, ...], Iterable[str]]],
        node_of_query: Iterable[str] = (),
        everybodys: Iterable[str] = (),
    ) -> None:
        self._root = _Place()
        self._open: list[tuple[re.Pattern[str], str, str, tuple[Right, ...]]] = []
        self._calls: dict[tuple[str, str], tuple[Right, ...]] = {}
        self._node_of_query, self._everybodys = frozenset(node_of_query), frozenset(everybodys)
        for rights, calls in rows:
            for call in calls:
                method, _, route = call.partition(" ")
                self._calls[method, route] = rights
                self._add(method, route, rights)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._calls)

    def rights(self, method: str, route: str) -> tuple[Right, ...] | None:
        """Those of a template; None if it is not here."""
        return self._calls.get((method, route))

    def find(self, method: str, path: str) -> Asked | None:
        """What a call asks for; None if there is no such call."""
        # HEAD is GET without its answer.
        method = "GET" if method == "HEAD" else method
        for place, values in _walk(self._root, path.split("/"), 0, {}):
            row = place.methods.get(method)
            if row is not None:
                return self._asked(*row, values)
        for pattern, wanted, route, rights in self._open:
            found = pattern.fullmatch(path) if wanted == method else None
            if found is not None:
                return self._asked(rights, route, found.groupdict())
        return None

    def methods(self, path: str) -> list[str]:
        """Methods that a path has; none if there is no such path."""
        found = {
            method
            for place, _ in _walk(self._root, path.split("/"), 0, {})
            for method in place.methods
        }
        found.update(method for pattern, method, _, _ in self._open if pattern.fullmatch(path))
        return sorted(found)

    def _add(self, method: str, route: str, rights: tuple[Right, ...]) -> None:
        if _OPEN_END in route:
            pattern = re.sub(r"\{(\w+)(:path)?\}", _group, route)
            self._open.append((re.compile(pattern), method, route, rights))
            return
        place = self._root
        for word in route.split("/"):
            if word.startswith("{"):
                # One name for a place is enough, as no two routes differ in that alone.
                name, following = place.any or (word[1:-1], _Place())
                place.any = (name, following)
                place = following
            else:
                place = place.words.setdefault(word, _Place())
        place.methods[method] = (rights, route)

    def _asked(self, rights: tuple[Right, ...], route: str, values: Mapping[str, str]) -> Asked:
        node = values.get("name") if route.startswith(_NODE) else None
        namespace = values.get("namespace") if _NAMESPACE in route else None
        return Asked(
            rights,
            route,
            namespace,
            node,
            node_of_query=route in self._node_of_query,
            everybodys=route in self._everybodys,
        )


def _walk(
    place: _Place, words: list[str], at: int, values: dict[str, str]
) -> Iterator[tuple[_Place, Mapping[str, str]]]:
    """The places that a path may lead to, literal words first."""
    if at == len(words):
        yield place, values
        return
    word = words[at]
    if word in place.words:
        yield from _walk(place.words[word], words, at + 1, values)
    if place.any is not None and word:
        name, following = place.any
        yield from _walk(following, words, at + 1, values | {name: word})


def _group(found: re.Match[str]) -> str:
    return f"(?P<{found[1]}>.+)" if found[2] else f"(?P<{found[1]}>[^/]+)"


def _one_node(query: bytes) -> str | None:
    """The node that a query names, if it names one."""
    pairs = parse_qsl(query.decode("latin-1"), max_num_fields=50)
    named = [value for name, value in pairs if name == "node"]
    return named[0] if len(named) == 1 else None
