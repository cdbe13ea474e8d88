"""Who calls and what they may do: values and rules; where callers come from is in `api/http`."""

from api.auth.caller import ANYBODY, Caller, Owned, Role, visible
from api.auth.rights import Forbidden, Right, check

__all__ = ["ANYBODY", "Caller", "Forbidden", "Owned", "Right", "Role", "check", "visible"]
