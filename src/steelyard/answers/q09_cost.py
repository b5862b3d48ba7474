"""Q9: what GPU time cost, whom, and what they are asked for, in both books side by side; what nobody held; and what has no price.

``answer`` is what the registry calls. Money comes from the ledgers ``cost`` and ``charge`` in whole grains, GPU-time without a price book from
the supply ledger. The trick to know: every amount is an integer of one currency, summed over lines first and grouped afterwards, so any grouping
adds up to the same total, and the accounts to what the supply cost, to the millionth. Each further part (changes, waste, unit costs) is a module
that yields tables; ``answer`` puts them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers import cost_changes, cost_tables, cost_waste, dimensions, grounds, idle_sharing, unit_costs
from steelyard.answers.contract import Answer, Evidence, Figure, Series, Table, Value
from steelyard.answers.cost_changes import ChangesPart
from steelyard.answers.cost_lines import (
    ACCOUNTS,
    NO_BOOK,
    TREE,
    AskedCosts,
    CostLine,
    CostReader,
    asked_about,
    meets,
    total,
    whole_grains,
)
from steelyard.answers.cost_tables import MONEY, beyond_capacity_us, hours, money, seen_us, unpriced_us, why_unpriced
from steelyard.answers.dimensions import Dimension, Filter
from steelyard.answers.lines import parameter_of
from steelyard.answers.narrowing import names_shown
from steelyard.answers.reading import Reading, Rows
from steelyard.answers.state_lines import StateLine
from steelyard.definitions import money as money_definition
from steelyard.definitions import normalised_gpu_hours, token_split
from steelyard.definitions.cost_change import ChangeRule
from steelyard.definitions.money import MoneyPolicy
from steelyard.definitions.token_split import TokenWeights
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import INSTANT_MAX, Window, format_instant
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
VERSION: Final = "1"
ANOMALIES_SHOWN: Final = 3
WASTE_SHOWN: Final = 3
_MONEY: Final = f"money {money_definition.VERSION}"
_OTHERS: Final = tuple(account for account in ACCOUNTS if account != "tenant")
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu_hours_supply": ("GPU-h", f"{_MONEY}: all accounts of the cost ledger"),
    "gpu_hours_granted": ("GPU-h", f"{_MONEY}: account tenant: held in service or of unknown service, and reserved"),
    "gpu_hours_normalised": ("GPU-h", f"normalised_gpu_hours {normalised_gpu_hours.VERSION}: granted x weight of the card's model"),
    "gpu_hours_used": ("GPU-h", f"{_MONEY}: what was seen used of granted, on paths that measure the holder alone"),
    "gpu_hours_used_upper": ("GPU-h", f"{_MONEY}: gpu_hours_used and all granted time of which the use was not seen"),
    "gpu_hours_whole_cards": ("GPU-h", "each card of which somebody holds a part, whole, for each holder: as a meter counts that knows no fractions"),
    "gpu_hours_charged": ("GPU-h", f"{_MONEY}: charge ledger: declared share x time from the charge start, what was down in it"),
    "currency": ("ISO 4217", "of all figures of money; unknown where there are several, which are never added"),
    "cost_total": (MONEY, f"{_MONEY}: all accounts"),
    "cost_allocated": (MONEY, f"{_MONEY}: account tenant: price x granted GPU-time"),
    "cost_effective": (MONEY, f"{_MONEY}: of cost_allocated what stands for gpu_hours_used; showback unless measured alone for 95 % of the time"),
    "cost_effective_upper": (MONEY, f"{_MONEY}: cost_effective and the cost of all granted time of which the use was not seen"),
    **{f"cost_{name}": (MONEY, f"{_MONEY}: account {name}") for name in _OTHERS},
    "cost_provisional": (MONEY, f"{_MONEY}: of cost_total what stands on provisional prices"),
    "idle_shared": (MONEY, idle_sharing.METHOD),
    "charge_list": (MONEY, f"{_MONEY}: charge ledger before discounts"),
    "charge_discount": (MONEY, f"{_MONEY}: discounts from rounded list prices"),
    "charge_total": (MONEY, f"{_MONEY}: charge ledger, discounts taken off"),
    "gpu_hours_unpriced_cost": ("GPU-h", f"{_MONEY}: of gpu_hours_supply what no price of the cost side names"),
    "gpu_hours_unpriced_charge": ("GPU-h", f"{_MONEY}: of gpu_hours_charged what no price of the charge side names"),
    **unit_costs.METHODS,
    "cost_residual_micro": ("micro", f"{_MONEY}: sum over places and grains of |price x supply, computed anew - sum of accounts|, in integers"),
    "cost_residual_gpu_us": ("GPU-us", f"{_MONEY}: sum over places and grains of |supply - sum of accounts|, in integers"),
}  # fmt: skip
OWN_FIGURES: Final = frozenset(METHODS) - {
    "gpu_hours_supply", "cost_idle", "cost_stranded", "cost_unobserved", "cost_overhead",
}  # fmt: skip
"""Figures that are made of a tenant's own rows where the question is narrowed to it."""


