"""SQL obeys the layers as imports do, and amounts are integers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from steelyard.ledgers.posting import ensure_ledgers
from steelyard.ledgers.registry import LEDGERS
from steelyard.store import Store
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "src" / "steelyard"
ANSWERS_MAY_READ = {
    "fact.finding", "fact.source_status", "fact.event", "fact.decision", "fact.preemption", "fact.refusal", "fact.queue",
    "fact.gang", "fact.service_use",
}  # fmt: skip
"""The last six: words that need no sum of a ledger (decisions 0011 and 0015)."""
SETTLEMENT_MAY_READ = {
    "fact.price_book", "fact.price", "fact.discount", "fact.book_weight", "fact.tenancy", "fact.exchange_rate", "fact.service_use",
    "fact.bill_line", "fact.finding", "fact.source_status",
}  # fmt: skip
"""What was declared about money, and what speaks against a close (decision 0015). ``settling_*``: its own temporary tables."""
SQL_FILES = sorted(PACKAGE.rglob("*.sql"))


def tables_read(sql: str) -> set[str]:
    """Every schema-qualified table that a statement reads; names of its own WITH clauses are not tables."""
    names = set()
    for statement in sqlglot.parse(sql, read="duckdb"):
        if statement is None:
            continue
        own = {cte.alias_or_name for cte in statement.find_all(exp.CTE)}
        if isinstance(statement, exp.Create):  # a macro: its own name parses as a table
            own |= {table.name for table in statement.this.find_all(exp.Table)}
        for table in statement.find_all(exp.Table):
            if table.db:
                names.add(f"{table.db}.{table.name}")
            elif table.name and table.name not in own:
                names.add(f"?.{table.name}")
    return names


def violations(path: Path, sql: str) -> list[str]:
    """What a model reads although it stands at the same height or above."""
    layer = path.relative_to(PACKAGE).parts[0]
    read = tables_read(sql)
    if layer == "definitions":
        return sorted(read)
    if layer == "answers":
        return sorted(
            name for name in read if not name.startswith(("ledger.", "dim.")) and name not in ANSWERS_MAY_READ
        )
    if layer == "settlement":
        return sorted(
            name
            for name in read
            if not name.startswith(("ledger.", "dim.", "?.settling_")) and name not in SETTLEMENT_MAY_READ
        )
    if layer != "ledgers":
        return [f"{path.name}: SQL models stand in definitions, ledgers, answers and settlement"]
    if "dimensions" in path.parts:
        return sorted(name for name in read if not name.startswith(("fact.", "dim.")))
    order = [ledger.name for ledger in LEDGERS]
    earlier = order[: order.index(path.stem)] if path.stem in order else order
    allowed = {f"ledger.{name}" for name in earlier}
    return sorted(name for name in read if not name.startswith(("fact.", "dim.")) and name not in allowed)


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_model_reads_only_what_stands_below_it(path: Path) -> None:
    assert violations(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "sql", "offence"),
    [
        ("answers/offence.sql", 'SELECT * FROM fact."grant"', "fact.grant"),
        ("answers/offence.sql", "WITH x AS (SELECT 1) SELECT * FROM x JOIN raw_payload USING (id)", "?.raw_payload"),
        ("ledgers/holding.sql", "SELECT * FROM ledger.supply", "ledger.supply"),
        ("ledgers/holding.sql", "SELECT * FROM ledger.holding", "ledger.holding"),
        ("ledgers/dimensions/pod.sql", "SELECT * FROM ledger.holding", "ledger.holding"),
        ("definitions/share.sql", "SELECT * FROM fact.device", "fact.device"),
        ("settlement/offence.sql", "SELECT * FROM fact.device JOIN settling_pod USING (cluster)", "fact.device"),
    ],
)
def test_a_model_that_reads_upwards_is_caught(path: str, sql: str, offence: str) -> None:
    assert offence in violations(PACKAGE / path, sql)


def test_models_stand_in_sql_files_and_not_in_python() -> None:
    embedded = re.compile(r"\b(?:FROM|JOIN|INTO)\s+(?:fact|dim|ledger)\.\w+", re.IGNORECASE)
    allowed = {"store", "ledgers", "answers"}
    offenders = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in allowed and embedded.search(path.read_text(encoding="utf-8"))
    ]
    assert offenders == []


def amount_columns(store: Store) -> list[tuple[str, str, str]]:
    return store.rows(
        "SELECT table_schema || '.' || table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'ledger' AND (column_name LIKE '%\\_us' ESCAPE '\\' OR column_name LIKE 'amount%' "
        "OR column_name LIKE '%\\_ppm' ESCAPE '\\' OR column_name LIKE '%\\_mib' ESCAPE '\\')"
    )


def test_amounts_are_integers() -> None:
    with Store.open_memory() as store:
        ensure_ledgers(store)
        columns = amount_columns(store)
        assert columns, "the ledgers have amounts"
        assert [row for row in columns if row[2] not in ("BIGINT", "INTEGER", "DECIMAL(38,0)")] == []


def test_an_amount_that_is_a_floating_point_number_is_caught() -> None:
    with Store.open_memory() as store:
        store.execute("CREATE TABLE ledger.offence AS SELECT 1.5::DOUBLE AS amount_gpu_us, sum(1) AS held_us")
        types = {row[1]: row[2] for row in amount_columns(store) if row[0] == "ledger.offence"}
        assert types == {"amount_gpu_us": "DOUBLE", "held_us": "HUGEINT"}
