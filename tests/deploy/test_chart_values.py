"""Values that would go wrong later are refused before anything is made, and the refusal names them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from steelyard.app.settings import load_settings
from tests.conftest import REPOSITORY
from tests.deploy.rendered_chart import CHART, VARIANTS, documents, only, rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt part": ({"servr": {}}, "servr"),
    "a misspelt key": ({"server": {"prot": 1}}, "prot"),
    "replicas": ({"server": {"replicas": 2}}, "replicas"),
    "a port as text": ({"server": {"port": "8780"}}, "port"),
    "a port that needs root": ({"server": {"port": 80}}, "port"),
    "a port beyond all": ({"service": {"port": 65536}}, "port"),
    "a service open to the world": ({"service": {"type": "LoadBalancer"}}, "type"),
    "a tag that moves": ({"image": {"tag": "latest"}}, "tag"),
    "a tag within the name": ({"image": {"repository": "steelyard:latest"}}, "repository"),
    "a digest that is none": ({"image": {"digest": "sha256:abc"}}, "digest"),
    "no image": ({"image": {"repository": ""}}, "repository"),
    "a volume that many write": ({"server": {"persistence": {"accessMode": "ReadWriteMany"}}}, "accessMode"),
    "a size without a number": ({"server": {"persistence": {"size": "big"}}}, "size"),
    "no memory limit": ({"server": {"resources": {"limits": {"memory": None}}}}, "memory"),
    "too little time to end": ({"server": {"terminationGracePeriodSeconds": 30}}, "terminationGracePeriodSeconds"),
    "a secret's value as a variable": (
        {"server": {"secretEnv": [{"name": "X", "secretName": "a", "key": "b", "value": "hunter2"}]}},
        "value",
    ),
    "a variable of the chart's own": (
        {"server": {"secretEnv": [{"name": "STEELYARD_DATA", "secretName": "a", "key": "b"}]}},
        "name",
    ),
    "a secret's file beyond its folder": ({"server": {"secretFiles": [{"name": "../x", "secretName": "a"}]}}, "name"),
    "a token among the settings": ({"settings": {"kubernetes": [{"name": "a", "token": "hunter2"}]}}, "settings"),
    "a password among the settings": ({"settings": {"password": "hunter2"}}, "settings"),
    "settings without a cluster": ({"settings": {"cluster": None}}, "cluster"),
    "a metrics token in plain text": ({"serviceMonitor": {"token": "hunter2"}}, "token"),
    "a ServiceMonitor without a token": ({"serviceMonitor": {"tokenSecret": {"name": ""}}}, "tokenSecret"),
    "an interval without a unit": ({"serviceMonitor": {"interval": "30"}}, "interval"),
    "an agent's token in plain text": ({"agent": {"token": "hunter2"}}, "token"),
    "a token over plain HTTP": ({"agent": {"serverUrl": "http://elsewhere:8780"}}, "serverUrl"),
    "a privileged agent": ({"agent": {"privileged": True}}, "privileged"),
    "a relative path of the node": ({"agent": {"hostPaths": {"kernelLog": "var/log"}}}, "kernelLog"),
    "a network peer that means nobody knows whom": ({"networkPolicy": {"ingress": {"from": [{}]}}}, "from"),
    "a network peer that is misspelt": (
        {"networkPolicy": {"ingress": {"from": [{"podSelectors": {}}]}}},
        "podSelectors",
    ),
    "a label of the chart's own": (
        {"server": {"podLabels": {"app.kubernetes.io/name": "x"}}},
        "app.kubernetes.io/name",
    ),
    "an annotation of the chart's own": (
        {"server": {"podAnnotations": {"checksum/settings": "x"}}},
        "checksum/settings",
    ),
    "a label that is no text": ({"server": {"nodeSelector": {"gpu": True}}}, "nodeSelector"),
    "true as text": ({"agent": {"enabled": "true"}}, "enabled"),
    "a name too long": ({"fullnameOverride": "a" * 57}, "fullnameOverride"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_refused_and_named(case: str) -> None:
    values, named = REFUSED[case]
    with pytest.raises(helm_python.HelmError) as refusal:
        rendered(values)
    assert named in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("case", REFUSED)
def test_rendering_itself_refuses_too(case: str) -> None:
    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError):
        chart.render(REFUSED[case][0], name="weigh", namespace="gpu-books")


@pytest.mark.parametrize("variant", VARIANTS)
def test_right_values_are_taken(variant: str) -> None:
    assert rendered(VARIANTS[variant])


def _closed(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> list[str]:
    """Paths of the values that the schema does not name, and of its objects that let unknown keys in."""
    found = [f"{path}.{key}" for key in values if key not in schema.get("properties", {})]
    for key, inner in schema.get("properties", {}).items():
        if inner.get("type") == "object" and "properties" in inner:
            if inner.get("additionalProperties") is not False:
                found.append(f"{path}.{key} is open")
            found += _closed(inner, values.get(key) or {}, f"{path}.{key}")
    return found


def test_the_schema_names_each_value_and_lets_no_other_in() -> None:
    assert SCHEMA["additionalProperties"] is False
    assert _closed(SCHEMA, VALUES) == []


def test_each_value_that_the_schema_names_is_in_the_values_file() -> None:
    def missing(schema: dict[str, Any], values: dict[str, Any], path: str) -> list[str]:
        found = []
        for key, inner in schema.get("properties", {}).items():
            if key not in values:
                found.append(f"{path}.{key}")
            elif "properties" in inner:
                found += missing(inner, values[key], f"{path}.{key}")
        return found

    assert missing(SCHEMA, VALUES, "") == [".global"]


PAGE = REPOSITORY / "docs" / "operations" / "install.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_values_that_the_page_shows_are_taken(block: str) -> None:
    assert rendered(yaml.safe_load(block), name="steelyard", namespace="steelyard")


def test_the_page_names_values_files_and_objects_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    values = set(
        re.findall(
            r"`((?:server|agent|serviceMonitor|prometheusRule|networkPolicy|rbac|serviceAccount)\.[A-Za-z.]+)", text
        )
    )
    assert len(values) >= 10
    for path in values:
        found: Any = VALUES
        for key in path.split("."):
            assert key in found, path
            found = found[key]
    for path in re.findall(r"\bdeploy/[A-Za-z/.-]+[A-Za-z]", text):
        assert (REPOSITORY / path).exists(), path
    names = {each["metadata"]["name"] for each in documents(name="steelyard", namespace="steelyard")}
    assert "steelyard" in names
    assert "exec steelyard-0 -- steelyard q1" in text


def test_the_settings_that_the_page_shows_are_taken_by_the_program(tmp_path: Path) -> None:
    shown = documents(yaml.safe_load(BLOCKS[0]))
    path = tmp_path / "steelyard.toml"
    path.write_text(only(shown, "ConfigMap")["data"]["steelyard.toml"], encoding="utf-8")
    assert [each.name for each in load_settings(tmp_path, path).prometheus] == ["main"]