@dataclass(frozen=True, slots=True)
class CostSpec:
    """Q9 as asked: ``window`` None = all known time; ``by`` groups (the tenant where nothing is said); ``where`` narrows (dimension or
    label -> value).

    ``confined``: whoever asks may not learn which names exist beside its own.
    """

    window: Window | None = None
    by: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    confined: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """What all parts say together."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    series: Sequence[Series]
    coverage: float | Unknown
    blind_spots: Sequence[str]
    next_actions: Sequence[str]
    names: frozenset[str] = frozenset()


def title() -> str:
    """What the question asks, in the chosen language."""
    return _("What did it cost, and whom")


def answer(rows: Rows, spec: CostSpec) -> Answer:
    """Cost and charge of ``spec.window``, over its whole grains.

    Tables ``costs`` (by the chosen dimensions and currency), ``accounts``, ``unpriced``. Money is in whole units of the currency that stands beside
    it; figures of money are Unknown where there are several. Without a price book all money is Unknown and GPU-hours stand. Raises UsageError for an
    unknown dimension or name, an empty window and an empty store. Method: definitions 13.
    """
    if spec.window is not None and not spec.window.duration_us:
        raise UsageError(
            _("a window must end after it starts: {window} holds no time at all").format(window=spec.window)
        )
    reading = Reading(rows, SQL, cost_changes.SQL, cost_waste.SQL, unit_costs.SQL, grounds.SQL, dimensions.SQL)
    by = dimensions.chosen(spec.by or ("tenant",), dimensions.COST, reading)
    where = dimensions.filters(spec.where, dimensions.COST, reading)
    times = grounds.known_times(reading)
    known = Window(min(time.first for time in times), max(time.last for time in times) + 1)
    parameter = parameter_of(reading)
    whole = whole_grains(spec.window, parameter.grain_us)
    window = spec.window or grounds.all_time(times)
    span = reading.run("span", from_us=whole.start, to_us=whole.end)[0]
    if span["first_us"] is None:
        reason = Unknown(
            _("nothing is booked of whole grains in {window}; the known time is {known}").format(
                window=window, known=known
            )
        )
        return _assemble(spec, window, _unknown(reason), reading)
    asked_names = {dimension.name for dimension in (*by, *(condition.dimension for condition in where))}
    reader = CostReader(
        reading, whole, parameter, by_tree=bool(asked_names & set(TREE)), by_unit="unit_kind" in asked_names
    )
    lines = reader.lines()
    decided = _policy(reading)
    policy = decided.idle_sharing
    idle_sharing.share_idle(lines, policy)
    if not spec.confined:
        dimensions.require_known(where, (line.record for line in lines), reading)
    asked = asked_about(lines, where, reader.homes)
    booked = Window(int(span["first_us"]), min(int(span["last_us"]) + parameter.grain_us, known.end))
    of_books = _books(reading, reader, asked, by, policy)
    changes = _changes(reader, where, by, decided.change, booked)
    waste, waste_left = cost_waste.waste_table(_states(reader, where), asked.lines, lines)
    units = unit_costs.unit_costs_part(reading, asked.lines, whole, decided.token_weights)
    left_out = {**of_books.left_out, **changes.left_out, "waste": waste_left, **units.left_out}
    parts = Parts(
        figures=[*of_books.figures, *units.figures],
        tables=[*of_books.tables, waste, *units.tables, *changes.tables],
        series=changes.series,
        coverage=_coverage(asked.lines),
        blind_spots=_blind_spots(reader, spec, asked, by, known, left_out),
        next_actions=[
            *_next_actions(reader, asked.lines),
            *cost_waste.first_actions(waste, WASTE_SHOWN),
            *changes.anomalies[:ANOMALIES_SHOWN],
        ],
        names=frozenset(
            f"pod {line.record.get('namespace')}/{line.record.get('pod')}"
            for line in asked.lines
            if line.record["pod_uid"]
        ),
    )
    return _assemble(spec, window, parts, reading)


def _states(reader: CostReader, where: Sequence[Filter]) -> list[StateLine]:
    """GPU-time by state of what is asked about, where money stands for it."""
    if not reader.has_prices:
        return []
    return [line for line in reader.states() if not where or meets(line.record, where, reader.homes)]


def _policy(reading: Reading) -> MoneyPolicy:
    """What the site decided, as it was posted; what is not posted is by the definition's defaults."""
    for row in reading.run("policy"):
        change = ChangeRule(
            *(int(row[f"change_{name}"]) for name in ("days", "days_least", "ratio_ppm", "least_micro"))
        )
        weights = TokenWeights(int(row["decode_ppm"]), int(row["cached_ppm"]))
        return MoneyPolicy(idle_sharing=row["idle_sharing"], token_weights=weights, change=change)
    return MoneyPolicy()


