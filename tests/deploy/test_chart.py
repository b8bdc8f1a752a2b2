"""The chart and what it renders to: valid for Kubernetes, and true to the service and its metrics."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import kubernetes_validate
import pytest
import yaml
from fastapi import FastAPI
from kubernetes_validate.utils import all_versions
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service import __version__
from service.api.app import create_app
from service.bootstrap import build_services
from service.cli.main import cli
from service.settings import Settings, read_settings
from tests.deploy.manifests import CASES, CHART, MONITORED, RENDERED, HelmMissing, rendered

OPERATORS_KINDS = {"ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which Kubernetes itself does not know."""
FUNCTIONS = {
    "by", "le", "sum", "max", "min", "rate", "increase", "histogram_quantile", "instance", "on", "for",
    "http_route", "http_response_status_code", "size", "verdict", "state", "reason",
}  # fmt: skip
LABELS = {
    "http_request_method", "http_route", "http_response_status_code", "size", "verdict", "state", "reason",
    "le", "instance",
}  # fmt: skip


def documents(name: str) -> list[dict[str, Any]]:
    text = (RENDERED / name).read_text("utf-8")
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(name: str, kind: str, component: str | None = None) -> dict[str, Any]:
    (found,) = (
        each
        for each in documents(name)
        if each["kind"] == kind
        and component in {None, each["metadata"]["labels"].get("app.kubernetes.io/component")}
    )
    return found


def pods(name: str) -> Iterator[dict[str, Any]]:
    for each in documents(name):
        if each["kind"] in {"Deployment", "DaemonSet", "Job"}:
            yield each["spec"]["template"]["spec"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("version", [each for each in all_versions() if each >= "1.27"])
def test_kubernetes_knows_every_word(name: str, version: str) -> None:
    for document in documents(name):
        if document["kind"] not in OPERATORS_KINDS:
            kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("name", CASES)
def test_what_is_rendered_is_what_the_chart_says(name: str) -> None:
    try:
        text = rendered(CASES[name])
    except HelmMissing as reason:
        pytest.skip(str(reason))
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text) if each}
    assert by_name == {(each["kind"], each["metadata"]["name"]): each for each in documents(name)}


def test_replicas_without_a_shared_database_are_refused() -> None:
    for values in ({"database": {"secretName": ""}}, {"database": {"secretName": ""}, "replicas": 2,
                   "autoscaling": {"enabled": False}}):  # fmt: skip
        with pytest.raises(
            Exception, match=r"more than one replica needs database\.secretName|install helm"
        ) as error:
            rendered(values)
        if isinstance(error.value, HelmMissing):
            pytest.skip(str(error.value))


def test_the_chart_is_of_this_version() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"] == __version__


@pytest.mark.parametrize("name", CASES)
def test_pods_keep_to_the_restricted_profile(name: str) -> None:
    """But for the worker's hostPID, by which it sees who uses a GPU."""
    for pod in pods(name):
        security = pod["securityContext"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (security["runAsNonRoot"], security["runAsUser"], security["runAsGroup"]) == (
            True,
            10001,
            10001,
        )
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} <= container["resources"].keys()


@pytest.mark.parametrize("name", CASES)
def test_probes_ask_routes_that_exist(name: str, app: FastAPI) -> None:
    (pod,) = (each for each in pods(name) if "startupProbe" in each["containers"][0])
    container = pod["containers"][0]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[kind]
        assert TestClient(app).get(asked["httpGet"]["path"]).status_code == 200
        assert asked["httpGet"]["port"] in {each["name"] for each in container["ports"]}
        assert asked["timeoutSeconds"] <= asked["periodSeconds"]
    assert container["lifecycle"]["preStop"]["exec"]["command"][0] == "python"


@pytest.mark.parametrize("name", CASES)
def test_a_pod_is_not_killed_before_its_service_has_ended(name: str) -> None:
    (pod,) = (each for each in pods(name) if "startupProbe" in each["containers"][0])
    container = pod["containers"][0]
    (pause,) = re.findall(r"time\.sleep\((\d+)\)", container["lifecycle"]["preStop"]["exec"]["command"][-1])
    (stop,) = (each["value"] for each in container["env"] if each["name"] == "DRYSERVE_STOP_SECONDS")
    assert int(pause) + int(stop) < pod["terminationGracePeriodSeconds"]
    assert Settings(stop_seconds=int(stop)).stop_seconds > Settings().stop_seconds


