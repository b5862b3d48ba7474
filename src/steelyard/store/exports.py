"""Facts out of the store by day, as Parquet, before anything of them is removed: ``<folder>/<table>/day=YYYY-MM-DD/<written at>.parquet``.

``retention`` and the application's daily run use this. What was exported is told by ``fact_id``: a file holds only facts that no other file of
its day has, so late facts come in a further file, and doing it again adds nothing. The trick to know: ``store.exported`` keeps a
fingerprint of each day's facts, so days that did not change are passed over in one scan of two columns.

Sceptic's query: ``SELECT count(*), count(DISTINCT fact_id) FROM read_parquet('facts/device_sample/*/*.parquet')``: the two are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.facts.base import Fact
from steelyard.primitives.errors import InvariantError, StoreDamaged
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, Instant, to_datetime
from steelyard.store.durable import check_space, rename, sync
from steelyard.store.parquet_files import rows_count, stored_columns, write_rows
from steelyard.store.rewriting import quoted
from steelyard.store.store import Store

MINUTE_MARK: Final = "1m-"
"""How the ``fact_id`` of a one-minute reduction begins that retention made of raw facts: it was never seen, and is not exported."""

_SEEN: Final = f"fact_id NOT LIKE '{MINUTE_MARK}%'"
_ORDER: Final = "ORDER BY cluster, natural_key, occurred_at, fact_id"


@dataclass(frozen=True, slots=True)
class DayExport:
    """A file that was written: its table, its day and how many facts it holds."""

    table: str
    day_at: Instant
    rows_count: int
    path: Path


def day_start(instant: Instant) -> Instant:
    """Midnight (UTC) at or before the instant."""
    return instant - instant % DAY_US


def changed_days(store: Store, fact: type[Fact], before: Instant) -> list[Instant]:
    """The days before ``before`` with facts that are not known to be exported, the oldest first."""
    rows = store.rows(
        f"SELECT epoch_us(found.day_at) FROM ({_fingerprints(fact)}) AS found LEFT JOIN store.exported AS known "
        f"ON known.fact_table = '{fact.TABLE}' AND known.day_at = found.day_at "
        "WHERE known.fingerprint IS DISTINCT FROM found.fingerprint ORDER BY 1",
        {"low": None, "high": before},
    )
    return [int(day) for (day,) in rows]


def unexported_count(store: Store, fact: type[Fact], day: Instant, folder: Path) -> int:
    """How many facts of the day no file has."""
    source = _not_exported(fact, _files(store, _folder(folder, fact, day)))
    return int(store.rows(f"SELECT count(*) FROM {source}", _span(day))[0][0])


def export_day(store: Store, fact: type[Fact], day: Instant, folder: Path, now: Instant) -> DayExport | None:
    """Write the facts of a day that no file has yet. None: there are none.

    Raises StoreDamaged where a file of the day cannot be read, StoreFailed where there is no space.
    """
    place = _folder(folder, fact, day)
    place.mkdir(parents=True, exist_ok=True)
    for stale in place.glob(".*.unfinished"):
        stale.unlink()
    count = unexported_count(store, fact, day, folder)
    if not count:
        return None
    check_space(place, count * 100)
    path = _free_name(place, now)
    unfinished = place / f".{path.name}.unfinished"
    columns = stored_columns(store, "fact", fact.TABLE)
    # COPY takes no bound values; the span is ours, two integers.
    span = _span(day)
    source = (
        _not_exported(fact, _files(store, place)).replace("$low", str(span["low"])).replace("$high", str(span["high"]))
    )
    write_rows(store, columns, f"{source} {_ORDER}", unfinished)
    if rows_count(store, unfinished) != count:
        raise InvariantError(f"{unfinished}: {count} facts were to be written, {rows_count(store, unfinished)} were")
    rename(unfinished, path)
    for parent in (place.parent, folder):
        sync(parent)
    return DayExport(fact.TABLE, day, count, path)


def fingerprint(store: Store, fact: type[Fact], day: Instant) -> tuple[int, str]:
    """The number of a day's facts as they stand, and a hash over them in no order."""
    found = store.rows(f"SELECT rows_count, fingerprint FROM ({_fingerprints(fact)}) AS found", _span(day))
    return (int(found[0][0]), str(found[0][1])) if found else (0, "")