def _changes(
    reader: CostReader, where: Sequence[Filter], by: Sequence[Dimension], rule: ChangeRule, booked: Window
) -> ChangesPart:
    """Days of what is asked about; the last that is booked may still run, so only whole ones are compared."""
    rows = (row for row in reader.daily() if not where or meets(row.record, where, reader.homes))
    return cost_changes.changes_part(rows, by, cost_changes.whole_days(booked), rule)


@dataclass(frozen=True, slots=True)
class Books:
    """What both books say."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    left_out: Mapping[str, int]


def _books(reading: Reading, reader: CostReader, asked: AskedCosts, by: Sequence[Dimension], policy: str) -> Books:
    unpriced, left_out = cost_tables.unpriced_table(asked.lines)
    tables = [
        cost_tables.costs_table(asked.lines, by, policy),
        cost_tables.accounts_table(asked.lines),
        unpriced,
    ]
    figures = [*_figures(asked.lines, policy), *_residuals(reading, reader)]
    return Books(figures, tables, {"unpriced": left_out})


def _figures(lines: Sequence[CostLine], policy: str) -> list[Figure]:
    granted, pathed = total(lines, "granted_us"), total(lines, "pathed_us")
    of_cost = [line for line in lines if line.amount_us or line.cost_micro]
    tenant = [line for line in of_cost if line.account == "tenant"]
    charges = [line for line in lines if line.charged_us]
    no_path = Unknown(_("no path measures these holders alone"))
    unmeasured = bool(granted) and not pathed
    values: dict[str, Value] = {
        "gpu_hours_supply": hours(total(of_cost, "amount_us")),
        "gpu_hours_granted": hours(granted),
        "gpu_hours_normalised": hours(total(lines, "normalised_us")),
        "gpu_hours_used": no_path if unmeasured else hours(total(lines, "used_us")),
        "gpu_hours_used_upper": hours(total(lines, "used_upper_us") + granted - pathed),
        "gpu_hours_whole_cards": hours(total(lines, "whole_us")),
        "gpu_hours_charged": hours(total(charges, "charged_us")),
        "currency": _currency(lines),
        "cost_total": _of_one_currency(of_cost, "cost_micro", "cost"),
        "cost_allocated": _of_one_currency(tenant, "cost_micro", "cost"),
        "cost_effective": _of_one_currency(tenant, "effective_micro", "cost"),
        "cost_effective_upper": _of_one_currency(tenant, "effective_upper_micro", "cost"),
        **{
            f"cost_{name}": _of_one_currency([line for line in of_cost if line.account == name], "cost_micro", "cost", of_cost)
            for name in _OTHERS
        },
        "cost_provisional": _of_one_currency(of_cost, "provisional_micro", "cost"),
        "idle_shared": _idle_shared(lines, policy),
        **{
            name: _of_one_currency(charges, column, "charge", lines)
            for name, column in (
                ("charge_list", "list_micro"), ("charge_discount", "discount_micro"), ("charge_total", "charge_micro"),
            )
        },
        "gpu_hours_unpriced_cost": hours(unpriced_us(of_cost)),
        "gpu_hours_unpriced_charge": hours(total(charges, "charge_unpriced_us")),
    }  # fmt: skip
    if any(reason == NO_BOOK for line in lines for _side, reason in line.reasons):
        values |= dict.fromkeys(("gpu_hours_charged", "gpu_hours_unpriced_charge"), why_unpriced((), "charge"))
    if unmeasured and not isinstance(values["cost_effective"], Unknown):
        values["cost_effective"] = no_path
    coverages = _coverages(lines, of_cost, charges, granted)
    return [Figure(name, value, *METHODS[name], coverages[name.partition("_")[0]]) for name, value in values.items()]


def _coverages(
    lines: Sequence[CostLine], of_cost: Sequence[CostLine], charges: Sequence[CostLine], granted: int
) -> Mapping[str, float | Unknown]:
    """By the first word of a figure's name: of GPU-hours what was observed, of money what has a price."""
    supply, charged = total(of_cost, "amount_us"), total(charges, "charged_us")
    nothing = Unknown(_("no time of what is asked about is booked"))
    priced: float | Unknown = nothing if supply <= 0 else float(Fraction(total(of_cost, "priced_us"), supply))
    asked: float | Unknown = (
        nothing if not charged else float(Fraction(charged - total(charges, "charge_unpriced_us"), charged))
    )
    observed = _coverage(lines)
    return {"gpu": observed, "cost": priced, "idle": priced, "charge": asked, "currency": 1.0}


