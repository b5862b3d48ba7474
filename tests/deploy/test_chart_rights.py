"""What the chart's pods may do, and what reaches them: as little as they can work with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS
from tests.conftest import REPOSITORY
from tests.deploy.rendered_chart import CHART, EVERYTHING, VARIANTS, Document, documents, of_kind, only, rendered

READING = {"get", "list", "watch"}
AGENT_FILE = CHART / "templates" / "agent.yaml"


def server_pod(values: Any = None) -> Document:
    spec: Document = only(documents(values), "StatefulSet")["spec"]["template"]["spec"]
    return spec


def agent_pod(values: Any = EVERYTHING) -> Document:
    spec: Document = only(documents(values), "DaemonSet", "agent")["spec"]["template"]["spec"]
    return spec


def rules_of(values: Any = None) -> list[dict[str, list[str]]]:
    found: list[dict[str, list[str]]] = only(documents(values), "ClusterRole")["rules"]
    return found


def granted(rules: list[dict[str, list[str]]]) -> set[tuple[str, str, str]]:
    """(group, resource, verb) of each right."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_role_says_all(variant: str) -> None:
    found = documents(VARIANTS[variant])
    assert "*" not in json.dumps(
        [each.get("rules") for each in (*of_kind(found, "ClusterRole"), *of_kind(found, "Role"))]
    )


def test_the_cluster_role_reads_and_never_writes() -> None:
    rights = granted(rules_of())
    assert {verb for _group, _resource, verb in rights} <= READING
    assert "secrets" not in {resource for _group, resource, _verb in rights}
    assert not any("/" in resource for _group, resource, _verb in rights)


def test_the_cluster_role_lets_every_kind_be_watched() -> None:
    asked = {(each.group, each.plural) for kind in RESOURCE_KINDS for each in (kind, kind.fallback) if each is not None}
    for verb in ("list", "watch"):
        assert asked == {(group, resource) for group, resource, v in granted(rules_of()) if v == verb}


