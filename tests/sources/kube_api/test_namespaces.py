"""Namespace objects as facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from steelyard.facts.finding import Finding
from steelyard.facts.namespace import Namespace
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import parse_instant
from steelyard.sources.kube_api.namespaces import is_namespace, read_namespace
from steelyard.sources.shared.context import ReadContext, ReadSettings

CTX = ReadContext(file="x", observed_at=7)


def namespace(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "uid": "u-1", **metadata},
            "status": {"phase": "Active"}}  # fmt: skip


def test_a_namespace_keeps_its_labels_and_its_annotations_without_what_machines_wrote() -> None:
    payload = namespace(
        labels={"team": "a"},
        annotations={"contact": "ann", "kubectl.kubernetes.io/last-applied-configuration": "{}", "long": "x" * 5_000},
        creationTimestamp="2026-03-01T08:00:00Z",
    )
    assert is_namespace("Namespace", payload)
    (found,) = read_namespace(payload, "Namespace", CTX)
    assert isinstance(found, Namespace)
    assert (found.natural_key, found.namespace, found.phase, found.occurred_at) == ("u-1", "team-a", "Active", 7)
    assert (json.loads(found.labels), json.loads(found.annotations)) == ({"team": "a"}, {"contact": "ann"})
    assert (found.created_at, found.deletion_at) == (parse_instant("2026-03-01T08:00:00Z"), None)


@pytest.mark.parametrize("metadata", [{"name": None}, {"name": ""}, {"name": 7}, {"name": {"a": 1}}])
def test_a_namespace_without_a_name_is_refused(metadata: dict[str, Any]) -> None:
    with pytest.raises(SourceMalformed, match=r"metadata\.name"):
        list(read_namespace(namespace(**metadata), "Namespace", CTX))


@pytest.mark.parametrize("value", [None, 7, "x", [1], {"a": 1, "b": "\ud800"}])
def test_a_namespace_of_a_wrong_shape_ends_no_reading(value: Any) -> None:
    for key in ("labels", "annotations", "creationTimestamp", "uid"):
        facts = list(read_namespace(namespace(**{key: value}), "Namespace", CTX))
        assert [type(fact) for fact in facts if not isinstance(fact, Finding)] == [Namespace]


def test_more_labels_than_the_settings_allow_are_a_finding() -> None:
    ctx = replace(CTX, settings=ReadSettings(annotations_max=1))
    _fact, finding = read_namespace(namespace(labels={"a": "1", "b": "2"}), "Namespace", ctx)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.subject) == ("labels_too_many", "namespace team-a")
