"""No container engine is needed to build, so what would fail in one is looked for in the text."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import cast

import yaml

from tests.tidy.source import ROOT

Service = Mapping[str, object]


def dockerfile() -> list[tuple[str, str]]:
    """Instructions with their arguments, continued lines joined."""
    joined = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    rows = (line.partition(" ") for line in joined.splitlines() if re.match(r"[A-Z]+ ", line))
    return [(word, " ".join(rest.split())) for word, _, rest in rows]


def arguments(instruction: str) -> list[str]:
    return [rest for word, rest in dockerfile() if word == instruction]


def compose_services() -> dict[str, Service]:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return cast("dict[str, Service]", compose["services"])


def scripts() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"])


def unit() -> list[tuple[str, str]]:
    text = (ROOT / "deploy/systemd/podyard.service").read_text()
    return [(m[1], m[2]) for m in re.finditer(r"^(\w+)=(.*)$", text, re.MULTILINE)]


def test_dockerfile_copies_only_what_exists() -> None:
    sources = [s for a in arguments("COPY") if "--from" not in a for s in a.split()[:-1]]
    assert sources != []
    assert [s for s in sources if not (ROOT / s).exists()] == []


def test_dockerfile_copies_only_what_the_builder_is_sent() -> None:
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert {s for a in arguments("COPY") for s in a.split()[:-1]} == sent


def test_image_runs_a_script_of_ours_as_a_user_without_rights() -> None:
    entry = json.loads(arguments("ENTRYPOINT")[-1])
    assert entry[0] in scripts()
    assert int(arguments("USER")[-1]) > 0


def test_image_says_whether_it_is_healthy() -> None:
    (check,) = arguments("HEALTHCHECK")
    (port,) = arguments("EXPOSE")
    assert f":{port}/healthz" in check


def test_image_does_not_open_itself_to_everyone() -> None:
    assert "--insecure" not in arguments("CMD")[-1]


def test_compose_publishes_nothing_beyond_loopback() -> None:
    services = compose_services()
    ports = [p for s in services.values() for p in cast("list[str]", s.get("ports", []))]
    assert ports == ["127.0.0.1:8080:8080"]


def test_compose_starts_the_service_on_a_database_that_is_ready_and_migrated() -> None:
    services = compose_services()
    assert services["podyard"]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"}
    }
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert "healthcheck" in services["postgres"]


def test_compose_has_two_replicas_behind_a_proxy_that_knows_their_port() -> None:
    services = compose_services()
    assert services["podyard"]["deploy"] == {"replicas": 2}
    assert "ports" not in services["podyard"]
    command = cast("list[str]", services["podyard"]["command"])
    (mount,) = cast("list[str]", services["proxy"]["volumes"])
    config = (ROOT / mount.partition(":")[0]).read_text()
    assert f"server-template podyard 2 podyard:{command[command.index('--port') + 1]}" in config
    assert "httpchk GET /readyz" in config
    networks = {name: set(cast("list[str]", s["networks"])) for name, s in services.items()}
    assert networks["proxy"] & networks["podyard"]
    assert networks["podyard"] & networks["postgres"] & networks["migrate"]
    assert not networks["proxy"] & networks["postgres"]


def test_compose_keeps_the_database_in_a_volume() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    (volume,) = cast("list[str]", compose["services"]["postgres"]["volumes"])
    name, _, path = volume.partition(":")
    assert name in compose["volumes"]
    assert path == "/var/lib/postgresql"


def test_unit_starts_a_script_of_ours_on_loopback() -> None:
    command = dict(unit())["ExecStart"].split()
    assert command[0].rpartition("/")[2] in scripts()
    assert "--host 127.0.0.1" in " ".join(command)


def test_unit_takes_away_what_the_service_does_not_need() -> None:
    directives = dict(unit())
    wanted = {
        "CapabilityBoundingSet": "",
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "PrivateDevices": "yes",
        "PrivateTmp": "yes",
        "ProtectHome": "yes",
        "ProtectSystem": "strict",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    }
    assert {key: directives.get(key) for key in wanted} == wanted
