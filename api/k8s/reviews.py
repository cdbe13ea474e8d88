"""Questions that are answered and kept nowhere: who am I, may I do this."""

from collections.abc import Iterable

from api.k8s.base import Base
from api.k8s.kinds import Call, Kind, Obj, Reviews, Wanted
from api.k8s.schema import ANYTHING, object_schema
from api.store.look import Look

GROUPS = ["system:authenticated"]


class Review(Base):
    """One kind of question."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def read(self, look: Look, wanted: Wanted) -> Iterable[Obj]:
        return ()

    def cells(self, obj: Obj, now_s: float) -> list[object]:
        return [""]

    def create(self, call: Call, obj: Obj) -> Obj:
        return obj | {"status": self.answer(call, obj)}

    def answer(self, call: Call, obj: Obj) -> Obj:
        """`status` of the answer."""
        return _access(call).review(call.caller, _spec(obj))


class Rules(Review):
    def answer(self, call: Call, obj: Obj) -> Obj:
        return _access(call).rules(call.caller, str(_spec(obj).get("namespace", "")))


class WhoAmI(Review):
    def answer(self, call: Call, obj: Obj) -> Obj:
        caller = call.caller
        extra = {
            f"podyard.io/{noun}": sorted(names)
            for noun, names in (("namespaces", caller.namespaces), ("nodes", caller.nodes))
            if names is not None
        }
        groups = [*GROUPS, *([f"podyard.io:{caller.role}"] if caller.name else [])]
        told: Obj = {"username": caller.name or "anybody", "groups": groups}
        return {"userInfo": told | ({"extra": extra} if extra else {})}


def _spec(obj: Obj) -> Obj:
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def _access(call: Call) -> Reviews:
    if call.parts.access is None:
        raise LookupError("the face puts in who answers")
    return call.parts.access


def _kind(group: str, kind: str, plural: str, description: str, version: str = "v1") -> Kind:
    return Kind(
        group,
        version,
        plural,
        kind.lower(),
        kind,
        object_schema(description, {"spec": ANYTHING, "status": ANYTHING}),
        namespaced=False,
        verbs=("create",),
        nameless=True,
    )


HANDLERS = (
    Review(
        _kind(
            "authorization.k8s.io",
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview asks whether the caller may do something.",
        )
    ),
    Rules(
        _kind(
            "authorization.k8s.io",
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview asks what the caller may do.",
        )
    ),
    *(
        WhoAmI(
            _kind(
                "authentication.k8s.io",
                "SelfSubjectReview",
                "selfsubjectreviews",
                "SelfSubjectReview asks who the caller is.",
                version,
            )
        )
        for version in ("v1", "v1beta1", "v1alpha1")  # kubectl 1.27 asks in the older ones
    ),
)
