"""Each object that the chart makes is one that Kubernetes takes, named and labelled as the field does it."""

from __future__ import annotations

import copy
import re
import tomllib
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.app.settings import load_settings
from tests.conftest import REPOSITORY
from tests.deploy.operator_schemas import SCHEMAS
from tests.deploy.rendered_chart import (
    CHART,
    EVERYTHING,
    NAMESPACE,
    VARIANTS,
    documents,
    of_kind,
    only,
    pod_templates,
    rendered,
)

KUBERNETES_VERSIONS = ("1.27", "1.31", "1.37")
STANDARD_LABELS = {
    f"app.kubernetes.io/{word}" for word in ("name", "instance", "component", "version", "part-of", "managed-by")
}
RULES = CHART / "files" / "cluster-rules.yaml"
ALERTS = CHART / "files" / "alerts.yaml"


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_kubernetes_takes_each_object(variant: str, version: str) -> None:
    checked = 0
    for each in documents(VARIANTS[variant]):
        if each["kind"] in SCHEMAS:
            jsonschema.validate(each, SCHEMAS[each["kind"]])
        else:
            kubernetes_validate.validate(each, version, strict=True)
        checked += 1
    assert checked >= 3


def test_a_misspelt_field_would_be_found() -> None:
    found = documents(EVERYTHING)
    statefulset = copy.deepcopy(only(found, "StatefulSet"))
    statefulset["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Never"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(statefulset, KUBERNETES_VERSIONS[-1], strict=True)
    monitor = copy.deepcopy(only(found, "ServiceMonitor"))
    monitor["spec"]["endpoints"][0]["scrape_timeout"] = "10s"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(monitor, SCHEMAS["ServiceMonitor"])


def test_everything_switched_on_makes_each_kind() -> None:
    assert sorted(each["kind"] for each in documents(EVERYTHING)) == sorted(
        (
            *("ServiceAccount", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Service"),
            *("StatefulSet", "DaemonSet", "NetworkPolicy", "NetworkPolicy", "ServiceMonitor", "PrometheusRule"),
        )
    )


def test_helm_finds_nothing_to_say_about_the_chart() -> None:
    report = helm_python.lint(str(CHART), strict=True)
    assert report["errors"] == []
    assert [each["error"] for each in report["messages"] if each["severity"] > 1] == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_object_carries_the_standard_labels(variant: str) -> None:
    for each in documents(VARIANTS[variant]):
        labels = each["metadata"]["labels"]
        assert labels.keys() >= STANDARD_LABELS, each["kind"]
        assert all(re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", value) for value in labels.values())
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


@pytest.mark.parametrize("variant", VARIANTS)
def test_selectors_choose_the_pods_of_their_own_component_alone(variant: str) -> None:
    found = documents(VARIANTS[variant])
    pods = [template["metadata"]["labels"] for template in pod_templates(found)]
    selectors = [
        (each["metadata"]["labels"]["app.kubernetes.io/component"], selector)
        for each in found
        if (selector := _selector(each)) is not None
    ]
    assert len(selectors) >= 2
    for component, selector in selectors:
        chosen = [labels for labels in pods if selector.items() <= labels.items()]
        assert [labels["app.kubernetes.io/component"] for labels in chosen] == [component]


def _selector(each: dict[str, Any]) -> dict[str, str] | None:
    spec = each.get("spec", {})
    chosen = spec.get("podSelector") or spec.get("selector")
    if chosen is None:
        return None
    labels: dict[str, str] = chosen.get("matchLabels", chosen)
    return labels


def test_selectors_do_not_change_with_the_version() -> None:
    found = documents(EVERYTHING)
    for kind, component in (("StatefulSet", "server"), ("DaemonSet", "agent")):
        selector = only(found, kind, component)["spec"]["selector"]["matchLabels"]
        assert not selector.keys() & {"app.kubernetes.io/version", "helm.sh/chart"}


@pytest.mark.parametrize("release", ["steelyard", "weigh", "a" * 53, "1"])
def test_names_stay_within_what_kubernetes_takes(release: str) -> None:
    for each in documents(EVERYTHING, name=release, namespace="1"):
        name = each["metadata"]["name"]
        assert len(name) <= 63
        assert each["metadata"].get("namespace", "1") == "1"
        assert re.fullmatch(r"[a-z0-9:]([a-z0-9:-]*[a-z0-9])?", name)


def test_two_releases_share_no_name() -> None:
    first, second = documents(EVERYTHING, name="one"), documents(EVERYTHING, name="two")
    assert not {(e["kind"], e["metadata"]["name"]) for e in first} & {
        (e["kind"], e["metadata"]["name"]) for e in second
    }
    elsewhere = documents(EVERYTHING, name="one", namespace="other")
    cluster_wide = [{e["metadata"]["name"] for e in of_kind(each, "ClusterRole")} for each in (first, elsewhere)]
    assert not cluster_wide[0] & cluster_wide[1]


def test_images_are_pinned_by_tag_and_by_digest_where_one_is_given() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    assert {c["image"] for c in _containers({"agent": {"enabled": True}})} == {f"steelyard:{version}"}
    assert {c["image"] for c in _containers(EVERYTHING)} == {
        f"registry.example.com:5000/gpu/steelyard:0.1.7@sha256:{'a' * 64}"
    }


def _containers(values: Any) -> list[dict[str, Any]]:
    return [each for template in pod_templates(documents(values)) for each in template["spec"]["containers"]]


def test_the_chart_is_of_the_program_beside_it() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"]


def test_the_default_settings_are_taken_by_the_program(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variant, cluster in (({}, "default"), (EVERYTHING, "north")):
        path = tmp_path / "steelyard.toml"
        path.write_text(_settings_text(variant), encoding="utf-8")
        monkeypatch.delenv("STEELYARD_LANG", raising=False)
        assert load_settings(tmp_path, path).cluster == cluster


def _settings_text(values: Any) -> str:
    text: str = only(documents(values), "ConfigMap")["data"]["steelyard.toml"]
    return text


_TEXT = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cc", "Cs", "Cn")), max_size=12
)
_KEY = _TEXT.filter(lambda key: key not in {"token", "password", "secret", "api_key", "bearer_token", "private_key"})
_LEAF = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 3)), _TEXT
)
_SETTING = st.recursive(_LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEY, inner, max_size=3))


