"""The story of a request over HTTP: three ways to name it, and a viewer who sees its own tenant's alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.surfaces.http_api.estate import OURS, THEIRS, World, estate, problem, world


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("estate"), estate()) as found:
        yield found


def story(found: Any) -> list[str]:
    (table,) = [table for table in found["tables"] if table["name"] == "story"]
    return [row[1] for row in table["rows"]]


@pytest.mark.parametrize(
    "path",
    [
        f"/why/{OURS}-a",
        f"/why/{OURS}/{OURS}-a",
        f"/why?name={OURS}/{OURS}-a",
        f"/why?name=uid-{OURS}-a",
        f"/why/{OURS}-a?kind=pod&at=2026-03-01T14:00:00Z",
    ],
)
def test_a_request_is_named_in_the_path_or_among_the_parameters(both: World, path: str) -> None:
    response = both.get(path, token=both.secret("operator"))
    assert response.status_code == 200, response.text
    found = response.json()
    assert found["question"] == "why"
    assert {"created", "scheduled", "held_from"} <= set(story(found))


@pytest.mark.parametrize(
    "path",
    [
        "/why",
        f"/why/{OURS}-a?kind=moon",
        f"/why/{OURS}-a?at=noon",
        f"/why/{OURS}-a?bogus=1",
        f"/why/{OURS}-a?tenant={THEIRS}",
    ],
)
def test_what_is_no_request_is_a_problem(both: World, path: str) -> None:
    problem(both.get(path, token=both.secret("operator")), 422, "usage")


@pytest.mark.parametrize("path", ["/why/nobody", "/why/nobody/nowhere", "/why?name="])
def test_a_name_that_nothing_has_is_not_found(both: World, path: str) -> None:
    problem(both.get(path, token=both.secret("operator")), 404, "not_found")


def test_nobody_without_a_token_and_no_agent_is_let_in(both: World) -> None:
    problem(both.ask("GET", f"/api/v1/why/{OURS}-a"), 401, "unauthenticated")
    problem(both.get(f"/why/{OURS}-a", token=both.secret("agent")), 403, "forbidden")


def test_a_viewer_reads_its_own_story_with_no_word_of_the_other(both: World) -> None:
    for name in (f"{OURS}-a", f"{OURS}-waits", f"{OURS}-greedy", f"{OURS}-job"):
        response = both.get(f"/why/{name}?explain=true", token=both.secret("viewer", OURS))
        assert response.status_code == 200, response.text
        assert THEIRS not in response.text


@pytest.mark.parametrize("name", [f"{THEIRS}-a", f"{THEIRS}/{THEIRS}-a", f"uid-{THEIRS}-a", f"{THEIRS}-job", "canary"])
def test_a_viewer_learns_of_another_tenants_request_no_more_than_of_one_that_is_none(both: World, name: str) -> None:
    token = both.secret("viewer", OURS)
    refused = problem(both.get(f"/why?name={name}", token=token), 404, "not_found")
    nothing = problem(both.get("/why?name=no-such-thing", token=token), 404, "not_found")
    assert THEIRS not in refused["detail"].replace(name, "")
    assert refused["detail"].partition("'")[0] == nothing["detail"].partition("'")[0]