def _currency(lines: Sequence[CostLine]) -> Value:
    """The one currency of what is asked about."""
    found = sorted({line.currency for line in lines if line.currency is not None})
    if len(found) == 1:
        return found[0]
    if not found:
        return why_unpriced((reason for line in lines for reason in line.reasons), "cost")
    return Unknown(_("several: {currencies}").format(currencies=", ".join(found)))


def _of_one_currency(
    lines: Sequence[CostLine], name: str, side: str, all_lines: Sequence[CostLine] | None = None
) -> Value:
    """The money of lines where it is of one currency. Unknown in several, and where nothing of what is there has a price."""
    priced = [line for line in lines if not any(of == side for of, _reason in line.reasons)]
    currencies = sorted({line.currency for line in priced if line.currency is not None})
    if len(currencies) > 1:
        return Unknown(
            _("in {currencies}, which are not added: see the table `costs`").format(currencies=", ".join(currencies))
        )
    reasons = {reason for line in (lines or all_lines or ()) for reason in line.reasons}
    if not priced and (lines or reasons):
        return why_unpriced(reasons, side)
    return money(total(priced, name))


def _idle_shared(lines: Sequence[CostLine], policy: str) -> Value:
    if policy == "none":
        return Unknown(_("the policy money.idle_sharing is none: idle cost stays with nobody"))
    return _of_one_currency([line for line in lines if line.granted_us], "idle_share_micro", "cost")


def _residuals(reading: Reading, reader: CostReader) -> list[Figure]:
    names = ("cost_residual_micro", "cost_residual_gpu_us")
    if not reader.has_prices:
        reason = why_unpriced((), "cost")
        return [Figure(name, reason, *METHODS[name], reason) for name in names]
    row = reading.run("cost_residual", from_us=reader.window.start, to_us=reader.window.end)[0]
    found = (int(row["residual_micro"]), int(row["residual_gpu_us"]))
    return [Figure(name, value, *METHODS[name], 1.0) for name, value in zip(names, found, strict=True)]


def _coverage(lines: Sequence[CostLine]) -> float | Unknown:
    """Observed part of the supply that is asked about. A cluster as a place has no cards of its own: what is supplied there is booked equal to what
    is held, and covers nothing."""
    supply = sum(line.amount_us for line in lines if line.record["place_kind"] != "cluster")
    if supply <= 0:
        return Unknown(_("no card of this estate is known"))
    unobserved = sum(line.amount_us for line in lines if line.account == "unobserved")
    return float(Fraction(supply - unobserved, supply))


