"""The manifests of `deploy/kubernetes` fit each other, the program and its settings."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from api.command import app
from api.routes import ROUTES
from api.settings import Settings, read_settings
from tests.tidy.source import ROOT

FOLDER = ROOT / "deploy/kubernetes"
SERVER_CONNECTIONS = 97
"""PostgreSQL's default of 100, less those that are kept for its administrator."""
ALONE = 2
"""Connections of a replica beside its pool."""

Manifest = Mapping[str, Any]


def documents(name: str) -> list[Manifest]:
    return [d for d in yaml.safe_load_all((FOLDER / name).read_text()) if d is not None]


def manifests() -> dict[tuple[str, str], Manifest]:
    """All resources by kind and name."""
    names = [*documents("kustomization.yaml")[0]["resources"], "monitor.yaml"]
    found = [d for name in names for d in documents(name)]
    return {(d["kind"], d["metadata"]["name"]): d for d in found}


def settings() -> dict[str, str]:
    lines = (FOLDER / "podyard.env").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def pods() -> dict[str, Manifest]:
    """Pod templates by the name of what makes them."""
    found = manifests().values()
    return {
        d["metadata"]["name"]: d["spec"]["template"]
        for d in found
        if d["kind"] in {"Deployment", "Job"}
    }


def containers() -> Iterator[Manifest]:
    for template in pods().values():
        yield from template["spec"]["containers"]


@pytest.fixture
def deployment() -> Manifest:
    return manifests()["Deployment", "podyard"]


@pytest.fixture
def replica(deployment: Manifest) -> Manifest:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_every_manifest_is_applied_or_named_in_the_guide() -> None:
    applied = set(documents("kustomization.yaml")[0]["resources"])
    there = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    guide = (FOLDER / "README.md").read_text()
    assert applied <= there
    assert [name for name in there if f"`{name}`" not in guide] == []
    assert there - applied == {"monitor.yaml"}


def test_every_variable_is_a_setting_of_the_program() -> None:
    known = {f"PODYARD_{name.upper()}" for name in Settings.model_fields}
    assert settings().keys() <= known


def test_settings_are_taken_by_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text("postgresql://podyard@db/podyard\n")
    for name, value in settings().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PODYARD_DATABASE_URL_FILE", str(url))
    taken = read_settings({})
    assert taken.database_url == "postgresql://podyard@db/podyard"
    assert (taken.port, taken.auth, taken.insecure) == (8443, "required", False)


