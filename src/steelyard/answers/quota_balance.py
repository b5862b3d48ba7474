"""Quota in an answer: how much of it was used, who waited while what was idle where, what was reserved, lent and leaked.

Q6 uses this. Windows are whole grains of the ledger ``quota``; a dump alone, which speaks for no time, has the table of its instant. A ratio is
over the time in which both of its sides are known, and its coverage is that time over the observed. The trick to know: whether waiting is
the quota's doing or the hardware's shows by what was idle meanwhile: in the queue's own quota, and in the pool that it draws on.

Sceptic's query: ``SELECT queue, sum(used_milli_us) / sum(nominal_milli_us) FROM ledger.quota GROUP BY queue``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.reading import Reading, Record
from steelyard.definitions import quota_balance as definition
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, MINUTE_US, DurationUs, Instant, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
METHOD: Final = f"quota_balance {definition.VERSION}"
CEILING_US: Final[DurationUs] = definition.WAIT_CEILING_MINUTES * MINUTE_US

POOL: Final = "pool"
_CARDS: Final = frozenset({"gpu", "pgpu", "npu", "xpu", "dcu", "gcu", "ppu", "mlu", "tpu", "gaudi"})
_WRITTEN_AS: Final = {
    "nominal": frozenset({"nominal", "deserved"}),
    "borrowing_limit": frozenset({"borrowing_limit"}),
    "lending_limit": frozenset({"lending_limit"}),
    "max_capacity": frozenset({"nominal", "borrowing_limit", "capability"}),
}
_GPU_HOUR: Final = 1_000 * HOUR_US
_NAMES: Final = ("cluster", "kind", "queue", "namespace", "flavor", "resource")
_SUMS: Final = (
    "nominal",
    "reserved",
    "used",
    "borrowed",
    "over_nominal",
    "lent",
    "leaked",
    "reserved_not_used",
    "pending",
    "idle",
)


@dataclass(frozen=True, slots=True)
class QuotaBalance:
    """``figures`` over card-counting resources; ``tables``: ``quota`` (the window) and ``quota_now`` (the latest instant), each where it has rows."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    cause: str | None


def quota_balance(
    reading: Reading, from_us: Instant, to_us: Instant, *, ceiling_us: DurationUs = CEILING_US
) -> QuotaBalance:
    """The balance of [from_us, to_us), which are bounds of grains; ``reading`` has the statements of ``SQL``.

    cause: one sentence that says whether waiting was quota or capacity; None where nobody waited or it is not known.
    """
    rows = reading.run("quota_grains", from_us=from_us, to_us=to_us)
    now = reading.run("quota_now")
    uncounted = {(row["cluster"], row["queue"]): int(row["requests_count"]) for row in reading.run("quota_uncounted")}
    granted = {
        (row["cluster"], row["queue"]): row
        for row in reading.run("quota_granted", from_us=from_us, to_us=to_us, ceiling_us=ceiling_us)
    }
    figures = _figures(rows, uncounted) if rows else []
    tables = [_window_table(rows, granted)] if rows else []
    tables += [_now_table(now)] if now else []
    return QuotaBalance(figures, tables, _cause(figures))


def counts_cards(resource: str) -> bool:
    """Whether one of it is one card, so that amounts of several such resources can be added up; MIG instances and slots cannot."""
    return resource.removeprefix("requests.").rpartition("/")[2] in _CARDS


def _figures(rows: Sequence[Record], uncounted: Mapping[tuple[str, str], int]) -> list[Figure]:
    cards = [row for row in rows if counts_cards(row["resource"]) and not row["is_rollup"] and not _has_no_part(row)]
    queues = [row for row in cards if row["queue_kind"] not in (POOL, "resource_quota", "cohort")]
    wholes = [row for row in cards if row["queue_kind"] == POOL]
    wholes += [row for row in queues if row["pool"] is None]
    return [
        _ratio("quota_used_ratio", queues, "used_of_nominal_milli_us", "nominal_of_used_milli_us", "used_of_us"),
        _ratio("quota_pending_time_ratio", wholes, "pending_us", "pending_of_us", "pending_of_us"),
        _ratio("quota_pending_fits_pool_ratio", wholes, "fits_pool_us", "fits_pool_of_us", "pending_of_us"),
        _ratio("quota_pending_fits_own_ratio", queues, "fits_own_us", "fits_own_of_us", "pending_of_us"),
        *(
            _hours(name, queues, uncounted)
            for name in ("pending", "borrowed", "over_nominal", "leaked", "reserved_not_used")
        ),
    ]


def _has_no_part(row: Record) -> bool:
    """A tenant without quota of which no use is told: nothing is missing of it."""
    return row["nominal_milli_us"] == 0 and row["used_milli_us"] is None and row["pending_us"] is None


def _sum(rows: Sequence[Record], column: str) -> int | None:
    known = [int(row[column]) for row in rows if row[column] is not None]
    return sum(known) if known else None


def _coverage(rows: Sequence[Record], of_column: str | None) -> float | Unknown:
    observed = _sum(rows, "observed_us")
    if not observed:
        return Unknown(_("no queue was observed over time"))
    return 1.0 if of_column is None else (_sum(rows, of_column) or 0) / observed


def _ratio(name: str, rows: Sequence[Record], part: str, whole: str, of_column: str) -> Figure:
    above, below = _sum(rows, part), _sum(rows, whole)
    value: Value = Unknown(_("no source tells of it over time"))
    if above is not None and below:
        value = Fraction(above, below)
    elif below == 0:
        value = Unknown(_("nobody waited") if "fits" in name else _("there is no quota"))
    return Figure(name, value, "1", METHOD, _coverage(rows, of_column))


