"""One request as it goes over the wire, and what came back."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Sent:
    """A request.

    Attributes:
        target: Path and query, quoted.
        headers: Beside Host and Content-Length.
    """

    method: str
    target: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def of(self, content: bytes) -> "Sent":
        return replace(self, content=content)

    def to(self, target: str) -> "Sent":
        return replace(self, target=target)

    def typed(self, kind: str) -> "Sent":
        others = {k: v for k, v in self.headers.items() if k.lower() != "content-type"}
        return replace(self, headers=others | ({"Content-Type": kind} if kind else {}))

    def __str__(self) -> str:
        return self.shown(600)

    def shown(self, chars: int) -> str:
        """As text, with so much of its body."""
        kind = self.headers.get("Content-Type", "")
        return f"{self.method} {self.target[:300]} ({kind}) {self.content[:chars]!r}"
