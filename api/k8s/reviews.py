"""Questions that are answered and kept nowhere: who am I, may I do this."""

from collections.abc import Iterable

from api.k8s.base import Base
from api.k8s.kinds import Call, Kind, Obj, Wanted
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
        # Whoever reaches a service without tokens may do everything, in every face.
        return {"allowed": True, "reason": "this service has no tokens: everybody may"}


class Rules(Review):
    def answer(self, call: Call, obj: Obj) -> Obj:
        every = ["*"]
        return {
            "resourceRules": [{"verbs": every, "apiGroups": every, "resources": every}],
            "nonResourceRules": [{"verbs": every, "nonResourceURLs": every}],
            "incomplete": False,
        }


class WhoAmI(Review):
    def answer(self, call: Call, obj: Obj) -> Obj:
        return {"userInfo": {"username": call.caller.name or "anybody", "groups": GROUPS}}


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
