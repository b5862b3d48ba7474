"""What the chart starts is an agent that takes its options as they stand there."""

from __future__ import annotations

import pytest

from steelyard.app.agent.delivery import address_of
from steelyard.app.agent.options import options
from tests.deploy.rendered_chart import EVERYTHING, VARIANTS, Document, documents, only, rendered


def container(values: object) -> Document:
    spec = only(documents(values), "DaemonSet", "agent")["spec"]["template"]["spec"]  # type: ignore[arg-type]
    found: Document = spec["containers"][0]
    return found


@pytest.mark.parametrize("variant", [name for name, values in VARIANTS.items() if values.get("agent")])
def test_the_agent_takes_the_charts_options(variant: str) -> None:
    found = container(VARIANTS[variant])
    args = [word.replace("$(NODE_NAME)", "gpu-1") for word in found["args"]]
    assert args[0] == "agent"
    asked = options(args[1:], {})
    mounted = {each["mountPath"] for each in found["volumeMounts"]}
    assert asked.node == "gpu-1"
    assert str(asked.spool) in mounted
    assert asked.token_file is not None and str(asked.token_file.parent) in mounted
    assert asked.pod_resources is not None and str(asked.pod_resources.parent) in mounted
    assert asked.server is not None
    assert address_of(asked.server, asked.insecure_http).scheme == "http"
    ports = [each["containerPort"] for each in found.get("ports", [])]
    assert ([asked.metrics[1]] if asked.metrics else []) == ports


def test_plain_http_is_said_where_it_is_used_and_only_there() -> None:
    assert "--insecure-http" in container(EVERYTHING)["args"]
    over_tls = {**EVERYTHING, "agent": {**EVERYTHING["agent"], "serverUrl": "https://steelyard.example"}}
    assert "--insecure-http" not in container(over_tls)["args"]


def test_the_notes_make_a_token_that_can_do_nothing_but_deliver() -> None:
    assert any("token create --role agent --name agents" in text for text in rendered(EVERYTHING).values())
