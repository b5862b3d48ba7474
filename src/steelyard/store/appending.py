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
    parts = [_part(column, _default(fact, column.name)) for column in columns_of(fact) if column.name in names]
    return f"md5(concat_ws(chr(31), {', '.join(parts)}))"


def _default(fact: type[Fact], name: str) -> Any:
    for item in msgspec.structs.fields(fact):
        if item.name == name:
            return item.default
    return msgspec.NODEFAULT


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
    """Creates the temporary table of the batch, one row per identity with its earliest ``observed_at``. One parameter: import_id."""
    others = ", ".join(f'"{column.name}"' for column in columns_of(fact) if column.name != "observed_at")
    firsts = ", ".join(f'any_value("{c.name}") AS "{c.name}"' for c in columns_of(fact) if c.name != "observed_at")
    return f"""
        CREATE OR REPLACE TEMP TABLE {BATCH}_rows AS
        SELECT {firsts}, min(observed_at) AS observed_at, fact_id, ?::VARCHAR AS import_id
        FROM (SELECT {others}, observed_at, {fact_id_sql(fact)} AS fact_id FROM {BATCH})
        GROUP BY fact_id
    """
