"""What is skipped because it is empty: the file says what the models say, and posting with it gives what posting without it gives.

To renew the file after a change of models: ``STEELYARD_RENEW=1 pytest tests/ledgers/test_emptiness.py``, then read the difference.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from sqlglot.errors import ParseError

from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.owner import Owner
from steelyard.facts.process_sample import ProcessSample
from steelyard.ledgers import emptiness, posting
from steelyard.ledgers.dimensions.registry import STEMS
from steelyard.ledgers.emptiness import (
    EmptyModel,
    EmptyTables,
    branches_found,
    empty_models,
    text_digest,
    with_branches,
)
from steelyard.ledgers.posting import PostingParameters, ensure_ledgers, post_ledgers
from steelyard.ledgers.registry import BREACH, FINDINGS, HOLDING, LEDGERS, QUOTA, WAIT, model_text
from steelyard.primitives.clock import FixedClock
from steelyard.store import Store
from tests.conftest import REPOSITORY
from tests.ledgers import facts_of, queue_facts, wait_facts
from tests.ledgers.grounds import ALWAYS, NEVER, Grounds, grounds_found, grounds_of

GROUNDS_MAX = 4
FILE = REPOSITORY / "src" / "steelyard" / "ledgers" / emptiness.FILE
DIMENSIONS = FILE.parent / "dimensions"
FINDINGS_FILES = (*(ledger.findings_file for ledger in LEDGERS if ledger.findings_file), *FINDINGS)
SAMPLES: Sequence[Fact] = [
    DeviceSample(
        source="dcgm_exporter", natural_key=facts_of.CARD, device_uuid=facts_of.CARD, memory_used_mib=100, sm_active_ratio=0.5,
        interval_us=60_000_000, **facts_of.seen(minute),
    )
    for minute in range(20, 40)
]  # fmt: skip
ESTATES: dict[str, Sequence[Fact]] = {
    "nothing": [],
    "pods": [
        facts_of.pod(gpu_count=1), facts_of.grant(), facts_of.card(), facts_of.node(), facts_of.listing(30),
        facts_of.pod(40, "u2", gpu_count=2, phase="Pending", node=None), facts_of.vgpu(50, "u3"), facts_of.listing(60),
    ],
    "samples": SAMPLES,
    "processes": [
        ProcessSample(
            source="nvidia_smi", natural_key="7", device_uuid=facts_of.CARD, pid=7, memory_used_mib=10, **facts_of.seen(30)
        )
    ],
    "queues": [
        queue_facts.queue(strategy="StrictFIFO"), queue_facts.quota(), queue_facts.quota(600, reserved_milli=4000),
        wait_facts.workload(0), wait_facts.workload(100, "w2", 50), wait_facts.condition(200, "QuotaReserved", uid="w2"),
        wait_facts.condition(900, "Evicted"), wait_facts.decision(950, "evicted"), queue_facts.preemption(900),
        queue_facts.audited(10, "create", "clusterqueues", "gpus", spec={"queueingStrategy": "StrictFIFO"}),
    ],
    "words of owners and queues alone": [
        queue_facts.queue(), queue_facts.preemption(900), wait_facts.decision(950, "evicted"), wait_facts.condition(900, "Evicted"),
        Owner(source="kube_api", natural_key="u1", pod_uid="u1", namespace="team-a", **facts_of.seen(30)),
    ],
}  # fmt: skip
ESTATES["everything"] = [fact for facts in ESTATES.values() for fact in facts]


def models() -> dict[str, str]:
    """The text of every dimension, stage and ledger by its name."""
    found = {
        f"dim.{stem}": model_text(f"dimensions/{stem}.sql") for stem in STEMS if (DIMENSIONS / f"{stem}.sql").is_file()
    }
    for ledger in LEDGERS:
        hours = [ledger.hours] if ledger.hours else []
        stems = (*ledger.stages, *hours, *ledger.shared_stages, *ledger.window_stages)
        found |= {f"dim.{stem}": model_text(f"{stem}.sql") for stem in stems}
        found[f"ledger.{ledger.name}"] = model_text(ledger.sql_file)
    return found


def derived() -> dict[str, tuple[str, list[list[str]]]]:
    """Of every model: its text and its simplest grounds; few are enough, and the settings are never empty."""
    found: dict[str, tuple[str, Grounds]] = {}
    for model, text in models().items():
        with suppress(ParseError):  # then it is never skipped
            found[model] = (text, grounds_of(text))
    for file in FINDINGS_FILES:
        text = model_text(file)
        with suppress(ParseError):
            for number, grounds in enumerate(grounds_found(text)):
                found[f"{file}#{number}"] = (text, grounds)
    simplest = {}
    for model, (text, grounds) in found.items():
        named = [sorted(ground) for ground in grounds if "dim.parameter" not in ground]
        if named:
            simplest[model] = (text, sorted(named, key=lambda one: (len(one), one))[:GROUNDS_MAX])
    return simplest


def columns_built() -> dict[str, str]:
    """How each dimension stands that its SELECT has made."""
    with Store.open_memory() as store:
        store.append(SAMPLES)
        post(store, in_full=True)
        rows = store.rows(
            "SELECT table_name, string_agg('\"' || column_name || '\" ' || data_type, ', ' ORDER BY column_index) FROM duckdb_columns() "
            "WHERE schema_name = 'dim' OR database_name = 'temp' GROUP BY table_name"
        )
    return {f"dim.{table}": columns for table, columns in rows}


def file_text() -> str:
    built = columns_built()
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(("model", "text_digest", "grounds", "columns"))
    for model, (text, grounds) in derived().items():
        writer.writerow((model, text_digest(text), " | ".join(map(" ".join, grounds)), built.get(model, "")))
    return lines.getvalue()


def post(store: Store, *, in_full: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if in_full:
            patch.setattr(emptiness, "empty_models", dict)
        patch.setattr(posting, "_let_go_of_stages", lambda store, ledger: None)
        store.execute("SET threads = 1")  # demands are numbered as they come
        post_ledgers(store, PostingParameters(), clock=FixedClock(facts_of.at(10_000)))


def tables_of(store: Store) -> dict[str, Any]:
    """Columns and rows of everything that posting writes."""
    names = store.rows(
        "SELECT CASE WHEN database_name = 'temp' THEN 'temp' ELSE schema_name END, table_name FROM duckdb_tables() "
        "WHERE schema_name IN ('dim', 'ledger') OR database_name = 'temp'"
    )
    views = [("dim", "step"), ("dim", "outcome")]
    return {
        f"{schema}.{table}": (
            store.rows(f'DESCRIBE {schema}."{table}"'),
            sorted(store.rows(f'SELECT * FROM {schema}."{table}"'), key=repr),
        )
        for schema, table in sorted([*names, *views])
    }


def test_the_file_says_of_every_model_what_its_text_says() -> None:
    wanted = file_text()
    if os.environ.get("STEELYARD_RENEW"):
        FILE.write_text(wanted, encoding="utf-8")
        empty_models.cache_clear()
    assert FILE.read_text(encoding="utf-8") == wanted, "renew it as the head of this file says, and read the difference"


@pytest.mark.parametrize("name", ESTATES)
def test_posting_that_skips_gives_what_posting_in_full_gives(name: str) -> None:
    found = []
    for in_full in (False, True):
        with Store.open_memory() as store:
            store.append(ESTATES[name])
            post(store, in_full=in_full)
            found.append(tables_of(store))
    assert found[0] == found[1]


def test_facts_that_come_or_go_between_two_postings_are_posted_as_in_full() -> None:
    found = []
    for in_full in (False, True):
        with Store.open_memory() as store:
            for name in ("pods", "queues", "samples"):
                store.append(ESTATES[name])
                post(store, in_full=in_full)
            for table in ("gang", "quota", "preemption", "transition", "device_sample"):
                store.execute(f"DELETE FROM fact.{table}")
            post(store, in_full=in_full)
            found.append(tables_of(store))
    assert found[0] == found[1]
    entries = [row for table, (_columns, rows) in found[0].items() if table.endswith("_entry") for row in rows]
    assert any(sign == -1 for *_columns, sign, _entry_id, _is_open in entries), "what is gone is reversed"


def test_a_model_that_is_said_to_be_empty_and_is_not_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    text = model_text("dimensions/pod_life.sql")
    wrong = EmptyModel(text_digest(text), (frozenset({"fact.gang"}),), empty_models()["dim.pod_life"].columns)
    found = []
    for declared in (empty_models(), {**empty_models(), "dim.pod_life": wrong}):
        monkeypatch.setattr(emptiness, "empty_models", lambda declared=declared: declared)
        with Store.open_memory() as store:
            store.append(ESTATES["pods"])
            post(store, in_full=False)
            found.append(tables_of(store))
    assert found[0] != found[1]


def test_of_no_facts_no_holding_wait_quota_or_breach_is_built() -> None:
    with Store.open_memory() as store:
        ensure_ledgers(store)
        empty = EmptyTables(store)
        for model, (text, _grounds) in derived().items():
            if model.startswith("dim.") and empty.yields_nothing(model, text):
                empty.note(model, 0)
        built = {model for model, text in models().items() if not empty.yields_nothing(model, text)}
    assert "dim.parameter" in built
    for ledger in (HOLDING, WAIT, QUOTA, BREACH):
        assert not built & {f"ledger.{ledger.name}", *(f"dim.{stem}" for stem in ledger.stages)}


def test_of_a_text_that_changed_nothing_is_taken_from_the_file() -> None:
    with Store.open_memory() as store:
        text = model_text("dimensions/gang.sql")
        assert EmptyTables(store).yields_nothing("dim.gang", text)
        assert not EmptyTables(store).yields_nothing("dim.gang", text + " ")


@pytest.mark.parametrize("file", FINDINGS_FILES)
def test_the_branches_of_a_findings_file_are_its_selects(file: str) -> None:
    text = model_text(file)
    branches = branches_found(text)
    assert with_branches(text, branches) == text
    assert len(branches) == len(grounds_found(text))
    assert [grounds_found(with_branches(text, [branch]))[0] for branch in branches] == grounds_found(text)


A, B = frozenset({"fact.a"}), frozenset({"fact.b"})
AB = A | B


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT x FROM fact.a", {A}),
        ("SELECT 1 AS x", NEVER),
        ("SELECT x FROM (VALUES (1)) AS v (x)", NEVER),
        ("SELECT x FROM range(3) AS v (x)", NEVER),
        ("SELECT x FROM fact.a JOIN fact.b USING (x)", {A, B}),
        ("SELECT x FROM fact.a, fact.b", {A, B}),
        ("SELECT x FROM fact.a CROSS JOIN fact.b", {A, B}),
        ("SELECT x FROM fact.a LEFT JOIN fact.b USING (x)", {A}),
        ("SELECT x FROM fact.a ASOF LEFT JOIN fact.b ON a.x >= b.x", {A}),
        ("SELECT x FROM fact.a ASOF JOIN fact.b ON a.x >= b.x", {A, B}),
        ("SELECT x FROM fact.a RIGHT JOIN fact.b USING (x)", {B}),
        ("SELECT x FROM fact.a FULL JOIN fact.b USING (x)", {AB}),
        ("SELECT x FROM fact.a POSITIONAL JOIN fact.b", {AB}),
        ("SELECT x FROM fact.a SEMI JOIN fact.b USING (x)", {A, B}),
        ("SELECT x FROM fact.a ANTI JOIN fact.b USING (x)", {A}),
        ("SELECT x FROM fact.a, (VALUES (1)) AS v (y)", {A}),
        ("SELECT count(*) FROM fact.a", NEVER),
        ("SELECT coalesce(max(x), 0) + 1 FROM fact.a", NEVER),
        ("SELECT list(x ORDER BY x) FROM fact.a", NEVER),
        ("SELECT arg_max(x, y) FILTER (WHERE z) FROM fact.a", NEVER),
        ("SELECT percentile_linear(x, 0.5) FROM fact.a", NEVER),
        ("SELECT sum(x) OVER (PARTITION BY y) FROM fact.a", {A}),
        ("SELECT sum(sum(x)) OVER () FROM fact.a", NEVER),
        ("SELECT (SELECT max(x) FROM fact.b) FROM fact.a", {A}),
        ("SELECT y, max(x) FROM fact.a GROUP BY y", {A}),
        ("SELECT y, max(x) FROM fact.a GROUP BY ALL", {A}),
        ("SELECT max(x) FROM fact.a GROUP BY ALL", NEVER),
        ("SELECT y, max(x) FROM fact.a GROUP BY ROLLUP (y)", NEVER),
        ("SELECT y, max(x) FROM fact.a GROUP BY GROUPING SETS ((y), ())", NEVER),
        ("SELECT 1 FROM fact.a HAVING count(*) = 0", NEVER),
        ("SELECT x FROM fact.a UNION ALL SELECT x FROM fact.b", {AB}),
        ("SELECT x FROM fact.a EXCEPT SELECT x FROM fact.b", {A}),
        ("SELECT x FROM fact.a INTERSECT SELECT x FROM fact.b", {A, B}),
        ("WITH c AS (SELECT x FROM fact.a) SELECT x FROM c JOIN fact.b USING (x)", {A, B}),
        ("WITH c AS (SELECT count(*) AS x FROM fact.a) SELECT x FROM c JOIN fact.b USING (x)", {B}),
        ("WITH c AS MATERIALIZED (SELECT x FROM fact.a) SELECT x FROM (SELECT x FROM c) AS d", {A}),
        ("WITH RECURSIVE c AS (SELECT x FROM fact.a UNION ALL SELECT c.x FROM c JOIN fact.b USING (x)) SELECT x FROM c", {A}),
        ("SELECT unnest(x) FROM fact.a", {A}),
        ("SELECT x FROM fact.a CROSS JOIN LATERAL (SELECT unnest(a.y) AS x) AS l", {A}),
        ("SELECT x FROM (fact.a JOIN fact.b USING (x)) LEFT JOIN fact.c USING (x)", {A, B}),
        ("SELECT x FROM unknown_name", NEVER),
    ],
)  # fmt: skip
def test_grounds_follow_from_the_text(sql: str, expected: Grounds) -> None:
    assert grounds_of(sql) == frozenset(expected)


def test_nothing_is_empty_whatever_else_stands() -> None:
    assert not [model for model, text in models().items() if ALWAYS == grounds_of(text)]
