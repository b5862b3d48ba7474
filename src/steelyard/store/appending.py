"""Appending facts: what makes a row new, and the statements that add only new rows.

``fact_id`` is the md5 over the identity columns (all but ``observed_at``), computed by the engine. The trick to know: each
column enters as ``name=<length>:<text>`` and a column at its default is left out, so two different rows never give the same
text, and a column that a later version adds does not change the id of rows that lack it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import msgspec

from steelyard.facts.base import Column, Fact, columns_of, identity_columns

KEY_COLUMNS: Final = (Column("fact_id", "VARCHAR", False), Column("import_id", "VARCHAR", True))
"""What the store adds to every fact table: the identity's hash, and the sha256 of the file it came from (NULL: live)."""

BATCH: Final = "steelyard_batch"
"""The name under which a batch is registered while it is appended."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """How many facts were handed over and how many of them were new, in all and by table."""

    seen: int
    new: int
    new_by_table: Mapping[str, int] = field(default_factory=dict)


@cache
def fact_id_sql(fact: type[Fact]) -> str:
    """The SQL expression of ``fact_id`` over columns named as the class's fields."""
    names = set(identity_columns(fact))
    defaults = {item.name: item.default for item in msgspec.structs.fields(fact)}
    parts = [_part(column, defaults[column.name]) for column in columns_of(fact) if column.name in names]
    return f"md5(concat_ws(chr(31), {', '.join(parts)}))"


def _part(column: Column, default: Any) -> str:
    name = f'"{column.name}"'
    if column.sql_type == "VARCHAR":
        text = f"strlen({name})::VARCHAR || ':' || {name}"
    elif column.sql_type == "TIMESTAMP":
        text = f"epoch_us({name})::VARCHAR"
    else:
        text = f"{name}::VARCHAR"
    if default is msgspec.NODEFAULT or default is None:
        return f"'{column.name}=' || {text}"
    return f"CASE WHEN {name} = {_literal(default)} THEN NULL ELSE '{column.name}=' || coalesce({text}, '-') END"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


@cache
def batch_sql(fact: type[Fact]) -> str:
    """Creates the temporary table of the batch, with ``fact_id``. One parameter: import_id."""
    names = ", ".join(f'"{column.name}"' for column in columns_of(fact))
    return f"""
        CREATE OR REPLACE TEMP TABLE {BATCH}_rows AS
        SELECT {names}, {fact_id_sql(fact)} AS fact_id, ?::VARCHAR AS import_id FROM {BATCH}
    """


BATCH_SHAPE_SQL: Final = f"""
    SELECT epoch_us(min(occurred_at)), epoch_us(max(occurred_at)), count(*) - count(DISTINCT fact_id) FROM {BATCH}_rows
"""
"""The span of the batch, and how many of its rows repeat an identity."""

REPEATED_SQL: Final = f"""
    CREATE OR REPLACE TEMP TABLE {BATCH}_rows AS
    SELECT * FROM {BATCH}_rows QUALIFY row_number() OVER (PARTITION BY fact_id ORDER BY observed_at) = 1
"""
"""Keeps one row per identity, the one that was seen first."""


@cache
def batch_of_files_sql(fact: type[Fact]) -> str:
    """As ``batch_sql``, for rows of several files: the batch has the columns ``import_id`` and ``file_no`` itself."""
    names = ", ".join(f'"{column.name}"' for column in columns_of(fact))
    return f"""
        CREATE OR REPLACE TEMP TABLE {BATCH}_rows AS
        SELECT {names}, {fact_id_sql(fact)} AS fact_id, import_id, file_no FROM {BATCH}
    """


REPEATED_IN_FILES_SQL: Final = f"""
    CREATE OR REPLACE TEMP TABLE {BATCH}_rows AS
    SELECT * REPLACE (min(observed_at) OVER (PARTITION BY fact_id) AS observed_at) FROM {BATCH}_rows
    QUALIFY row_number() OVER (PARTITION BY fact_id ORDER BY file_no, observed_at) = 1
"""
"""Keeps one row per identity: it belongs to the first file that has it, and was first seen when any of them saw it first."""

NEW_BY_FILE_SQL: Final = f"SELECT file_no, count(*) FROM {BATCH}_rows GROUP BY file_no"
"""How many rows of each file the batch holds."""


@cache
def only_new_sql(fact: type[Fact]) -> str:
    """Takes out of the batch what is stored already. Parameters: the span of the batch."""
    return f"""
        DELETE FROM {BATCH}_rows WHERE fact_id IN (
            SELECT fact_id FROM fact.{fact.TABLE}
            WHERE {_may_be_known(fact)}
        )
    """


@cache
def earlier_sql(fact: type[Fact]) -> str:
    """Sets ``observed_at`` of stored facts to the batch's where that is earlier. Parameters: the span of the batch."""
    return f"""
        UPDATE fact.{fact.TABLE} AS kept SET observed_at = batch.observed_at FROM {BATCH}_rows AS batch
        WHERE {_may_be_known(fact, "kept.")}
          AND kept.fact_id = batch.fact_id AND batch.observed_at < kept.observed_at
    """


@cache
def known_sql(fact: type[Fact]) -> str:
    """Counts stored facts in the span of the batch (its parameters): 0 means that everything in it is new."""
    return f"""
        SELECT count(*) FROM fact.{fact.TABLE}
        WHERE {_may_be_known(fact)}
    """


@cache
def insert_sql(fact: type[Fact], known: bool) -> str:
    """Inserts the batch's rows; where facts in its span are ``known``, only those that are not. Parameters: the span, where known.

    The trick to know: the identity implies ``occurred_at``, so only stored facts within the span can be the same, and the engine
    skips all other blocks of the table; ``Fact.UNSTAMPED`` names the rows of which that is not so.
    """
    names = ", ".join(f'"{column.name}"' for column in (*columns_of(fact), *KEY_COLUMNS))
    news = f"""
        ANTI JOIN (
            SELECT fact_id FROM fact.{fact.TABLE}
            WHERE {_may_be_known(fact)}
        ) AS kept USING (fact_id)
    """
    return f"INSERT INTO fact.{fact.TABLE} ({names}) SELECT {names} FROM {BATCH}_rows {news if known else ''}"


def _may_be_known(fact: type[Fact], prefix: str = "") -> str:
    """A condition on stored rows: those that a row of the batch may be the same as. Parameters: the span of the batch."""
    span = f"{prefix}occurred_at BETWEEN make_timestamp(?::BIGINT) AND make_timestamp(?::BIGINT)"
    return span if fact.UNSTAMPED is None else f"({span} OR {prefix}{fact.UNSTAMPED})"
