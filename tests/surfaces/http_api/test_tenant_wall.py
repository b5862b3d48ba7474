"""A viewer of one tenant learns nothing of another: not by grouping, filtering, explaining, or from what is summed over both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from steelyard import ledgers
from steelyard.answers import jobs
from steelyard.answers.registry import ANSWERS, Entry
from steelyard.answers.scheduling_cases import CONTRADICTIONS
from steelyard.surfaces.http_api.problems import Problem
from steelyard.surfaces.http_api.tenant_wall import WALLS, scoped
from steelyard.surfaces.shared.ports import Question
from steelyard.surfaces.shared.service_ports import Principal
from tests.app.import_samples import CARD
from tests.surfaces.http_api.estate import OURS, THEIRS, World, estate, problem, shared_card_pod, world

VALUES = (THEIRS, f"{THEIRS}/{THEIRS}-a", f"uid-{THEIRS}-a", CARD, "")
ASKED = [(entry, dimension) for entry in ANSWERS for dimension in entry.dimensions]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("estate"), estate()) as found:
        yield found


def finest(entry: Entry) -> str:
    """The dimension that names most."""
    return "pod" if "pod" in entry.dimensions else "workload"


def viewed(both: World, path: str, tenant: str = OURS) -> Any:
    response = both.get(path, token=both.secret("viewer", tenant))
    assert response.status_code == 200, response.text
    return response


def test_an_operator_sees_both_so_the_canaries_sing(both: World) -> None:
    for entry in ANSWERS:
        text = both.get(f"/answers/{entry.name}?by={finest(entry)}&explain=true", token=both.secret("operator")).text
        named = "a" if "pod" in entry.dimensions else "job"
        assert f"{THEIRS}-{named}" in text
        assert f"{OURS}-{named}" in text
        assert f"pod {THEIRS}/{THEIRS}-greedy" in text, "there is a finding about the other tenant"


@pytest.mark.parametrize(("entry", "dimension"), ASKED, ids=lambda item: getattr(item, "name", item))
def test_no_dimension_shows_the_other_tenant(both: World, entry: Entry, dimension: str) -> None:
    assert THEIRS not in viewed(both, f"/answers/{entry.name}?by={dimension}&explain=true").text
    for value in VALUES:
        response = both.get(
            f"/answers/{entry.name}?by={finest(entry)}&explain=true&where={dimension}={value}",
            token=both.secret("viewer", OURS),
        )
        if dimension == "tenant":
            problem(response, 403, "forbidden")
        if (
            response.status_code == 422
        ):  # a word that is none of a closed list: the refusal repeats what was asked, once
            assert response.text.count(THEIRS) == value.count(THEIRS)
            continue
        assert THEIRS not in response.text


def test_a_viewer_sees_its_own_rows_whole(both: World) -> None:
    theirs = both.get(f"/answers/q1?where=tenant={OURS}").json()
    ours = viewed(both, "/answers/q1").json()
    hidden = {"neighbours"}
    for mine, all_of_it in zip(_table(ours, "holders"), _table(theirs, "holders"), strict=True):
        assert {k: v for k, v in mine.items() if k not in hidden} == {
            k: v for k, v in all_of_it.items() if k not in hidden
        }
        assert OURS in mine["namespace"]
    assert _figure(ours, "gpus_held") == _figure(theirs, "gpus_held")
    q2 = viewed(both, "/answers/q2").json()
    assert [row["namespace"] for row in _table(q2, "unserved")] == [OURS]
    assert {row["tenant"] for row in _table(q2, "consumption")} == {OURS}


def test_a_viewer_sees_its_own_jobs_whole(both: World) -> None:
    ours = viewed(both, "/answers/q6").json()
    theirs = both.get(f"/answers/q6?where=tenant={OURS}").json()
    assert [row["job"] for row in _table(ours, "jobs")] == [f"{OURS}-job"]
    assert _table(ours, "jobs") == _table(theirs, "jobs")
    for name in jobs.METHODS:
        assert _figure(ours, name) == _figure(theirs, name)
    assert _figure(ours, "jobs_count") == (1, None)
    assert _figure(both.get("/answers/q6").json(), "jobs_count") == (2, None)


def test_what_is_summed_over_both_is_unknown_and_never_a_number(both: World) -> None:
    answer = viewed(both, "/answers/q1").json()
    reason = "it is made of more than this tenant's own rows"
    for name in ("gpus_free", "gpus_supply", "gpus_unobserved", "gpus_overcommitted", "devices_held_count"):
        assert _figure(answer, name) == (None, reason)
    (card,) = _table(answer, "devices")
    for name in ("share_held_ratio", "share_free_ratio", "share_in_suspense_ratio", "holders_count", "occupancy"):
        assert card[name] == {"unknown": reason}
    assert answer["coverage"] is None
    q2 = viewed(both, "/answers/q2").json()
    assert q2["coverage"] is None
    for name in ("memory_used_device_mib_hours", "memory_use_unattributed_mib_hours"):
        assert _figure(q2, name) == (None, reason)


def test_the_answer_does_not_change_with_what_the_other_tenant_does(
    both: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = estate()
    other["items"] = [item for item in other["items"] if item["metadata"].get("namespace") != THEIRS]
    other["items"].append(shared_card_pod("canary-third", "canary-third-x", 1_024))
    with world(tmp_path_factory.mktemp("other"), other) as instead:
        for entry in ANSWERS:
            query = f"/answers/{entry.name}?by={finest(entry)}&explain=true"
            assert both.get(query).json() != instead.get(query).json()
            assert viewed(both, query).json() == viewed(instead, query).json()


def test_findings_are_those_about_the_viewers_own_pods(both: World) -> None:
    for entry in ANSWERS:
        answer = viewed(both, f"/answers/{entry.name}").json()
        subjects = {finding["subject"] for finding in answer["findings"]}
        assert subjects == {f"pod {OURS}/{OURS}-greedy"}
        assert not any("more findings" in spot for spot in answer["blind_spots"])
    for path in ("/findings", "/devices", "/metrics"):
        problem(both.get(path, token=both.secret("viewer", OURS)), 403, "forbidden")


def test_the_explanation_holds_no_value_that_was_bound(both: World) -> None:
    for entry in ANSWERS:
        explained = viewed(both, f"/answers/{entry.name}?explain=true").json()["explain"]
        assert explained
        assert not any(line.startswith("-- $") for sql in explained.values() for line in sql.splitlines())
        assert all("SELECT" in sql for sql in explained.values())


@pytest.mark.parametrize("name", ["label:app", "annotation:x", f"{THEIRS}-key", f"label:{THEIRS}-key", "nothing-such"])
def test_keys_of_labels_are_no_oracle(both: World, name: str) -> None:
    answers = []
    for entry, option in product(ANSWERS, (f"by={name}", f"where={name}=x")):
        found = problem(
            both.get(f"/answers/{entry.name}?{option}", token=both.secret("viewer", OURS)), 403, "forbidden"
        )
        assert THEIRS not in found["detail"]
        answers.append(found["detail"])
    assert all("a viewer of one tenant groups and filters by" in detail for detail in answers)


@pytest.mark.parametrize("where", [f"tenant={THEIRS}", f" tenant ={THEIRS}", "tenant="])
def test_another_tenant_is_refused_and_ones_own_is_not(both: World, where: str) -> None:
    found = problem(both.get(f"/answers/q1?where={where}", token=both.secret("viewer", OURS)), 403, "forbidden")
    assert found["detail"] == f"this token sees the tenant {OURS} only"
    assert viewed(both, f"/answers/q1?where=tenant={OURS}").json() == viewed(both, "/answers/q1").json()


def test_a_question_that_nobody_looked_at_is_not_for_viewers() -> None:
    later = replace(ANSWERS[0], number=8)
    with pytest.raises(Problem) as refused:
        scoped(later, Question(), Principal("viewer", OURS))
    assert refused.value.status_code == 403
    assert scoped(later, Question(), Principal("finance")) == Question()
    assert set(WALLS) == {entry.name for entry in ANSWERS}


def test_figures_and_columns_that_stay_exist(both: World) -> None:
    for entry in ANSWERS:
        wall = WALLS[entry.name]
        answer = both.get(f"/answers/{entry.name}?by=tenant").json()
        assert wall.coverages <= wall.figures <= {figure["name"] for figure in answer["figures"]}
        for table in answer["tables"]:
            hidden = wall.hidden_columns.get(table["name"], frozenset())
            assert hidden <= {column["name"] for column in table["columns"]}


def _figure(answer: Any, name: str) -> tuple[Any, Any]:
    figure = next(figure for figure in answer["figures"] if figure["name"] == name)
    return figure["value"], figure.get("unknown")


def _table(answer: Any, name: str) -> list[dict[str, Any]]:
    table = next(table for table in answer["tables"] if table["name"] == name)
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


SOURCES = Path(ledgers.__file__).parent.parent
CODE = re.compile(
    r"""(?:cluster, |CASE WHEN [^']*|ELSE )'([a-z]+(?:_[a-z]+)+)'|'([a-z]+(?:_[a-z]+)+)' AS code|finding\(\s*(?:\w+,\s*)?"([a-z]+(?:_[a-z]+)+)\""""
)
SAID = (
    f"it is also told of by pod {THEIRS}/{THEIRS}-a in namespace {THEIRS} ({THEIRS}/{THEIRS}.b, workload '{THEIRS}/x'); "
    "it asks for nvidia.com/gpu"
)


def codes_of_findings() -> list[str]:
    """All codes that ledgers and readers give a finding."""
    files = [*SOURCES.glob("ledgers/**/*findings.sql"), *SOURCES.glob("sources/**/*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    found = {code for text in texts for match in CODE.finditer(text) for code in match.groups() if code}
    assert {"preemptor_uid_conflict", "uid_of_several_objects", "stale_inqueue_podgroup", "quantity_malformed"} <= found
    return sorted(found | set(CONTRADICTIONS))


def batched(codes: list[str], size: int) -> list[list[str]]:
    """The codes, a few at a time: an answer lists at most a hundred findings."""
    return [codes[start : start + size] for start in range(0, len(codes), size)]


def test_no_finding_of_any_code_names_the_other_namespace(tmp_path: Path) -> None:
    told: set[str] = set()
    with world(tmp_path, estate()) as both:
        paths = [*(f"/answers/{entry.name}" for entry in ANSWERS), f"/why/{OURS}/{OURS}-waits"]
        for codes in batched(codes_of_findings(), 30):
            both.store.execute("DELETE FROM ledger.finding")
            for code, name in product(codes, ("a", "waits", "greedy")):
                both.store.execute(
                    "INSERT INTO ledger.finding BY NAME SELECT ? AS code, ? AS subject, ? AS message, 'error' AS severity, "
                    "'default' AS cluster",
                    [code, f"pod {OURS}/{OURS}-{name}", f"{code}: {SAID}"],
                )
            for path in paths:
                response = viewed(both, path)
                assert {finding["code"] for finding in response.json()["findings"]} >= set(codes), path
                assert "it is also told of by pod ? in namespace ? (?" in response.text, path
                assert "it asks for nvidia.com/gpu" in response.text, path
                assert THEIRS not in response.text, path
                assert THEIRS in both.get(path).text, path
            told |= {row["code"] for row in _table(viewed(both, "/answers/q6").json(), "contradictions")}
    assert told == set(CONTRADICTIONS)
