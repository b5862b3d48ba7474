"""A namespace's own annotation names its contact where the settings name none, in its own cluster, by its latest sighting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from steelyard.facts.namespace import Namespace
from tests.ledgers.queue_facts import audited
from tests.ledgers.test_persons import POD, TEAM, person
from tests.ledgers.wait_facts import at


def namespace(minute: float = 20, name: str = "team-a", **annotations: Any) -> Namespace:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in annotations.items()}
    return Namespace(
        source="kube_api", natural_key=f"u-{name}", namespace=name, annotations=json.dumps(keys), occurred_at=at(60 * minute),
        observed_at=at(60 * minute),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "settings", "found"),
    [
        ([namespace(steelyard_io__contact="ann")], {}, ("ann", "contact")),
        ([namespace(openshift_io__requester="bob")], {}, ("bob", "contact")),
        ([namespace(owner="second", steelyard_io__contact="first")], {}, ("first", "contact")),
        ([namespace(owner="second", steelyard_io__contact=" ")], {}, ("second", "contact")),
        ([namespace(owner="o", desk="d")], {"contact_annotations": ("desk",)}, ("d", "contact")),
        ([namespace(owner="o")], {"contacts": (("team-a", "settings"),)}, ("settings", "contact")),
        ([namespace(10, owner="old"), namespace(20, owner="new")], {}, ("new", "contact")),
        ([namespace(10, owner="old"), namespace(20)], {}, (None, None)),
        ([namespace(name="team-b", owner="x")], {}, (None, None)),
        ([structs.replace(namespace(owner="x"), cluster="far")], {}, (None, None)),
        ([namespace(other="x")], {}, (None, None)),
    ],
)  # fmt: skip
def test_who_answers_for_a_namespace(facts: list[Namespace], settings: dict[str, Any], found: tuple[Any, Any]) -> None:
    assert person([*POD, *facts], **settings) == found


def test_a_creator_is_nearer_than_the_contact() -> None:
    creation = audited(-1, "create", "pods", "train-0", **TEAM)
    assert person([*POD, creation, namespace(owner="x")])[1] == "creator"