def test_the_cluster_role_grants_what_the_manifest_without_helm_grants() -> None:
    manifests = [
        each
        for path in sorted((REPOSITORY / "deploy" / "rbac").glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if each and each["kind"] == "ClusterRole"
    ]
    assert [each["rules"] for each in manifests] == [rules_of()]


def test_without_rbac_nothing_is_granted_and_no_token_is_mounted() -> None:
    found = documents(VARIANTS["bare"])
    assert {each["kind"] for each in found} == {"ConfigMap", "Service", "StatefulSet", "ServiceAccount", "DaemonSet"}
    assert server_pod(VARIANTS["bare"])["automountServiceAccountToken"] is False


def test_only_the_servers_account_is_bound() -> None:
    binding = only(documents(EVERYTHING), "ClusterRoleBinding")
    account = only(documents(EVERYTHING), "ServiceAccount")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": account["metadata"]["namespace"]}
    ]
    assert server_pod(EVERYTHING)["serviceAccountName"] == account["metadata"]["name"]
    assert agent_pod()["automountServiceAccountToken"] is False
    assert agent_pod()["serviceAccountName"] != account["metadata"]["name"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_server_is_within_the_restricted_pod_security_standard(variant: str) -> None:
    pod = server_pod(VARIANTS[variant])
    assert not pod.keys() & {"hostPID", "hostIPC", "hostNetwork", "hostUsers", "initContainers", "ephemeralContainers"}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {key for volume in pod["volumes"] for key in volume} <= {"name", "configMap", "secret", "emptyDir"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not any("hostPort" in port for port in container["ports"])


def test_the_server_writes_in_its_volume_and_its_scratch_alone() -> None:
    (container,) = server_pod(EVERYTHING)["containers"]
    assert {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")} == {
        "/var/lib/steelyard",
        "/tmp",
    }
    directory = {each["name"]: each.get("value") for each in container["env"]}["STEELYARD_DATA"]
    assert directory.startswith("/var/lib/steelyard/")


def test_there_is_one_server_and_no_disruption_budget() -> None:
    found = documents(EVERYTHING)
    assert only(found, "StatefulSet")["spec"]["replicas"] == 1
    assert of_kind(found, "PodDisruptionBudget") == []


def test_probes_ask_the_one_route_without_a_token() -> None:
    (container,) = server_pod()["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "http"}
    patience = container["livenessProbe"]["periodSeconds"] * container["livenessProbe"]["failureThreshold"]
    assert patience >= 120


def test_a_server_has_longer_to_end_than_it_takes_to_finish_requests() -> None:
    from steelyard.surfaces.http_api.listening import DRAIN_SECONDS

    assert server_pod()["terminationGracePeriodSeconds"] > DRAIN_SECONDS


def test_the_volume_outlives_the_release() -> None:
    policy = only(documents(EVERYTHING), "StatefulSet")["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_secret_is_written_anywhere(variant: str) -> None:
    found = documents(VARIANTS[variant])
    assert of_kind(found, "Secret") == []
    for pod in [each["spec"]["template"]["spec"] for each in found if each["kind"] in ("StatefulSet", "DaemonSet")]:
        for variable in [each for container in pod["containers"] for each in container["env"]]:
            if re.search("token|secret|password|key|proxy", variable["name"], re.IGNORECASE):
                assert variable.keys() == {"name", "valueFrom"}


def test_secrets_that_are_named_arrive_as_files_and_variables() -> None:
    pod = server_pod(EVERYTHING)
    (container,) = pod["containers"]
    assert {"name": "HTTPS_PROXY", "valueFrom": {"secretKeyRef": {"name": "egress-proxy", "key": "url"}}} in container[
        "env"
    ]
    mount = next(each for each in container["volumeMounts"] if each["name"] == "secret-prometheus")
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/steelyard/secrets/prometheus", True)
    volume = next(each for each in pod["volumes"] if each["name"] == "secret-prometheus")
    assert volume["secret"] == {"secretName": "prometheus-reader", "defaultMode": 0o440}


def test_nobody_reaches_the_server_unless_named() -> None:
    policy = only(documents(), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []


def test_who_is_named_and_the_agents_reach_the_http_port_alone() -> None:
    (rule,) = only(documents(EVERYTHING), "NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"port": 8780, "protocol": "TCP"}]
    assert len(rule["from"]) == 2
    assert rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "agent"
    assert rule["from"][1]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    assert only(documents(EVERYTHING), "NetworkPolicy", "agent")["spec"]["ingress"][0]["ports"] == [
        {"port": 9782, "protocol": "TCP"}
    ]


def test_the_server_reaches_dns_the_api_server_prometheus_and_exporters() -> None:
    rules = only(documents(), "NetworkPolicy")["spec"]["egress"]
    assert [{each["port"] for each in rule["ports"]} for rule in rules][:3] == [{53}, {443, 6443}, {9090}]
    assert {each["protocol"] for each in rules[0]["ports"]} == {"UDP", "TCP"}
    assert 9400 in {each["port"] for each in rules[3]["ports"]}
    assert len(rules) == 4


@pytest.mark.parametrize(
    "emptied", [("dns",), ("apiServer",), ("prometheus", "exporters"), ("dns", "apiServer", "prometheus", "exporters")]
)
def test_a_rule_that_names_nobody_lets_nobody_through(emptied: tuple[str, ...]) -> None:
    given = {"networkPolicy": {"egress": {name: {"to": []} for name in emptied}}}
    rules = only(documents(given), "NetworkPolicy")["spec"]["egress"]
    assert len(rules) == 4 - len(emptied)
    assert all(rule["to"] and rule["ports"] for rule in rules)


def test_the_agents_speak_to_dns_and_their_server_alone() -> None:
    dns, server = only(documents(EVERYTHING), "NetworkPolicy", "agent")["spec"]["egress"]
    assert {each["port"] for each in dns["ports"]} == {53}
    assert server["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "server"
    assert server["ports"] == [{"port": 8780, "protocol": "TCP"}]


def test_an_agent_has_no_capability_and_no_privileged_mode() -> None:
    pod = agent_pod()
    assert not pod.keys() & {"hostIPC", "hostNetwork"}
    assert pod["hostPID"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_agent_reads_the_node_and_writes_its_spool_alone() -> None:
    pod = agent_pod()
    (container,) = pod["containers"]
    of_the_node = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
    assert of_the_node == {"pod-resources", "cgroup", "kernel-log", "spool"}
    writable = {each["name"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert writable == {"spool", "scratch"}
    without = agent_pod({"agent": {"enabled": True, "hostPaths": {"kernelLog": ""}}})
    assert {volume["name"] for volume in without["volumes"] if "hostPath" in volume} == {"pod-resources", "cgroup"}
    assert not any(each["name"] == "kernel-log" for each in without["containers"][0]["volumeMounts"])


@pytest.mark.parametrize(
    "right",
    [
        "hostPID: true",
        "runtimeClassName:",
        "runAsUser: 0",
        "supplementalGroups:",
        "- name: pod-resources",
        "- name: cgroup",
        "- name: kernel-log",
    ],
)
def test_each_right_of_an_agent_says_why(right: str) -> None:
    lines = [line.strip() for line in AGENT_FILE.read_text(encoding="utf-8").splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith(right))
    reasons = []
    while lines[at - 1].startswith("#"):
        at -= 1
        reasons.insert(0, lines[at])
    assert reasons, right
    assert reasons[0].startswith("# Why: ")


def test_the_agent_is_started_with_options_that_it_has_and_is_off_while_it_does_not_exist() -> None:
    program = Path(sys.executable).parent / "steelyard"
    answer = subprocess.run([program, "agent", "--help"], capture_output=True, text=True, timeout=120, check=False)
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    if answer.returncode != 0:
        assert values["agent"]["enabled"] is False
        return
    options = {each.split("=")[0] for each in agent_pod()["containers"][0]["args"][1:]}
    assert [option for option in options if option not in answer.stdout] == []


def test_the_server_is_started_with_options_that_it_has() -> None:
    program = Path(sys.executable).parent / "steelyard"
    answer = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, timeout=120, check=True)
    (container,) = server_pod(EVERYTHING)["containers"]
    assert container["args"] == ["serve", "--listen", "[::]:8780"]
    assert "--listen" in answer.stdout


def test_prometheus_shows_a_token_from_a_secret_at_the_metrics_route() -> None:
    (endpoint,) = only(documents(EVERYTHING), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"] == {
        "type": "Bearer",
        "credentials": {"name": "steelyard-metrics-token", "key": "token"},
    }
    assert "token create --role operator --name prometheus" in rendered(EVERYTHING)["NOTES.txt"]


def test_prometheus_finds_the_service_by_its_labels_and_port() -> None:
    found = documents(EVERYTHING)
    monitor, service = only(found, "ServiceMonitor")["spec"], only(found, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    assert [each["port"] for each in monitor["endpoints"]] == [each["name"] for each in service["spec"]["ports"]]
    (container,) = server_pod(EVERYTHING)["containers"]
    assert [each["targetPort"] for each in service["spec"]["ports"]] == [each["name"] for each in container["ports"]]


def test_agents_are_told_their_own_server() -> None:
    arguments = agent_pod()["containers"][0]["args"]
    service = only(documents(EVERYTHING), "Service")["metadata"]
    assert f"--server=http://{service['name']}.{service['namespace']}.svc:8780" in arguments
    elsewhere = {"agent": {"enabled": True, "serverUrl": "https://weigh.example.com"}}
    assert "--server=https://weigh.example.com" in agent_pod(elsewhere)["containers"][0]["args"]
