"""As whom pods run: a user for each namespace, and never root by default."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

from client.errors import InputError

ANY = "*"
"""Namespace that stands for all that are not named."""


class Refused(Exception):
    """A pod that must not run here; says why."""


@dataclass(frozen=True, slots=True)
class Users:
    """Who runs the pods of each namespace.

    Attributes:
        of: User by namespace, or `*`.
        allow_root: Whether pods may run as root; for demos.
    """

    of: Mapping[str, str]
    allow_root: bool = False

    def switch(self, namespace: str) -> dict[str, object] | None:
        """User, groups and home for the pods of a namespace; None = as the agent.

        Raises:
            Refused: If that would be root, or is somebody the agent cannot become.
        """
        name = self.of.get(namespace, self.of.get(ANY))
        mine = os.geteuid()
        if name is None:
            if mine == 0 and not self.allow_root:
                raise Refused(
                    f"the agent runs as root and no user is given for namespace '{namespace}'; "
                    f"start it with --user {namespace}=NAME, or with --allow-root for a demo"
                )
            return None
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise Refused(f"user '{name}' of namespace '{namespace}' does not exist") from None
        if entry.pw_uid == 0 and not self.allow_root:
            raise Refused(f"namespace '{namespace}' is given user '{name}', which is root")
        if entry.pw_uid == mine:
            return None
        if mine != 0:
            raise Refused(
                f"the agent is not root and cannot become '{name}' for namespace '{namespace}'"
            )
        groups = os.getgrouplist(name, entry.pw_gid)
        ids: dict[str, object] = {"user": entry.pw_uid, "group": entry.pw_gid}
        return ids | {"groups": groups, "home": entry.pw_dir}


def read_users(words: list[str], *, allow_root: bool) -> Users:
    """Users as options give them: `NAMESPACE=USER`.

    Raises:
        InputError: If one is not of that form.
    """
    of = {}
    for word in words:
        namespace, equals, name = word.partition("=")
        if not (namespace and equals and name):
            raise InputError(
                f"--user {word}: give NAMESPACE=USER, as in research=alice or *=nobody"
            )
        of[namespace] = name
    return Users(of, allow_root)