def test_ports_are_the_same_from_the_setting_to_the_service(replica: Manifest) -> None:
    (port,) = replica["ports"]
    assert str(port["containerPort"]) == settings()["PODYARD_PORT"]
    (served,) = manifests()["Service", "podyard"]["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    (allowed,) = manifests()["NetworkPolicy", "podyard"]["spec"]["ingress"]
    assert [p["port"] for p in allowed["ports"]] == [port["containerPort"]]
    (scraped,) = manifests()["ServiceMonitor", "podyard"]["spec"]["endpoints"]
    assert scraped["port"] == served["name"]


def test_every_selector_finds_its_pods(deployment: Manifest) -> None:
    labels = {name: template["metadata"]["labels"] for name, template in pods().items()}
    selectors = {
        "deployment": deployment["spec"]["selector"]["matchLabels"],
        "service": manifests()["Service", "podyard"]["spec"]["selector"],
        "budget": manifests()["PodDisruptionBudget", "podyard"]["spec"]["selector"]["matchLabels"],
        "network": manifests()["NetworkPolicy", "podyard"]["spec"]["podSelector"]["matchLabels"],
    }
    for spread in deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]:
        selectors[spread["topologyKey"]] = spread["labelSelector"]["matchLabels"]
    for name, wanted in selectors.items():
        assert wanted.items() <= labels["podyard"].items(), name
        assert not wanted.items() <= labels["podyard-migrate"].items(), name
    other = manifests()["NetworkPolicy", "podyard-migrate"]["spec"]["podSelector"]["matchLabels"]
    assert other.items() <= labels["podyard-migrate"].items()
    monitored = manifests()["ServiceMonitor", "podyard"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= manifests()["Service", "podyard"]["metadata"]["labels"].items()


def test_probes_and_scrapes_ask_for_paths_that_there_are(replica: Manifest) -> None:
    there = {getattr(route, "path", "") for route in ROUTES}
    probes = [replica[name]["httpGet"] for name in replica if name.endswith("Probe")]
    (scraped,) = manifests()["ServiceMonitor", "podyard"]["spec"]["endpoints"]
    assert len(probes) == 3
    assert {probe["path"] for probe in probes} | {scraped["path"]} <= there
    assert {probe["scheme"].lower() for probe in probes} | {scraped["scheme"]} == {"https"}
    assert {probe["port"] for probe in probes} == {replica["ports"][0]["name"]}


def test_replicas_together_stay_below_what_the_server_takes(deployment: Manifest) -> None:
    spec = deployment["spec"]
    replicas = spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"]
    of_each = int(settings()["PODYARD_DATABASE_CONNECTIONS"]) + ALONE
    assert replicas * of_each <= SERVER_CONNECTIONS
    default = Settings.model_fields["database_connections"].default
    assert 3 * (default + ALONE) <= SERVER_CONNECTIONS


def test_budget_leaves_one_to_lead_and_one_to_take_over(deployment: Manifest) -> None:
    budget = manifests()["PodDisruptionBudget", "podyard"]["spec"]
    assert 2 <= budget["minAvailable"] < deployment["spec"]["replicas"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("name", ["podyard", "podyard-migrate"])
def test_pods_have_no_right_that_they_do_not_need(name: str) -> None:
    spec = pods()[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_pods_run_as_the_user_of_the_image() -> None:
    user = next(
        line.split()[1]
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("USER ")
    )
    found = {template["spec"]["securityContext"]["runAsUser"] for template in pods().values()}
    assert found == {int(user)}


def test_everything_a_pod_mounts_is_made() -> None:
    (kustomization,) = documents("kustomization.yaml")
    maps = {entry["name"] for entry in kustomization["configMapGenerator"]}
    secrets = {entry["name"]: entry["files"] for entry in kustomization["secretGenerator"]}
    for template in pods().values():
        spec = template["spec"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for volume in volumes.values():
            assert "emptyDir" in volume or volume["secret"]["secretName"] in secrets
        for container in spec["containers"]:
            assert {m["name"] for m in container["volumeMounts"]} == volumes.keys()
            assert {e["configMapRef"]["name"] for e in container["envFrom"]} <= maps


def test_files_that_settings_name_are_mounted(replica: Manifest, deployment: Manifest) -> None:
    (kustomization,) = documents("kustomization.yaml")
    keys = {
        entry["name"]: {Path(file.partition("=")[0]).name for file in entry["files"]}
        for entry in kustomization["secretGenerator"]
    }
    volumes = {v["name"]: v for v in deployment["spec"]["template"]["spec"]["volumes"]}
    mounted = {
        f"{mount['mountPath']}/{key}"
        for mount in replica["volumeMounts"]
        if "secret" in volumes[mount["name"]]
        for key in keys[volumes[mount["name"]]["secret"]["secretName"]]
    }
    named = {value for value in settings().values() if value.startswith("/etc/")}
    assert named == mounted


def test_commands_of_the_pods_are_those_of_the_program() -> None:
    for container in containers():
        found = CliRunner().invoke(app, [container["args"][0], "--help"])
        assert found.exit_code == 0
        for argument in container["args"][1:]:
            assert not argument.startswith("--") or argument in found.output


def test_secrets_are_kept_out_of_the_project() -> None:
    ignored = (FOLDER / "secrets/.gitignore").read_text().split()
    assert "*" in ignored
    assert [p.name for p in (FOLDER / "secrets").iterdir() if p.name != ".gitignore"] == []


def test_kustomize_makes_it_all_in_one_namespace(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    folder = tmp_path / "kubernetes"
    shutil.copytree(FOLDER, folder)
    for name in ("database-url", "tls.crt", "tls.key"):
        (folder / "secrets" / name).write_text("x")
    made = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=True
    )
    found = [d for d in yaml.safe_load_all(made.stdout) if d is not None]
    kinds = {d["kind"] for d in found}
    assert kinds == {
        "Namespace", "ConfigMap", "Secret", "Deployment", "Job", "Service", "PodDisruptionBudget",
        "NetworkPolicy",
    }  # fmt: skip
    assert {d["metadata"].get("namespace") for d in found if d["kind"] != "Namespace"} == {
        "podyard"
    }
    images = {
        c["image"]
        for d in found
        if d["kind"] in {"Deployment", "Job"}
        for c in d["spec"]["template"]["spec"]["containers"]
    }
    assert len(images) == 1
    assert next(iter(images)).startswith("podyard:")
