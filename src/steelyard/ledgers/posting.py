"""Posting: from facts to ledgers that add up: what is settled is restated by reversal and new posting, never by overwriting.

``app`` calls ``post_ledgers`` after each import or round. A run rebuilds the dimensions, computes every ledger's full set by its SELECT,
compares it with the net of what stands there, and appends the difference, all in one transaction. Open rows (an interval without an end,
an hour still running) move with every round of a live estate; they are marked ``is_open``, nobody bills from them, and the next run takes
out those that no longer hold, so that entries grow with what happens and not with how often one looks. The trick to know: a settled
entry is reversed by a second row with the same ``entry_id`` and sign -1, so the net is "posted and not reversed", a plain scan, and the sum of
signs says the same; a test holds both together. The id is a hash of the run and the row, which the engine gives to many rows at once (a
counter would make it go one by one); that no two postings share one is checked whenever something is reversed.

Sceptic's query: ``SELECT run_id, sign, count(*) FROM ledger.holding_entry GROUP BY ALL ORDER BY ALL``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steelyard.definitions.registry import DEFINITIONS
from steelyard.facts.base import columns_of
from steelyard.facts.finding import Finding
from steelyard.ledgers.dimensions.registry import build_dimensions, ensure_views
from steelyard.ledgers.emptiness import EmptyTables
from steelyard.ledgers.parameters import ModelWeight, PostingParameters
from steelyard.ledgers.registry import FINDINGS, LEDGERS, PASSING, Ledger, model_text, over_passing_stages
from steelyard.ledgers.windows import (
    SAMPLED_HOURS_MAX,
    WINDOW_HOURS_MAX,
    ReadWindow,
    changed_hours,
    ensure_hours,
    keep_hours,
    windows_together,
)
from steelyard.primitives.clock import Clock
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import Instant
from steelyard.store import Store

__all__ = ["ModelWeight", "PostingParameters", "PostingResult", "ensure_ledgers", "post_ledgers"]

_CHANGE: Final = "steelyard_posting_change"


@dataclass(frozen=True, slots=True)
class Change:
    """What a run did to one ledger: rows posted, settled rows reversed because a late fact restated them, open rows taken out."""

    posted: int = 0
    reversed: int = 0
    replaced: int = 0

    def __add__(self, other: Change) -> Change:
        return Change(self.posted + other.posted, self.reversed + other.reversed, self.replaced + other.replaced)


@dataclass(frozen=True, slots=True)
class PostingResult:
    """``run_id`` None: nothing changed, nothing was written. ``as_of`` None: there are no facts yet."""

    run_id: int | None
    as_of: Instant | None
    changes: Mapping[str, Change] = field(default_factory=dict)
    findings: int = 0


def ensure_ledgers(store: Store, ledgers: Sequence[Ledger] = LEDGERS) -> None:
    """Create the tables and views of all ledgers and empty dimensions where they are not there yet, so that answers can read them."""
    with store.transaction():
        _ensure_tables(store, ledgers)
        if not _exists(store, "dim", "known_span"):
            empty = build_dimensions(store, PostingParameters())
            for ledger in ledgers:
                if ledger.ground:
                    prepare_ledger(store, ledger, empty)
        else:
            ensure_views(store)


def post_ledgers(
    store: Store, parameters: PostingParameters, *, clock: Clock, ledgers: Sequence[Ledger] = LEDGERS
) -> PostingResult:
    """Bring dimensions, ledgers and derived findings up to the facts, in one transaction.

    The same facts posted twice append nothing, whatever the order in which they arrived. Raises InvariantError where a ledger's
    SELECT yields two equal rows.
    """
    with store.transaction():
        _ensure_tables(store, ledgers)
        empty = build_dimensions(store, parameters, clock.now())
        run_id = int(store.rows("SELECT coalesce(max(run_id), 0) + 1 FROM ledger.posting_run")[0][0])
        basis = _basis(parameters)
        posted: dict[str, Change] = {}
        for together in _posted_together(ledgers):
            posted |= _post_together(store, together, run_id, basis, empty)
        changes = {ledger.name: posted[ledger.name] for ledger in ledgers}
        findings = _rebuild_findings(store, ledgers, empty)
        as_of = store.rows("SELECT epoch_us(as_of_at) FROM dim.parameter")[0][0]
        written = _record_run(store, run_id, as_of, parameters, changes, clock)
    return PostingResult(run_id if written else None, as_of, changes, findings)


def _ensure_tables(store: Store, ledgers: Sequence[Ledger]) -> None:
    store.execute(
        "CREATE TABLE IF NOT EXISTS ledger.posting_run (run_id BIGINT, posted_at TIMESTAMP, as_of TIMESTAMP, "
        "definitions VARCHAR, settings_hash VARCHAR)"
    )
    columns = ", ".join(f"{column.name} {column.sql_type}" for column in columns_of(Finding))
    store.execute(f"CREATE TABLE IF NOT EXISTS ledger.finding ({columns})")
    for ledger in ledgers:
        _ensure_ledger(store, ledger)
    for (stem,) in store.rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'dim'"):
        if stem in PASSING:  # as they stood in an older file
            store.execute(f"DROP TABLE dim.{stem}")


def _ensure_ledger(store: Store, ledger: Ledger) -> None:
    columns = ", ".join(f"{column.name} {column.sql_type}" for column in ledger.stored_columns)
    names = ", ".join(column.name for column in ledger.columns)
    entry = f"ledger.{ledger.name}_entry"
    store.execute(
        f"CREATE TABLE IF NOT EXISTS {entry} ({columns}, run_id BIGINT, sign BIGINT, entry_id BIGINT, is_open BOOLEAN)"
    )
    ensure_hours(store, ledger)
    named = entry
    if ledger.key_columns:
        _ensure_keys(store, ledger)
        named = f"{entry} AS entry JOIN ledger.{ledger.name}_key AS name ON name.key_no = entry.key_no"
    store.execute(  # NOT IN: a NOT EXISTS here costs a past instant of Q1 fifty times as much, entry_id is never NULL
        f"CREATE OR REPLACE VIEW ledger.{ledger.name} AS SELECT {names} FROM {named} WHERE sign = 1 "
        f"AND entry_id NOT IN (SELECT entry_id FROM {entry} WHERE sign = -1)"
    )


def _ensure_keys(store: Store, ledger: Ledger) -> None:
    types = {column.name: column.sql_type for column in ledger.columns}
    columns = ", ".join(f"{name} {types[name]}" for name in ledger.key_columns)
    store.execute(f"CREATE TABLE IF NOT EXISTS ledger.{ledger.name}_key (key_no BIGINT, {columns})")


def prepare_ledger(store: Store, ledger: Ledger, empty: EmptyTables | None = None) -> None:
    """Rebuild what the ledger's SELECT reads: its stages, and ``dim.<name>_key`` with a number for every name, old or new.

    ``empty``: what is known to be empty of what stands below it.
    """
    empty = empty or EmptyTables(store)
    for stem in ledger.stages:
        empty.build(stem, model_text(f"{stem}.sql"))
    if not ledger.key_columns:
        return
    _ensure_keys(store, ledger)
    key, names = f"ledger.{ledger.name}_key", ", ".join(ledger.key_columns)
    same = " AND ".join(f"old.{name} IS NOT DISTINCT FROM new.{name}" for name in ledger.key_columns)
    store.execute(
        f"INSERT INTO {key} SELECT (SELECT coalesce(max(key_no), 0) FROM {key}) + row_number() OVER (ORDER BY {names}), {names} "
        f"FROM (SELECT DISTINCT {names} FROM dim.{ledger.keys_of}) AS new "
        f"WHERE NOT EXISTS (SELECT 1 FROM {key} AS old WHERE {same})"
    )
    store.execute(f"CREATE OR REPLACE TABLE dim.{ledger.name}_key AS SELECT * FROM {key}")


def post_ledger(store: Store, ledger: Ledger, run_id: int, basis: str, empty: EmptyTables | None = None) -> Change:
    """Bring one ledger up to the facts, over dimensions and earlier ledgers that are; within the caller's transaction.

    ``basis``: what it is computed by besides them. ``empty``: what is known to be empty of them. Raises InvariantError as ``post_ledgers`` does.
    """
    return _post_together(store, (ledger,), run_id, basis, empty or EmptyTables(store))[ledger.name]


def _posted_together(ledgers: Sequence[Ledger]) -> list[tuple[Ledger, ...]]:
    """The ledgers in their order; those with the same shared stages as one, where the last of them stands."""
    groups: dict[object, tuple[Ledger, ...]] = {}
    for ledger in ledgers:
        key = ledger.shared_stages or ledger.name
        groups[key] = (*groups.pop(key, ()), ledger)
    return list(groups.values())


def _post_together(
    store: Store, ledgers: tuple[Ledger, ...], run_id: int, basis: str, empty: EmptyTables
) -> dict[str, Change]:
    """Post ledgers that share their stages window by window, or one that stands alone."""
    changes: dict[str, Change] = {}
    by_hours: list[tuple[Ledger, list[Instant]]] = []
    for ledger in ledgers:
        changes[ledger.name] = Change()
        prepare_ledger(store, ledger, empty)
        if empty.yields_nothing(f"ledger.{ledger.name}", model_text(ledger.sql_file)) and not store.rows(
            f"SELECT 1 FROM ledger.{ledger.name}_entry LIMIT 1"
        ):
            continue
        if ledger.hours is None:
            changes[ledger.name] = _post_rows(store, ledger, run_id, _may_change(store, ledger))
            continue
        by_hours.append((ledger, changed_hours(store, ledger, basis, empty)))
    hours_max = SAMPLED_HOURS_MAX if ledgers[0].in_memory else WINDOW_HOURS_MAX
    for shared, windows in windows_together(store, [hours for _ledger, hours in by_hours], hours_max):
        for stem in ledgers[0].shared_stages:
            _build_stage(store, empty, stem, shared, ledgers[0])
        for (ledger, _hours), window in zip(by_hours, windows, strict=True):
            if window is not None:
                changes[ledger.name] += _post_window(store, ledger, run_id, window, empty)
    for ledger, _hours in by_hours:
        keep_hours(store, ledger, basis)
        _let_go_of_stages(store, ledger)
    return changes


def _let_go_of_stages(store: Store, ledger: Ledger) -> None:
    """Temporary tables would stay in memory for as long as the store is open."""
    for stem in PASSING.intersection((*ledger.shared_stages, *ledger.window_stages)):
        store.execute(f"DROP TABLE IF EXISTS temp.{stem}")


def _build_stage(store: Store, empty: EmptyTables, stem: str, window: ReadWindow, ledger: Ledger) -> None:
    model = model_text(f"{stem}.sql")
    bound = {**window.bound(), "ledger": ledger.name}
    empty.build(stem, model, {name: value for name, value in bound.items() if f"${name}" in model})


def _post_window(store: Store, ledger: Ledger, run_id: int, window: ReadWindow, empty: EmptyTables) -> Change:
    for stem in ledger.window_stages:
        _build_stage(store, empty, stem, window, ledger)
    within = f"grain_at >= make_timestamp({window.from_us}) AND grain_at < make_timestamp({window.to_us})"
    return _post_rows(store, ledger, run_id, f"{_may_change(store, ledger)} AND {within}")


def _post_rows(store: Store, ledger: Ledger, run_id: int, may_change: str) -> Change:
    """Bring those rows of the ledger that may change up to its SELECT."""
    names = _names(ledger)
    entry = f"ledger.{ledger.name}_entry"
    text = over_passing_stages(model_text(ledger.sql_file))
    casts = ", ".join(f"CAST({column.name} AS {column.sql_type}) AS {column.name}" for column in ledger.stored_columns)
    model = (
        f"SELECT *, {ledger.open_when} AS is_open FROM (SELECT {casts} FROM ({text}) AS model) AS row "
        f"WHERE {may_change}"
    )
    into = f"{entry} ({names}, run_id, sign, entry_id, is_open)"  # by name: columns that a migration added stand last
    entry_id = f"CAST(hash({run_id}, {names}) >> 1 AS BIGINT)"
    if not store.rows(f"SELECT 1 FROM {entry} AS row WHERE {may_change} LIMIT 1"):
        posting = f"SELECT {names}, {run_id}, 1, {entry_id}, is_open FROM ({model}) AS posting"
        return Change(int(store.rows(f"INSERT INTO {into} {posting}")[0][0]))
    _find_change(store, entry, names, model, may_change)
    store.execute(
        f"DELETE FROM {entry} WHERE is_open AND entry_id IN (SELECT entry_id FROM {_CHANGE} WHERE is_open AND side = -1)"
    )
    store.execute(
        f"INSERT INTO {into} SELECT {names}, {run_id}, side, CASE WHEN side = 1 THEN {entry_id} ELSE entry_id END, is_open "
        f"FROM {_CHANGE} WHERE side = 1 OR NOT is_open"
    )
    posted, reversed_, replaced = store.rows(
        f"SELECT count(*) FILTER (WHERE side = 1), count(*) FILTER (WHERE side = -1 AND NOT is_open), "
        f"count(*) FILTER (WHERE side = -1 AND is_open) FROM {_CHANGE}"
    )[0]
    store.execute(f"DROP TABLE {_CHANGE}")
    if reversed_:
        _check_reversals(store, ledger)
    return Change(int(posted), int(reversed_), int(replaced))


def _may_change(store: Store, ledger: Ledger) -> str:
    """A condition on the ledger's rows, of the model and of the net alike: those of days whose samples were thinned stand as posted."""
    tables = [(table, level) for table, levels in ledger.closed_by.items() for level in levels]
    closed = " OR ".join(f"(fact_table = '{table}' AND level = '{level}')" for table, level in tables)
    if not closed or not store.rows(f"SELECT 1 FROM store.thinned WHERE {closed} LIMIT 1"):
        return "TRUE"
    cluster = "cluster"
    if "cluster" in ledger.key_columns:
        cluster = f"(SELECT name.cluster FROM ledger.{ledger.name}_key AS name WHERE name.key_no = row.key_no)"
    return (
        f"({cluster}, date_trunc('day', grain_at)) NOT IN (SELECT (cluster, day_at) FROM store.thinned WHERE {closed})"
    )