@pytest.mark.parametrize("name", CASES)
def test_settings_exist(name: str) -> None:
    fields = Settings.model_fields
    known = {f"DRYSERVE_{each.upper()}" for each in fields} | {"HF_TOKEN", "HF_HUB_OFFLINE"}
    for pod in pods(name):
        for container in pod["containers"]:
            given = {each["name"] for each in container.get("env", ())}
            assert given <= known | {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NODE_NAME"}


@pytest.mark.parametrize("name", CASES)
def test_commands_exist(name: str) -> None:
    for pod in pods(name):
        words = pod["containers"][0]["args"]
        options = [word for word in words if word.startswith("--")]
        commands = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
        page = CliRunner().invoke(cli, [*commands, "--help"])
        assert page.exit_code == 0
        assert all(option in page.output for option in options)


def service_container(name: str) -> dict[str, Any]:
    (container,) = of_kind(name, "Deployment")["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def environment(name: str) -> dict[str, str | None]:
    return {each["name"]: each.get("value") for each in service_container(name)["env"]}


@pytest.mark.parametrize("name", CASES)
def test_probes_and_metrics_have_a_listener_of_their_own(name: str) -> None:
    container = service_container(name)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (
        read_settings({"admin_port": environment(name)["DRYSERVE_ADMIN_PORT"]}).admin_port == ports["admin"]
    )
    assert ports["admin"] != ports["http"]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[kind]["httpGet"]["port"] == "admin"
    public, admin = (of_kind(name, "Service", each)["spec"]["ports"] for each in ("service", "admin"))
    assert [each["targetPort"] for each in public] == ["http"]
    assert [(each["name"], each["targetPort"]) for each in admin] == [("admin", "admin")]


def test_prometheus_finds_the_listener_and_may_connect_to_it() -> None:
    monitor = of_kind("complete.yaml", "ServiceMonitor")["spec"]
    services = [each for each in documents("complete.yaml") if each["kind"] == "Service"]
    (found,) = (
        each
        for each in services
        if monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
    )
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {each["name"] for each in found["spec"]["ports"]}
    rules = of_kind("complete.yaml", "NetworkPolicy")["spec"]["ingress"]
    allowed = {port["port"]: rule["from"] for rule in rules for port in rule["ports"]}
    assert allowed.keys() == {"http", "admin"}
    assert allowed["http"] != allowed["admin"]


def test_tokens_come_from_a_mounted_secret() -> None:
    """The file lies where the service looks; a whole folder is mounted, so that it follows the Secret."""
    pod = of_kind("complete.yaml", "Deployment")["spec"]["template"]["spec"]
    (mount,) = (
        each for each in service_container("complete.yaml")["volumeMounts"] if each["name"] == "tokens"
    )
    (volume,) = (each["secret"] for each in pod["volumes"] if each["name"] == "tokens")
    (item,) = volume["items"]
    assert environment("complete.yaml")["DRYSERVE_TOKENS_FILE"] == f"{mount['mountPath']}/{item['path']}"
    assert mount["readOnly"] is True
    assert "subPath" not in mount
    # Readable for the pod's group alone, which is the service's.
    assert (volume["defaultMode"], pod["securityContext"]["fsGroup"]) == (0o440, 10001)
    for name in ("single.yaml", "replicated.yaml"):
        assert "DRYSERVE_TOKENS_FILE" not in environment(name)


def test_a_release_upgrades_the_database_first() -> None:
    job = of_kind("replicated.yaml", "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["database", "upgrade"]
    (serving,) = of_kind("replicated.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "DRYSERVE_DATABASE_UPGRADE", "value": "0"} in serving["env"]
    assert serving["image"] == container["image"]
    assert (
        of_kind("replicated.yaml", "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    )


def test_selectors_find_the_services_pods_alone() -> None:
    for name in CASES:
        labels = of_kind(name, "Deployment")["spec"]["template"]["metadata"]["labels"]
        chosen = of_kind(name, "Service", "service")["spec"]["selector"]
        assert of_kind(name, "Service", "admin")["spec"]["selector"] == chosen
        assert chosen.items() <= labels.items()
        others = [each for each in documents(name) if each["kind"] in {"DaemonSet", "Job"}]
        for other in others:
            assert not chosen.items() <= other["spec"]["template"]["metadata"]["labels"].items()


@pytest.fixture(scope="module")
def app() -> FastAPI:
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    return create_app(build_services(Settings(HF_HUB_OFFLINE=True), nobody))


@pytest.fixture(scope="module")
def metrics(app: FastAPI) -> frozenset[str]:
    """Return the names of all series that the service exposes."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    families = text_string_to_metric_families(TestClient(app).get("/metrics").text)
    return frozenset(
        f"{family.name}{suffix}" for family in families for suffix in suffixes.get(family.type, ("",))
    )


def queries() -> list[str]:
    rules = yaml.safe_load((CHART / "files" / "rules.yaml").read_text("utf-8"))["groups"]
    board = json.loads((CHART / "files" / "dashboard.json").read_text("utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [rule["expr"] for group in rules for rule in group["rules"]] + asked


def names_of(query: str) -> set[str]:
    """Return the series of a query: words that are neither labels nor functions nor inside of quotes."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\{\{.*?\}\}', "", query)
    bare = re.sub(r"\{[^}]*\}|\bby \([^)]*\)", "", bare)
    return set(re.findall(r"[a-z_][a-z_0-9]+(?!\w*\()", bare)) - FUNCTIONS


@pytest.mark.parametrize("query", queries())
def test_queries_ask_for_metrics_that_exist(query: str, metrics: frozenset[str]) -> None:
    assert names_of(query)
    assert names_of(query) <= metrics
    labels = re.findall(r"(\w+)(?:=~|!~|!=|=)\"", query) + re.findall(r"\bby \(([^)]*)\)", query)
    assert {each.strip() for label in labels for each in label.split(",")} <= LABELS


def test_the_check_of_queries_can_fail(metrics: frozenset[str]) -> None:
    assert names_of("sum by (size) (rate(dryserve_invented_total[5m]))") == {"dryserve_invented_total"}
    assert "dryserve_invented_total" not in metrics
    assert {"dryserve_probe_jobs", "dryserve_candidates_total", "process_resident_memory_bytes"} <= metrics


def test_alerts_and_dashboard_are_in_the_complete_form() -> None:
    assert all(MONITORED.values())
    rule = of_kind("complete.yaml", "PrometheusRule")["spec"]
    assert rule == yaml.safe_load((CHART / "files" / "rules.yaml").read_text("utf-8"))
    for alert in (each for group in rule["groups"] for each in group["rules"]):
        assert {"summary", "description"} <= alert["annotations"].keys()
    board: Mapping[str, Any] = json.loads(of_kind("complete.yaml", "ConfigMap")["data"]["dryserve.json"])
    assert board == json.loads((CHART / "files" / "dashboard.json").read_text("utf-8"))
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]]
    assert len(set(places)) == len(places)
