"""Room over HTTP: the same answers, and what a viewer of one tenant may learn of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing
from tests.surfaces.http_api.estate import OURS, THEIRS, World, estate, world


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("room"), estate()) as found:
        yield found


def test_the_three_questions_are_answered(served: World) -> None:
    for path in ("/fragmentation", "/fits?gpus=1", "/fits?mig=1g.10gb", "/rightsize"):
        response = served.get(path)
        assert response.status_code == 200, response.text
        assert response.json()["question"] == path.strip("/").partition("?")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/fits?gpus=0", "/fits?gpu=1", "/fits?mig=nonsense", "/fits?cpu=nan", "/fits?gpumem=1&mig=1g.10gb", "/fragmentation?days=0",
        "/fragmentation?at=yesterday", "/rightsize?from=2026-11-30T00:00:00Z",
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_a_problem_document(served: World, path: str) -> None:
    response = served.get(path)
    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


def test_ratios_that_are_known_are_metrics_and_no_others() -> None:
    standing = Standing(free_share_ratios={("fragmentation_ratio", "memory"): 0.25, ("trapped_ratio", "all"): 0.5})
    text = exposition(standing, Traffic(), []).decode()
    assert 'steelyard_fragmentation_ratio{measure="memory"} 0.25\n' in text
    assert 'steelyard_trapped_ratio{measure="all"} 0.5\n' in text
    assert "fragmentation_ratio" not in exposition(Standing(), Traffic(), []).decode()


def test_an_estate_without_typical_requests_tells_no_ratio_of_them(served: World) -> None:
    ratios = served.served.standing().free_share_ratios
    assert all(0 <= ratio <= 1 for ratio in ratios.values())
    assert ("fragmentation_ratio", "mig") not in ratios


@pytest.mark.parametrize(
    "path", ["/fits?gpus=8", "/fits?gpumem=1", "/fits?explain=true", "/rightsize", "/rightsize?explain=true"]
)
def test_a_viewer_reads_no_name_of_another_tenant(served: World, path: str) -> None:
    response = served.get(path, token=served.secret("viewer", OURS))
    assert response.status_code == 200
    assert THEIRS not in response.text


def test_a_viewer_is_not_told_how_fragmented_the_estate_is(served: World) -> None:
    assert served.get("/fragmentation", token=served.secret("viewer", OURS)).status_code == 403


def test_right_sizing_shows_a_viewer_its_own_workloads(served: World) -> None:
    table = served.get("/rightsize", token=served.secret("viewer", OURS)).json()["tables"][0]
    place = [column["name"] for column in table["columns"]].index("namespace")
    assert {row[place] for row in table["rows"]} == {OURS}