def _find_change(store: Store, entry: str, names: str, model: str, may_change: str) -> None:
    """``_CHANGE``: rows that the model has and the net has not (side 1), and the other way round (side -1, with their ``entry_id``)."""
    net = f"{entry} AS row WHERE sign = 1 AND {may_change} AND entry_id NOT IN (SELECT entry_id FROM {entry} WHERE sign = -1)"
    store.execute(
        f"CREATE OR REPLACE TEMP TABLE {_CHANGE} AS SELECT {names}, is_open, sum(side)::BIGINT AS side, max(entry_id) AS entry_id FROM ("
        f"SELECT {names}, is_open, 1 AS side, CAST(NULL AS BIGINT) AS entry_id FROM ({model}) AS posting "
        f"UNION ALL SELECT {names}, is_open, -1, entry_id FROM {net}) AS sides GROUP BY {names}, is_open HAVING sum(side) <> 0"
    )
    doubled = store.rows(f"SELECT count(*) FROM {_CHANGE} WHERE abs(side) > 1")[0][0]
    if doubled:
        raise InvariantError(f"{entry}: {doubled} rows stand in it more than once")


def _check_reversals(store: Store, ledger: Ledger) -> None:
    """Each reversal stands for one posting. Raises InvariantError where two postings share an id, or one is reversed twice."""
    entry = f"ledger.{ledger.name}_entry"
    wrong = store.rows(
        f"SELECT count(*) FROM (SELECT entry_id FROM {entry} WHERE entry_id IN (SELECT entry_id FROM {entry} WHERE sign = -1) "
        "GROUP BY entry_id HAVING count(*) <> 2 OR sum(sign) <> 0)"
    )[0][0]
    if wrong:
        raise InvariantError(f"ledger {ledger.name}: {wrong} reversals do not stand for one posting each")


