"""The manifest grants what is watched, to the letter, and nothing more."""

from __future__ import annotations

from typing import Any

import yaml

from steelyard.sources.kube_api.resource_kinds import RESOURCE_KINDS, ResourceKind
from tests.conftest import REPOSITORY

MANIFEST = REPOSITORY / "deploy" / "rbac" / "cluster-role.yaml"


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))


def test_the_role_lists_and_watches_exactly_the_kinds_that_are_watched() -> None:
    (role,) = [each for each in documents() if each["kind"] == "ClusterRole"]
    granted = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if sorted(rule["verbs"]) == ["list", "watch"]
    }
    fallbacks = [kind.fallback for kind in RESOURCE_KINDS if kind.fallback is not None]
    kinds: list[ResourceKind] = [*RESOURCE_KINDS, *fallbacks]
    assert granted == {(kind.group, kind.plural) for kind in kinds}
    assert all(set(rule) == {"apiGroups", "resources", "verbs"} for rule in role["rules"])
    assert all(sorted(rule["verbs"]) == ["list", "watch"] for rule in role["rules"]), "nothing else is granted"


def test_each_rule_says_what_it_is_for() -> None:
    lines = MANIFEST.read_text(encoding="utf-8").splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("  - apiGroups:")]
    first = [number for number in rules if lines[number - 1].lstrip().startswith("#")]
    assert len(first) >= len(rules) - 1, "two rules of Volcano share their reason"


def test_the_role_is_bound_to_the_account_and_to_nobody_else() -> None:
    kinds = {each["kind"]: each for each in documents()}
    binding = kinds["ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == kinds["ClusterRole"]["metadata"]["name"]
    account = kinds["ServiceAccount"]["metadata"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]


def test_kinds_are_named_as_kubectl_names_them_and_only_once() -> None:
    words = [kind.word for kind in RESOURCE_KINDS]
    assert len(words) == len(set(words))
    assert {"pods", "nodes", "events", "jobs.batch", "jobs.batch.volcano.sh", "workloads.kueue.x-k8s.io"} <= set(words)
