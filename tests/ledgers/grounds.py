"""From the text of a SELECT, which tables' emptiness its own follows from: the slow truth behind ``empty_models.csv``.

A set of tables is a ground where the SELECT has no row once all of them have none. What is not understood is no ground: a table function, a sum
without GROUP BY, a grouping set, a pivot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from steelyard.definitions.macros import macro_sql
from steelyard.store import Store

Grounds = frozenset[frozenset[str]]
NEVER: Final[Grounds] = frozenset()
ALWAYS: Final[Grounds] = frozenset({frozenset()})
_MACRO: Final = re.compile(r"CREATE OR REPLACE MACRO (\w+)\s*\([^)]*\) AS(?! TABLE)\s+(.*?);", re.DOTALL)


def either(left: Grounds, right: Grounds) -> Grounds:
    """Of what is empty where one of two is."""
    return _least(left | right)


def both(left: Grounds, right: Grounds) -> Grounds:
    """Of what is empty where both are."""
    return _least(a | b for a in left for b in right)


def _least(found: Iterable[frozenset[str]]) -> Grounds:
    every = set(found)
    return frozenset(one for one in every if not any(other < one for other in every))


@cache
def grounds_of(sql: str) -> Grounds:
    """Every least ground of a SELECT, by qualified names of tables."""
    return _of_query(sqlglot.parse_one(sql, read="duckdb"), {})


def grounds_found(sql: str) -> list[Grounds]:
    """Of each SELECT of the block ``found`` of a findings file, from first to last."""
    query = sqlglot.parse_one(sql, read="duckdb")
    names = _with_names(query, {})
    found = next(cte.this for cte in query.args["with_"].expressions if cte.alias == "found")
    branches: list[Grounds] = []
    while isinstance(found, exp.Union):
        branches.append(_of_query(found.right, names))
        found = found.left
    return [_of_query(found, names), *reversed(branches)]


def _with_names(query: exp.Expression, names: Mapping[str, Grounds]) -> dict[str, Grounds]:
    known = dict(names)
    clause = query.args.get("with_")
    for cte in clause.expressions if clause else ():
        if clause.args.get("recursive"):
            known[cte.alias] = ALWAYS  # what it adds to itself comes from what it starts with
        known[cte.alias] = _of_query(cte.this, known)
    return known


def _of_query(query: exp.Expression, names: Mapping[str, Grounds]) -> Grounds:
    known = _with_names(query, names)
    if isinstance(query, exp.Subquery):
        return _of_source(query, known)
    if isinstance(query, exp.SetOperation):
        left, right = _of_query(query.left, known), _of_query(query.right, known)
        if isinstance(query, exp.Union):
            return both(left, right)
        return left if isinstance(query, exp.Except) else either(left, right)
    if not isinstance(query, exp.Select) or query.args.get("from_") is None or _is_one_row(query):
        return NEVER
    return _joined(_of_source(query.args["from_"].this, known), query, known)


def _of_source(source: exp.Expression, names: Mapping[str, Grounds]) -> Grounds:
    if source.args.get("pivots"):
        return NEVER
    found = NEVER
    if isinstance(source, exp.Subquery):
        inner = source.this
        within = _with_names(source, names)
        found = _of_query(inner, within) if isinstance(inner, exp.Query) else _of_source(inner, within)
    elif isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        found = frozenset({frozenset({f"{source.db}.{source.name}"})}) if source.db else names.get(source.name, NEVER)
    return _joined(found, source, names)


def _joined(found: Grounds, holder: exp.Expression, names: Mapping[str, Grounds]) -> Grounds:
    for join in holder.args.get("joins") or ():
        other, side, kind = _of_source(join.this, names), join.side.upper(), join.kind.upper()
        if kind == "ANTI" or side == "LEFT":
            continue
        if side == "RIGHT":
            found = other
        elif side == "FULL" or join.method.upper() == "POSITIONAL":
            found = both(found, other)
        else:
            found = either(found, other)
    return found


def _is_one_row(query: exp.Select) -> bool:
    """Whether the SELECT may have a row of nothing: it groups everything, or by a set of groupings."""
    group = query.args.get("group")
    if group is None:
        return query.args.get("having") is not None or any(map(_sums_up, query.expressions))
    if any(group.find(kind) for kind in (exp.GroupingSets, exp.Cube, exp.Rollup)):
        return True
    if group.args.get("all"):
        return all(map(_sums_up, query.expressions))
    return not group.expressions


def _sums_up(column: exp.Expression) -> bool:
    own = column.find_ancestor(exp.Select)
    return any(
        function.find_ancestor(exp.Select) is own and not _is_window(function, column) and _is_aggregate(function)
        for function in column.find_all(exp.Func)
    )


def _is_window(function: exp.Expression, column: exp.Expression) -> bool:
    parent = function.parent
    while isinstance(parent, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)):
        function, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is function


def _is_aggregate(function: exp.Expression) -> bool:
    names = {function.name.lower(), function.sql(dialect="duckdb").split("(")[0].lower()}
    return isinstance(function, exp.AggFunc) or bool(names & _aggregates())


@cache
def _aggregates() -> frozenset[str]:
    """The engine's own, and every macro of the definitions that calls one."""
    with Store.open_memory() as store:
        found = {
            name
            for (name,) in store.rows(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
            )
        }
    for name, text in _MACRO.findall(macro_sql()):
        try:
            macro = sqlglot.parse_one(f"SELECT {text}", read="duckdb")
        except ParseError:  # what is not understood may be one
            found.add(name)
            continue
        called = {call.sql(dialect="duckdb").split("(")[0].lower() for call in macro.find_all(exp.Func)}
        if called & found or any(isinstance(call, exp.AggFunc) for call in macro.find_all(exp.Func)):
            found.add(name)
    return frozenset(found)