def _hours(name: str, rows: Sequence[Record], uncounted: Mapping[tuple[str, str], int]) -> Figure:
    """GPU-hours over the time in which they are known, which is the coverage; Unknown, with the least that they are, where an amount beyond counting
    is a part of them."""
    column, of_column = f"{name}_milli_us", "pending_amount_of_us" if name == "pending" else f"{name}_of_us"
    amount, observed = _sum(rows, column), _sum(rows, "observed_us")
    value: Value = Unknown(_("no source tells of it over time")) if amount is None else Fraction(amount, _GPU_HOUR)
    gaps = [row for row in rows if row[of_column] < row["observed_us"]]
    if beyond := uncounted_of(gaps, uncounted):
        value = not_counted(beyond, value, "GPU-h")
    coverage = (_sum(rows, of_column) or 0) / observed if observed else Unknown(_("no queue was observed over time"))
    return Figure(f"quota_{name}_gpu_hours", value, "GPU-h", METHOD, coverage)


def uncounted_of(rows: Sequence[Record], uncounted: Mapping[tuple[str, str], int]) -> int:
    """How many requests of the queues of the rows ask for no amount of cards that there can be."""
    return sum(uncounted.get(queue, 0) for queue in {(row["cluster"], row["queue"]) for row in rows})


def not_counted(requests_count: int, rest: Value, unit: str) -> Unknown:
    """The sum of which such requests are a part; ``rest``: what is known of it, its least."""
    least = ""
    if isinstance(rest, Fraction) and rest > 0:
        least = _("; at least {least} {unit}").format(least=f"{float(rest):.3f}", unit=unit)
    return Unknown(
        _("{count} requests ask for no amount of cards that there can be: see finding amount_beyond_counting").format(
            count=requests_count
        )
        + least
    )


def _cause(figures: Sequence[Figure]) -> str | None:
    found = {figure.name: figure.value for figure in figures}
    fits, own = found.get("quota_pending_fits_pool_ratio"), found.get("quota_pending_fits_own_ratio")
    if not isinstance(fits, Fraction):
        return None
    if 2 * fits <= 1:
        return _("mostly capacity: while requests waited, what was idle would mostly not have been enough")
    if isinstance(own, Fraction) and 2 * own > 1:
        return _("neither quota nor capacity: the queues' own idle quota would mostly have been enough")
    return _("mostly quota, not capacity: what was idle in other queues would mostly have been enough")


def _names(row: Mapping[str, Any]) -> list[Value]:
    return [row["cluster"], row["queue_kind"], row["queue"], row["namespace"], row["flavor"], row["resource"]]


def _window_table(rows: Sequence[Record], granted: Mapping[tuple[str, str], Record]) -> Table:
    columns = [Column(name) for name in _NAMES]
    columns += [Column(name, "GPU-h") for name in _SUMS]
    columns += [
        Column("used_basis"),
        Column("used_ratio", "1"),
        Column("pending_time_ratio", "1"),
        Column("pending_fits_own_ratio", "1"),
        Column("pending_fits_pool_ratio", "1"),
        Column("refused", "1"),
        Column("fulfilment_ratio", "1"),
    ]
    return Table("quota", columns, [_window_row(row, granted) for row in rows])


def _window_row(row: Record, granted: Mapping[tuple[str, str], Record]) -> list[Value]:
    def part(above: str, below: str) -> Value:
        if row[above] is None or row[below] is None:
            return Unknown(_("no source tells it"))
        return Fraction(int(row[above]), int(row[below])) if row[below] else None

    return [
        *_names(row),
        *(_amount(row[f"{name}_milli_us"], _GPU_HOUR) for name in _SUMS),
        row["used_basis"],
        part("used_of_nominal_milli_us", "nominal_of_used_milli_us"),
        part("pending_us", "pending_of_us"),
        part("fits_own_us", "fits_own_of_us"),
        part("fits_pool_us", "fits_pool_of_us"),
        row["refused_count"],
        _fulfilment(granted.get((row["cluster"], row["queue"])) if row["queue_kind"] != POOL else None),
    ]


def _amount(value: Any, unit: int) -> Value:
    return Unknown(_("no source tells it")) if value is None else Fraction(int(value), unit)


def _fulfilment(row: Record | None) -> Value:
    if row is None:
        return Unknown(_("no request of it is told one by one"))
    decided = row["asked_count"] - row["undecided_count"]
    return (
        Fraction(row["granted_count"], decided)
        if decided
        else Unknown(_("all its requests may still be granted in time"))
    )


def _cards(row: Record, name: str) -> Value:
    """An amount of cards; a limit that is not set is none, not unknown; one that could not be read is unknown."""
    milli = row[f"{name}_milli"]
    if milli is None and not _WRITTEN_AS.get(name, frozenset()).isdisjoint((row["refused"] or "").split(",")):
        return Unknown(_("it was written and cannot be read: see the findings about its queue"))
    return None if milli is None and name.endswith(("limit", "capacity")) else _amount(milli, 1_000)


def _now_table(rows: Sequence[Record]) -> Table:
    amounts = (
        *_SUMS[:3],
        "claimed",
        *_SUMS[3:],
        "borrowing_limit",
        "lending_limit",
        "max_capacity",
    )
    columns = [Column(name) for name in _NAMES] + [Column("said_at")] + [Column(name, "GPU") for name in amounts]
    columns += [Column("used_basis"), Column("leaked_since"), Column("leaked_gpu_seconds", "GPU-s")]
    return Table(
        "quota_now",
        columns,
        [
            [
                *_names(row),
                format_instant(row["said_us"]),
                *(_cards(row, name) for name in amounts),
                row["used_basis"],
                format_instant(row["leaked_since_us"]) if row["leaked_since_us"] is not None else None,
                _amount(row["leaked_milli_us"], 1_000_000_000),
            ]
            for row in rows
        ],
    )