@settings(max_examples=40)
@given(st.dictionaries(_KEY.filter(lambda key: key not in ("kubernetes", "cluster")), _SETTING, max_size=4))
def test_settings_arrive_as_they_were_written(written: dict[str, Any]) -> None:
    asked = {"cluster": "c", "kubernetes": [], **written}
    assert tomllib.loads(_settings_text({"settings": asked})) == asked


def test_whole_numbers_stay_whole() -> None:
    text = _settings_text({"settings": {"grain_minutes": 15, "import_limits": {"line_bytes_max": 1073741824}}})
    found = tomllib.loads(text)
    assert [type(found["grain_minutes"]), type(found["import_limits"]["line_bytes_max"])] == [int, int]


def test_a_setting_that_is_null_is_left_to_the_program() -> None:
    assert "kubernetes" not in tomllib.loads(_settings_text({"settings": {"kubernetes": None}}))


def test_new_settings_make_a_new_pod_and_equal_ones_do_not() -> None:
    def mark(values: Any) -> str:
        annotations = only(documents(values), "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        found: str = annotations["checksum/settings"]
        return found

    assert mark({}) == mark({"server": {"port": 9000}})
    assert mark({}) != mark({"settings": {"grain_minutes": 15}})


def test_the_notes_name_commands_for_what_was_switched_on() -> None:
    notes = {name: rendered(values)["NOTES.txt"] for name, values in VARIANTS.items()}
    assert f"kubectl -n {NAMESPACE} exec weigh-steelyard-0 -- steelyard q1" in notes["default"]
    assert "networkPolicy.ingress.from" in notes["default"]
    assert "steelyard-metrics-token" not in notes["default"]
    assert "create secret generic steelyard-metrics-token --from-literal=token=TOKEN" in notes["everything"]
    assert "create secret generic steelyard-agent-token --from-literal=token=TOKEN" in notes["everything"]
    assert "networkPolicy.ingress.from" not in notes["everything"]


def test_the_alerts_are_those_of_the_one_file() -> None:
    source = REPOSITORY / "deploy" / "prometheus" / "alerts.yaml"
    assert ALERTS.read_bytes() == source.read_bytes(), f"cp {source} {ALERTS}"
    spec = only(documents(EVERYTHING), "PrometheusRule")["spec"]
    assert spec == yaml.safe_load(source.read_text(encoding="utf-8"))
