"""The tables that lines are made of: laid out from the ledgers as they stand now, or from the files of a snapshot.

``settling_charge`` and ``settling_cost`` are the rows, ``settling_holder``, ``settling_place``, ``settling_pod`` and ``settling_epoch`` what their
numbers mean. All are temporary, so a reader of a served store makes them too. The trick to know: lines are made by one SELECT over these names, so
what a draft says and what a snapshot says again years later cannot be two different sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from steelyard.definitions.models import model_tokens
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.instant import Instant
from steelyard.settlement.periods import PeriodRules
from steelyard.store import Store
from steelyard.store.rewriting import quoted

ROWS: Final = ("charge", "cost")
NAMED: Final = ("place", "pod", "tariff", "epoch", "price", "weight", "rate", "service", "holding", "bill")


@cache
def model_text(stem: str) -> str:
    """The text of a model beside this module."""
    return (files(__package__) / f"{stem}.sql").read_text(encoding="utf-8")


def filled(stem: str, values: Mapping[str, int | str]) -> str:
    """A model with its ``$names`` replaced by integers of ours: a COPY and a view take no bound values."""
    text = model_text(stem)
    for name in sorted(values, key=len, reverse=True):
        value = values[name]
        text = text.replace(f"${name}", value if isinstance(value, str) else str(int(value)))
    return text


def lay_out_ledgers(store: Store, rules: PeriodRules, label: str) -> None:
    """The tables of a period from the ledgers and dimensions as they stand. Raises UsageError as ``PeriodRules.window``."""
    span, window = rules.span(label), rules.window(label)
    bounds = {
        "from_us": span.start,
        "to_us": span.end,
        "period_from_us": window.start,
        "period_to_us": window.end,
    }
    zones = [(tenant, each.start, each.end) for tenant, each in rules.windows(label).items()]
    load_temporary(
        store, "settling_zone", (("tenant", "VARCHAR"), ("from_at", "TIMESTAMP"), ("to_at", "TIMESTAMP")), zones
    )
    load_epochs(store, [span.start, *(int(at) for (at,) in store.rows(filled("epochs", bounds)))], span.end)
    for name in ("place", "key", "holder", "tariff"):
        lay_out(store, name, filled("place_key" if name == "key" else name, bounds))
    _check_hashes(store)
    for name in ("pod", "price"):
        lay_out(store, name, model_text(name))
    _lay_out_weights(store)
    for name in ("rate", "service", "holding", "bill"):
        lay_out(store, name, filled(f"{name}s", bounds))
    for rows in ROWS:
        drop(store, f"settling_{rows}")
        store.execute(f"CREATE TEMP VIEW settling_{rows} AS {filled(f'{rows}_rows', bounds)}")
    lay_out(store, "total", model_text("totals"))


def lay_out(store: Store, name: str, text: str) -> None:
    """``settling_NAME`` anew, whatever was laid out before: of a snapshot it is a view."""
    drop(store, f"settling_{name}")
    store.execute(f"CREATE TEMP TABLE settling_{name} AS {text}")


def _check_hashes(store: Store) -> None:
    """No two holders, and no two tariffs, share a hash. Raises InvariantError where they do: their rows could not be told apart."""
    for name, unit in (("holder", "TRUE"), ("tariff", "ledger")):
        doubled = store.rows(
            f"SELECT count(*) FROM (SELECT 1 FROM settling_{name} GROUP BY key_hash, {unit} HAVING count(*) > 1)"
        )[0][0]
        if doubled:
            raise InvariantError(f"settling_{name}: {doubled} hashes stand for more than one row")


def _lay_out_weights(store: Store) -> None:
    """``settling_weight``: the weight of each model in each epoch; the first declaration that names the model and holds then, else the default."""
    declared = store.rows(model_text("model_weight"))
    default = store.rows(model_text("weight_default"))[0][0]
    models = [model for (model,) in store.rows("SELECT DISTINCT model FROM settling_place ORDER BY 1 NULLS FIRST")]
    epochs = store.rows("SELECT epoch_no, epoch_us(from_at) FROM settling_epoch ORDER BY 1")
    rows = [(model, number, _weight(model, start, declared, default)) for model in models for number, start in epochs]
    load_temporary(
        store, "settling_weight", (("model", "VARCHAR"), ("epoch_no", "INTEGER"), ("weight_ppm", "BIGINT")), rows
    )


def _weight(
    model: str | None,
    at: Instant,
    declared: Sequence[tuple[str, int, Instant | None, Instant | None]],
    default: int | None,
) -> int | None:
    words = model_tokens(model or "")
    for named, weight, start, end in declared:
        if model_tokens(named) <= words and (start is None or start <= at) and (end is None or at < end):
            return weight
    return default


def lay_out_files(store: Store, folder: Path) -> None:
    """The same tables from the files of a snapshot."""
    for name in (*ROWS, *NAMED):
        drop(store, f"settling_{name}")
        source = (
            f"read_parquet({quoted(str(folder / f'{name}s.parquet' if name in NAMED else folder / f'{name}.parquet'))})"
        )
        store.execute(f"CREATE TEMP VIEW settling_{name} AS SELECT * FROM {source}")
    lay_out(store, "total", model_text("totals"))


def epoch_expression(store: Store, column: str = "grain_at") -> str:
    """The number of the epoch that a column's instant lies in, as SQL."""
    starts = [
        int(at) for (at,) in store.rows("SELECT epoch_us(from_at) FROM settling_epoch WHERE epoch_no > 0 ORDER BY 1")
    ]
    return " + ".join(["0", *(f"CAST({column} >= make_timestamp({start}) AS INTEGER)" for start in starts)])


def load_epochs(store: Store, starts: Sequence[Instant], end: Instant) -> None:
    """``settling_epoch``: number, from, to."""
    rows = [
        (number, start, after) for number, (start, after) in enumerate(zip(starts, [*starts[1:], end], strict=True))
    ]
    load_temporary(
        store, "settling_epoch", (("epoch_no", "INTEGER"), ("from_at", "TIMESTAMP"), ("to_at", "TIMESTAMP")), rows
    )


def load_temporary(
    store: Store, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[object]]
) -> None:
    """A temporary table with these rows; TIMESTAMP cells are Instants. It can be made by a reader too."""
    if not table.startswith("settling_"):
        raise InvariantError(f"no table of settlement: {table}")
    drop(store, table)
    declared = ", ".join(f"{name} {kind}" for name, kind in columns)
    store.execute(f"CREATE TEMP TABLE {table} ({declared})")
    if rows:
        form = msgspec.json.encode({name: "BIGINT" if kind == "TIMESTAMP" else kind for name, kind in columns}).decode()
        cells = ", ".join(f"make_timestamp({name})" if kind == "TIMESTAMP" else name for name, kind in columns)
        document = msgspec.json.encode([dict(zip((n for n, _k in columns), row, strict=True)) for row in rows]).decode()
        store.execute(
            f"INSERT INTO {table} SELECT {cells} FROM (SELECT unnest(from_json(?, '[{form}]'), recursive := true))",
            [document],
        )


def drop(store: Store, name: str) -> None:
    """Let go of a temporary table or view, whichever it is."""
    found = store.rows(
        "SELECT table_type FROM information_schema.tables WHERE table_catalog = 'temp' AND table_name = ?", [name]
    )
    for (kind,) in found:
        store.execute(f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {name}")