def record_exported(store: Store, fact: type[Fact], day: Instant, seen: tuple[int, str]) -> None:
    """Keep that the facts with the fingerprint ``seen`` are all in files, whatever came since."""
    with store.transaction():
        store.execute(
            "DELETE FROM store.exported WHERE fact_table = ? AND day_at = make_timestamp(?::BIGINT)", [fact.TABLE, day]
        )
        store.execute(
            "INSERT INTO store.exported VALUES (?, make_timestamp(?::BIGINT), ?, ?)", [fact.TABLE, day, *seen]
        )


def load_exports(store: Store, facts: Iterable[type[Fact]], folder: Path, written_after: Instant) -> tuple[int, int]:
    """Append the facts of export files written after an instant (their names say when). (files read, facts that were new)."""
    files_count = new_count = 0
    for fact in facts:
        paths = [
            path for path in sorted((folder / fact.TABLE).glob("day=*/*.parquet")) if _is_later(path, written_after)
        ]
        for path in paths:
            files_count += 1
            new_count += _load(store, fact, path)
    return files_count, new_count


def _load(store: Store, fact: type[Fact], path: Path) -> int:
    """Columns that the file lacks stay NULL, or at the default that the table gives; ones that the table lacks are refused."""
    rows_count(store, path)
    columns = {column.name: column for column in stored_columns(store, "fact", fact.TABLE)}
    found = [
        name for (name,) in store.rows("SELECT name FROM parquet_schema(?) WHERE num_children IS NULL", [str(path)])
    ]
    if strangers := [name for name in found if name not in columns]:
        raise StoreDamaged(
            _("{path}: a column {name} that fact.{table} does not have").format(
                path=path, name=strangers[0], table=fact.TABLE
            )
        )
    names = ", ".join(f'"{name}"' for name in found)
    file = f"read_parquet({quoted(str(path))}, hive_partitioning = false)"
    return int(
        store.rows(
            f"INSERT INTO fact.{fact.TABLE} ({names}) SELECT {names} FROM {file} AS late WHERE fact_id NOT IN "
            f"(SELECT fact_id FROM fact.{fact.TABLE} WHERE occurred_at BETWEEN (SELECT min(occurred_at) FROM {file}) "
            f"AND (SELECT max(occurred_at) FROM {file}))"
        )[0][0]
    )


def _fingerprints(fact: type[Fact]) -> str:
    """The days of a span (``$low`` NULL: from the first on) with the number and a fingerprint of their facts."""
    return (
        "SELECT date_trunc('day', occurred_at) AS day_at, count(*) AS rows_count, CAST(bit_xor(hash(fact_id)) AS VARCHAR) AS fingerprint "
        f"FROM fact.{fact.TABLE} WHERE {_SEEN} AND ($low IS NULL OR occurred_at >= make_timestamp(CAST($low AS BIGINT))) "
        "AND occurred_at < make_timestamp(CAST($high AS BIGINT)) GROUP BY 1"
    )


def _not_exported(fact: type[Fact], files: Sequence[Path]) -> str:
    """The FROM item of a day's facts (``$low``, ``$high``) that none of the files has."""
    named = ", ".join(quoted(str(path)) for path in files)
    beside = (
        f"ANTI JOIN (SELECT fact_id FROM read_parquet([{named}], hive_partitioning = false)) AS there USING (fact_id)"
        if files
        else ""
    )
    return (
        f"(SELECT * FROM fact.{fact.TABLE} {beside} WHERE {_SEEN} AND occurred_at >= make_timestamp(CAST($low AS BIGINT)) "
        "AND occurred_at < make_timestamp(CAST($high AS BIGINT))) AS day"
    )


def _span(day: Instant) -> dict[str, object]:
    return {"low": day, "high": day + DAY_US}


def _folder(folder: Path, fact: type[Fact], day: Instant) -> Path:
    return folder / fact.TABLE / f"day={to_datetime(day):%Y-%m-%d}"


def _files(store: Store, place: Path) -> list[Path]:
    """The files of a day. Raises StoreDamaged where one is none that can be read."""
    paths = sorted(place.glob("*.parquet"))
    for path in paths:
        rows_count(store, path)
    return paths


def _free_name(place: Path, now: Instant) -> Path:
    stem = f"{to_datetime(now):%Y%m%dT%H%M%S.%f}Z"
    path, number = place / f"{stem}.parquet", 1
    while path.exists():
        number += 1
        path = place / f"{stem}-{number}.parquet"
    return path


def _is_later(path: Path, instant: Instant) -> bool:
    return path.name >= f"{to_datetime(instant):%Y%m%dT%H%M%S.%f}Z"
