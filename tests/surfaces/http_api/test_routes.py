"""Answers, listings, health and description over HTTP; every refusal is a problem document that tells what to do and nothing inner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard.answers.registry import ANSWERS
from steelyard.app.settings import Settings
from steelyard.primitives.errors import SourceMalformed, SourceUnavailable, StoreLocked, UsageError
from steelyard.surfaces.http_api import Endpoint
from steelyard.surfaces.http_api.admission import ADMINS
from steelyard.surfaces.http_api.exposition import Traffic, exposition
from steelyard.surfaces.shared.server_ports import Standing
from steelyard.surfaces.shared.service_ports import CollectorStatus
from tests.conftest import REPOSITORY
from tests.surfaces.http_api.estate import World, estate, problem, world


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("estate"), estate()) as found:
        yield found


def test_an_answer_is_the_documented_json(served: World) -> None:
    import json

    schema = json.loads((REPOSITORY / "src/steelyard/answers/answer.schema.json").read_text(encoding="utf-8"))
    for entry in ANSWERS:
        second, third = ("node", "model") if "node" in entry.dimensions else ("queue", "priority")
        path = f"/answers/{entry.name}?by=tenant,{second}&by={third}&where=cluster=default&explain=1"
        answer = served.get(path).json()
        jsonschema.validate(answer, schema)
        assert answer["question"] == entry.name
        assert answer["explain"]
        table = next(
            table
            for table in answer["tables"]
            if table["name"] in ("groups", "consumption", "states", "waits", "costs")
        )
        assert [column["name"] for column in table["columns"]][:3] == ["tenant", second, third]


def test_a_past_instant_and_a_window_are_asked_for(served: World) -> None:
    assert served.get("/answers/q1?at=2026-03-01T13:00:00Z").json()["as_of"] == "2026-03-01T13:00:00Z"
    answer = served.get("/answers/q2?from=2026-03-01T12:30:00Z&to=2026-03-01T13:30:00%2B00:00").json()
    assert answer["window"] == ["2026-03-01T12:30:00Z", "2026-03-01T13:30:00Z"]


@pytest.mark.parametrize(
    ("path", "status", "kind", "detail"),
    [
        ("/answers/q1?at=yesterday", 422, "usage", "at: expected an RFC 3339 time"),
        ("/answers/q1?from=2026-03-01&to=2026-03-02", 422, "usage", "q1 takes an instant, not a window"),
        ("/answers/q2?at=2026-03-01", 422, "usage", "q2 takes a window, not an instant"),
        ("/answers/q2?from=2026-03-01", 422, "usage", "from and to go together"),
        ("/answers/q2?from=2026-03-02&to=2026-03-01", 422, "usage", "to must be later than from"),
        ("/answers/q1?where=tenant", 422, "usage", "expected dimension=value"),
        ("/answers/q1?where=tenant=a&where=tenant=b", 422, "usage", "two different conditions"),
        ("/answers/q1?by=nothing-such", 422, "usage", "no dimension, label or annotation is called"),
        ("/answers/q1?form=2026", 422, "usage", "query.form"),
        ("/answers/q1?explain=perhaps", 422, "usage", "query.explain"),
        ("/answers/q1?" + "&".join(["by=tenant"] * 65), 422, "usage", "query.by"),
        ("/answers/q1?by=" + "x" * 3_000, 422, "usage", "query.by"),
        ("/answers/q8", 404, "not_found", "no question is called q8; these are: q1, q2"),
        ("/answers/q01", 404, "not_found", "no question"),
        ("/answers/1", 404, "not_found", "no question"),
        ("/answers/q1/", 404, "not_found", "nothing is served at"),
        ("/answers/..%2f..%2fetc%2fpasswd", 404, "not_found", "nothing is served at"),
        ("/answers/%00", 404, "not_found", "no question"),
        ("/answers", 404, "not_found", "nothing is served at"),
        ("/docs", 404, "not_found", "nothing is served at"),
        ("/findings?limit=0", 422, "usage", "query.limit"),
        ("/findings?limit=1001", 422, "usage", "query.limit"),
        ("/findings?limit=many", 422, "usage", "query.limit"),
        ("/findings?cursor=!", 422, "usage", "cursor: expected the next_cursor"),
        ("/findings?cursor=W10", 422, "usage", "cursor: expected the next_cursor of a page of this listing"),
        ("/findings?cursor=WyJhIiwiYiIsImMiXQ", 422, "usage", "of this listing"),
        ("/devices?cursor=WzEsMiwzXQ", 422, "usage", "of this listing"),
        ("/devices?cursor=W1tdXQ", 422, "usage", "cursor"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_one_clear_line(
    served: World, path: str, status: int, kind: str, detail: str
) -> None:
    found = problem(served.get(path), status, kind)
    assert detail in found["detail"]
    assert "Traceback" not in str(found)
    assert len(str(found)) < 2_500


def test_a_method_that_a_route_does_not_take_is_said_with_those_it_takes(served: World) -> None:
    response = served.ask("PUT", "/api/v1/findings", local=True)
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET"


def test_every_listing_gives_each_row_once_whatever_the_page_size(served: World) -> None:
    for name, key in (("findings", "id"), ("devices", "device_uuid")):
        whole = served.get(f"/{name}?limit=1000").json()
        assert whole["next_cursor"] is None
        assert len({row[key] for row in whole[name]}) == len(whole[name]) > 0
        for limit in (1, 2, 3):
            rows: list[Any] = []
            cursor = ""
            while cursor is not None:
                page = served.get(f"/{name}?limit={limit}{cursor and f'&cursor={cursor}'}").json()
                assert len(page[name]) <= limit
                rows += page[name]
                cursor = page["next_cursor"]
            assert rows == whole[name]


def test_findings_come_gravest_first_with_their_evidence(served: World) -> None:
    rows = served.get("/findings").json()["findings"]
    grave = {"error": 0, "warning": 1, "info": 2}
    assert [grave[row["severity"]] for row in rows] == sorted(grave[row["severity"]] for row in rows)
    larger = next(row for row in rows if row["code"] == "grant_larger_than_request")
    assert larger["evidence"]["requested_memory_mib"] == 64


def test_a_card_that_states_nothing_states_null(served: World) -> None:
    (card,) = served.get("/devices").json()["devices"]
    assert card["memory_mib"] == 81_920
    assert card["serial"] is None


def test_ready_says_as_of_when_and_how_the_books_stand(served: World) -> None:
    found = served.get("/readyz").json()
    assert found["status"] == "ready"
    assert found["last_posting_at"] == "2026-03-01T14:00:00Z"
    assert found["ledger_residual_gpu_us"] == 0
    assert 0 < found["coverage"] <= 1
    assert served.ask("GET", "/readyz", local=True).json() == found


def test_a_viewer_learns_that_the_server_is_ready_and_nothing_of_the_estate(served: World) -> None:
    found = served.ask("GET", "/readyz", token=served.secret("viewer", "team-a")).json()
    assert set(found) == {"status", "now"}
    assert found["status"] == "ready"


def test_where_nothing_was_posted_nothing_is_a_number(tmp_path: Path) -> None:
    with world(tmp_path) as empty:
        found = empty.get("/readyz").json()
        assert (found["last_posting_at"], found["ledger_residual_gpu_us"], found["coverage"]) == (None, None, None)
        assert found["coverage_unknown"] == "nothing was posted yet"
        text = empty.get("/metrics").text
        assert "steelyard_build_info" in text
        assert "residual" not in text
        assert "coverage" not in text
        for path in ("/answers/q1", "/findings", "/devices"):
            assert "run `steelyard import`" in problem(empty.get(path), 422, "usage")["detail"]


def test_metrics_are_prometheus_text_in_base_units(served: World) -> None:
    served.get("/answers/q1")
    served.get("/answers/..%2f%2f")
    response = served.ask("GET", "/metrics", local=True)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = dict(
        re.findall(r"^# TYPE (steelyard_[a-z_]+) (counter|gauge|histogram)$", response.text, flags=re.MULTILINE)
    )
    for line in response.text.splitlines():
        match = re.fullmatch(
            r"(?:# (?:HELP|TYPE) .+|(steelyard_[a-z_]+)(?:\{[a-z_]+=\"[^\"]*\"(?:,[a-z_]+=\"[^\"]*\")*\})? \S+)", line
        )
        assert match, line
        assert match[1] is None or {match[1], re.sub("_(bucket|sum|count)$", "", match[1])} & set(families)
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in families.items())
    assert "steelyard_ledger_residual_gpu_seconds 0.0\n" in response.text
    assert 'steelyard_http_requests_total{route="/api/v1/answers/{q}",method="GET",status="200"}' in response.text
    assert 'route="none",method="GET",status="404"' in response.text


def test_what_is_not_known_of_a_collector_has_no_sample() -> None:
    statuses = [CollectorStatus('pro"m\n', "starting"), CollectorStatus("k", "ok", 3, 1, 5, 2_500_000)]
    text = exposition(Standing(), Traffic(), statuses).decode()
    assert text.count("collector_success_timestamp_seconds{") == 1
    assert 'steelyard_collector_success_timestamp_seconds{collector="k"} 2.5' in text
    assert 'steelyard_collector_rounds_total{collector="pro\\"m\\n"} 0' in text


def test_the_description_names_every_route_with_its_roles(served: World) -> None:
    found = served.get("/openapi.json").json()
    assert set(found["paths"]) == {
        f"/api/v1/{name}"
        for name in (
            "answers/{q}",
            "reconcile",
            "fragmentation",
            "fits",
            "rightsize",
            "prices",
            "prices/diff",
            "prices/unpriced",
            "rates",
            "tenancy",
            "tenancy/check",
            "why",
            "why/{name}",
            "why/{namespace}/{name}",
            "findings",
            "devices",
            "import",
            "tokens",
            "tokens/{token_id}",
            "collectors",
            "collect",
            "healthz",
            "readyz",
            "metrics",
            "openapi.json",
        )
    }
    assert found["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    operation = found["paths"]["/api/v1/findings"]["get"]
    assert operation["x-roles"] == ["admin", "finance", "operator"]
    assert operation["security"] == [{"bearer": []}]


@pytest.mark.parametrize(
    ("trouble", "status", "kind", "detail"),
    [
        (UsageError("no such thing"), 422, "usage", "no such thing"),
        (StoreLocked("in use"), 503, "locked", "in use"),
        (SourceUnavailable("not now", 7), 503, "unavailable", "not now"),
        (SourceMalformed("odd", 3, "x"), 422, "malformed", "odd"),
        (OSError(28, "No space left on device", "/secret/path"), 507, "no_space", "disk is full"),
        (OSError(5, "Input/output error", "/secret/path"), 503, "unavailable", "Input/output error"),
        (ZeroDivisionError("secret/path"), 500, "internal", "its log says more"),
        (AssertionError("secret/path"), 500, "internal", "its log says more"),
    ],
)
def test_whatever_is_raised_ends_as_a_problem_without_what_is_inside(
    tmp_path: Path, trouble: Exception, status: int, kind: str, detail: str
) -> None:
    def fails() -> None:
        raise trouble

    with world(tmp_path, further=(Endpoint("GET", "/fails", fails, ADMINS, "fails"),)) as found:
        response = found.get("/fails")
        assert detail in problem(response, status, kind)["detail"]
        assert "secret" not in response.text
        if status == 503:
            assert response.headers["retry-after"] == ("7" if kind == "unavailable" and "not now" in detail else "1")


def test_answers_come_in_the_language_that_is_asked_for(served: World) -> None:
    def title(tags: str | None) -> str:
        headers = {} if tags is None else {"Accept-Language": tags}
        return str(served.get("/answers/q1", headers=headers).json()["title"])

    chinese = next(entry.title_zh for entry in ANSWERS if entry.name == "q1")
    assert title(None) == title("en") == title("de-DE") == title("../../../etc") == title("*") == title("")
    assert title("zh-CN,en;q=0.5") == title("de, zh_TW;q=0.9") == chinese
    assert title("en, zh") == title(None)
    assert problem(served.get("/answers/q1?at=x", headers={"Accept-Language": "zh"}), 422, "usage")


def test_headers_keep_answers_out_of_caches_and_name_no_server(served: World) -> None:
    for response in (served.get("/answers/q1"), served.get("/nothing"), served.ask("GET", "/metrics")):
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert not {"server", "x-powered-by", "access-control-allow-origin"} & set(response.headers)


def test_an_origin_gets_no_permission_to_read(served: World) -> None:
    response = served.ask(
        "OPTIONS",
        "/api/v1/findings",
        headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"},
    )
    assert response.status_code == 405
    assert "access-control-allow-origin" not in response.headers


def test_settings_bound_what_is_taken(tmp_path: Path) -> None:
    settings = Settings.model_validate({"import_limits": {"decompressed_bytes_max": 1_024}})
    with world(tmp_path, settings=settings) as found:
        assert found.served.file_bytes_max == 1_024