def _rebuild_findings(store: Store, ledgers: Sequence[Ledger], empty: EmptyTables) -> int:
    names = ", ".join(column.name for column in columns_of(Finding))
    store.execute("DELETE FROM ledger.finding")
    files = [ledger.findings_file for ledger in ledgers if ledger.findings_file is not None]
    for file in (*files, *FINDINGS):
        model = empty.findings_with_rows(file, model_text(file))
        if model is not None:
            store.execute(f"INSERT INTO ledger.finding ({names}) SELECT {names} FROM ({model}) AS found")
    return int(store.rows("SELECT count(*) FROM ledger.finding")[0][0])


def _record_run(
    store: Store,
    run_id: int,
    as_of: Instant | None,
    parameters: PostingParameters,
    changes: Mapping[str, Change],
    clock: Clock,
) -> bool:
    """Write the run down, unless it appended nothing and goes by the same instant, formulas and settings as the one before."""
    definitions = _definitions()
    before = store.rows(
        "SELECT epoch_us(as_of), definitions, settings_hash FROM ledger.posting_run ORDER BY run_id DESC LIMIT 1"
    )
    settings = parameters.settings_hash()
    moved = any(change.posted or change.reversed or change.replaced for change in changes.values())
    if before and not moved and before[0] == (as_of, definitions, settings):
        return False
    store.execute(
        "INSERT INTO ledger.posting_run VALUES (?, make_timestamp(?::BIGINT), make_timestamp(?::BIGINT), ?, ?)",
        [run_id, clock.now(), as_of, definitions, settings],
    )
    return True


def _definitions() -> str:
    return msgspec.json.encode({entry.name: entry.version for entry in DEFINITIONS}, order="sorted").decode()


def _basis(parameters: PostingParameters) -> str:
    """What a ledger is computed by, besides the facts: formulas and settings. Where it changes, everything is computed again."""
    return hashlib.sha256(f"{_definitions()} {parameters.settings_hash()}".encode()).hexdigest()


def _exists(store: Store, schema: str, table: str) -> bool:
    found = store.rows(
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", [schema, table]
    )
    return bool(found[0][0])


def _names(ledger: Ledger) -> str:
    return ", ".join(column.name for column in ledger.stored_columns)
