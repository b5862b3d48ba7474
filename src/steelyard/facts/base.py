"""The common keys of every fact, and how a fact class describes its table.

A fact is an immutable row that somebody saw. Its identity is every field except ``observed_at``: the same thing seen twice
is one fact. The trick to know: a table's columns and their SQL types are read off the class's annotations, so a table is
declared once, here in ``facts``, and the store creates it from that. Instants are integers (UTC microseconds) in Python and
TIMESTAMP in SQL; a field that ends in ``_at`` is an instant.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import msgspec

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import Instant


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What all facts carry.

    cluster: which cluster (``default`` where the site has one). source: the system that said it, such as ``kube_api``,
    ``hami``, ``nvidia_smi``. natural_key: what the fact is about, in the source's own words, unique per table and source
    (a pod's uid, a device's uuid). occurred_at: when it was so. observed_at: when we saw it (not part of the identity).
    """

    TABLE: ClassVar[str]
    IDENTITY: ClassVar[tuple[str, ...]] = ()
    """The columns that make two rows the same fact, where the source itself numbers them; empty = all but ``observed_at``."""
    UNSTAMPED: ClassVar[str | None] = None
    """An SQL condition: rows whose identity does not imply ``occurred_at``, so that the same fact may come again under another; None = no rows."""

    cluster: str = "default"
    source: str
    natural_key: str
    occurred_at: Instant
    observed_at: Instant


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a fact table: its name, SQL type and whether NULL (not known) is allowed."""

    name: str
    sql_type: str
    nullable: bool


_SQL_TYPES: Final[dict[object, str]] = {int: "BIGINT", str: "VARCHAR", bool: "BOOLEAN", float: "DOUBLE"}


@cache
def columns_of(fact: type[Fact]) -> tuple[Column, ...]:
    """The columns of a fact class, in field order. Raises InvariantError for an annotation that no SQL type stands for."""
    hints = typing.get_type_hints(fact)
    return tuple(_column(name, hints[name]) for name in fact.__struct_fields__)


def identity_columns(fact: type[Fact]) -> tuple[str, ...]:
    """The names of the columns that make two rows the same fact: the class's ``IDENTITY``, else all but ``observed_at``."""
    return fact.IDENTITY or tuple(column.name for column in columns_of(fact) if column.name != "observed_at")


def _column(name: str, hint: object) -> Column:
    nullable = False
    if isinstance(hint, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        nullable = len(options) < len(typing.get_args(hint))
        if len(options) != 1:
            raise InvariantError(f"column {name}: a fact field has one type, optionally None; found {hint}")
        hint = options[0]
    if name.endswith("_at"):
        return Column(name, "TIMESTAMP", nullable)
    if hint not in _SQL_TYPES:
        raise InvariantError(f"column {name}: no SQL type for {hint}")
    return Column(name, _SQL_TYPES[hint], nullable)