def _unknown(reason: Unknown) -> Parts:
    figures = [Figure(name, reason, unit, method, reason) for name, (unit, method) in METHODS.items()]
    return Parts(figures, (), (), reason, (), ())


def _blind_spots(
    reader: CostReader,
    spec: CostSpec,
    asked: AskedCosts,
    by: Sequence[Dimension],
    known: Window,
    left_out: Mapping[str, int],
) -> list[str]:
    spots = []
    lines = asked.lines
    if not reader.has_prices:
        spots.append(_("without a price book nothing is reserved_unused or stranded: what is free stands as idle"))
    unpriced = unpriced_us(lines)
    if reader.has_prices and unpriced:
        spots.append(
            _("{hours} GPU-h have no price on the cost side: no money stands for them").format(
                hours=f"{float(hours(unpriced)):.3f}"
            )
        )
    against = beyond_capacity_us(lines)
    if against:
        spots.append(
            _(
                "the capacity of some places is not known: {hours} GPU-h that are held there stand against idle, which is below 0 by them"
            ).format(hours=f"{float(hours(against)):.3f}")
        )
    if total(lines, "provisional_micro"):
        spots.append(_("some prices are provisional: what stands on them will be restated"))
    granted = total(lines, "granted_us")
    if granted and seen_us(lines) < granted:
        spots.append(
            _("what was used is known of {ratio} of granted time: effective cost lies between its two bounds").format(
                ratio=f"{float(Fraction(seen_us(lines), granted)):.1%}"
            )
        )
    if any(dimension.name in TREE for dimension in by) and not reader.has_tree:
        spots.append(_("no tenancy tree was declared: `steelyard tenancy import FILE`"))
    if asked.unsettled:
        pods = names_shown(f"{line.record.get('namespace')}/{line.record.get('pod')}" for line in asked.unsettled)
        spots.append(
            _("the card of {pods} is not known and may be one of those asked about: it is in no figure").format(
                pods=pods
            )
        )
    if spec.window is not None:
        whole = reader.window
        if (whole.start, whole.end) != (spec.window.start, spec.window.end):
            spots.append(_("the window cuts a grain: money is told of whole grains only"))
        if spec.window.end != INSTANT_MAX and (spec.window.start < known.start or spec.window.end > known.end):
            spots.append(
                _("nothing is known outside {first} to {last}").format(
                    first=format_instant(known.start), last=format_instant(known.end - 1)
                )
            )
    spots += [
        _("{count} more rows of {table} are not listed").format(count=count, table=table)
        for table, count in left_out.items()
        if count
    ]
    return spots


def _next_actions(reader: CostReader, lines: Sequence[CostLine]) -> list[str]:
    if not reader.has_prices:
        return [_("import a price book (`steelyard prices import FILE`)")]
    unpriced = unpriced_us(lines)
    if unpriced:
        return [_("price what the table `unpriced` lists: {hours} GPU-h").format(hours=f"{float(hours(unpriced)):.1f}")]
    return []


def _assemble(spec: CostSpec, window: Window, parts: Parts, reading: Reading) -> Answer:
    blind = list(parts.blind_spots)
    notes, found = grounds.finding_notes(reading, parts.names if spec.confined else None)
    if found > len(notes):
        blind.append(_("{count} more findings are not listed here").format(count=found - len(notes)))
    own = {"q09_cost": VERSION, "money": money_definition.VERSION, "token_split": token_split.VERSION}
    return Answer(
        question="q9",
        title=title(),
        window=window,
        as_of=window.end,
        figures=parts.figures,
        tables=parts.tables,
        series=parts.series,
        definitions=grounds.definitions(reading, own),
        sources=grounds.source_lines(reading),
        coverage=parts.coverage,
        blind_spots=blind,
        findings=notes,
        evidence=[
            Evidence(_("what each grain of each card cost, by account"), "ledger.cost", "steelyard q9 --explain"),
            Evidence(_("what each holder is asked for"), "ledger.charge", "steelyard q9 --explain"),
            Evidence(_("the prices in force"), "fact.price", "steelyard prices"),
            Evidence(_("who held what, when"), "ledger.supply, ledger.holding", "steelyard q2"),
        ],
        next_actions=parts.next_actions,
        explain=dict(reading.ran) if spec.explain else {},
    )
