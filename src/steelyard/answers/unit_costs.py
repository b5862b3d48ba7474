"""What one unit of work cost: a million tokens of a service, prefill and decode apart, a job, a million samples; and a service's cost by its callers.

Q9 calls ``unit_costs_part``. Only where facts say what was done: a service's tokens by its gateway, else by the counters of its engines (which know
no callers), a job's end by the job, samples by what its pods say of their speed. Else the cost per unit is unknown with the reason. The trick to
know: the whole cost of a service in the window is laid on what it did in the window, its idle time too, so a unit costs what it costs and not what
it would at full load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from steelyard.answers.contract import Column, Figure, Table, Value
from steelyard.answers.cost_lines import CostLine
from steelyard.answers.cost_tables import MONEY, money
from steelyard.answers.reading import Reading, Record
from steelyard.definitions import token_split
from steelyard.definitions.token_split import TokenUse, TokenWeights, WeightedTokens, divided, weights_by_caller
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US, Window
from steelyard.primitives.unknown import Unknown

SQL: Final = Path(__file__).with_suffix(".sql")
MILLION: Final = 1_000_000
LISTED_MAX: Final = 500
UNATTRIBUTED: Final = "unattributed"
COUNTED_MIN: Final = Fraction(95, 100)
"""Part of the time of a service's pods for which the counters of its engines must have been seen."""
TOKENS: Final = ("prompt_tokens", "cached_tokens", "completion_tokens")
_SPLIT: Final = f"token_split {token_split.VERSION}"
METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "cost_per_million_tokens": (MONEY, f"{_SPLIT}: cost of the services whose tokens are told / their tokens x 1,000,000"),
    "cost_per_job": (MONEY, "cost of the jobs that began and ended in the window / their number"),
    "cost_per_succeeded_job": (MONEY, "cost of the same jobs, failed ones too / the number that succeeded"),
    "cost_per_million_samples": (MONEY, "cost of the workloads that say how many samples per second they do / samples x 1,000,000"),
}  # fmt: skip
UNIT_COLUMNS: Final = (
    Column("unit"),
    Column("subject"),
    Column("tenant"),
    Column("currency"),
    Column("quantity", "1"),
    Column("cost", MONEY),
    Column("cost_per_unit", MONEY),
    Column("charge", MONEY),
    Column("charge_per_unit", MONEY),
    Column("outcome"),
    Column("basis"),
    Column("cluster"),
)
CALLER_COLUMNS: Final = (
    Column("service"),
    Column("caller"),
    Column("currency"),
    Column("prompt_tokens", "1"),
    Column("cached_tokens", "1"),
    Column("completion_tokens", "1"),
    Column("share_of_tokens", "1"),
    Column("cost", MONEY),
    Column("charge", MONEY),
    Column("cluster"),
)

_Workload = tuple[str, str, str, str]
"""Cluster, namespace, kind, name."""


@dataclass(frozen=True, slots=True)
class UnitCostsPart:
    """What Q9 says of units. ``left_out``: rows that are not listed, by table."""

    figures: Sequence[Figure]
    tables: Sequence[Table]
    left_out: Mapping[str, int]


@dataclass(slots=True)
class _Paid:
    """What a workload cost and was asked for in one currency; None = nothing of that side has a price in it."""

    tenant: str | None
    cost_micro: int | None = None
    charge_micro: int | None = None

    def add(self, cost_micro: int | None, charge_micro: int | None) -> None:
        """More of it; what has no price adds nothing."""
        if cost_micro is not None:
            self.cost_micro = (self.cost_micro or 0) + cost_micro
        if charge_micro is not None:
            self.charge_micro = (self.charge_micro or 0) + charge_micro


@dataclass(frozen=True, slots=True)
class _Unit:
    """One row: ``quantity`` of a unit, and the money of it."""

    unit: str
    subject: str
    cluster: str
    currency: str
    paid: _Paid
    quantity: Fraction | Unknown
    per: int
    basis: str
    outcome: str | None = None

    def row(self) -> Sequence[Value]:
        """As ``UNIT_COLUMNS``."""
        return (
            self.unit, self.subject, self.paid.tenant, self.currency, self.quantity, _told(self.paid.cost_micro), self._each(self.paid.cost_micro),
            _told(self.paid.charge_micro), self._each(self.paid.charge_micro), self.outcome, self.basis, self.cluster,
        )  # fmt: skip

    def _each(self, micro: int | None) -> Value:
        if micro is None:
            return None
        if isinstance(self.quantity, Unknown):
            return self.quantity
        return money(micro) * self.per / self.quantity if self.quantity > 0 else Unknown(_("nothing was done"))


def _told(micro: int | None) -> Value:
    return None if micro is None else money(micro)


def _divided(whole: int | None, weights: Sequence[int]) -> Sequence[int | None]:
    return [None] * len(weights) if whole is None else divided(whole, weights)


def unit_costs_part(
    reading: Reading, lines: Sequence[CostLine], window: Window, weights: TokenWeights
) -> UnitCostsPart:
    """Figures of ``METHODS``, tables ``unit_costs`` (dearest first) and ``callers`` (each service's cost to its callers, which sums to it).
    ``weights``: of tokens."""
    paid = _paid(lines)
    bound = {"from_us": window.start, "to_us": window.end}
    services = _services(reading.run("service_tokens", **bound))
    by_service = _by_service(paid)
    tokens, callers = _token_units(by_service, services, weights)
    tokens += _engine_units(by_service, services, reading.run("engine_tokens", **bound), weights)
    jobs = _job_units(paid, reading.run("jobs_told"), window)
    samples = _sample_units(paid, reading.run("said_rates", **bound))
    units = sorted([*tokens, *jobs, *samples], key=lambda each: (-(each.paid.cost_micro or 0), each.unit, each.subject))
    whole = [each for each in tokens if each.unit == "million_tokens"]
    succeeded = [each for each in jobs if each.outcome in ("succeeded", "succeeded_with_failed_pods")]
    values: dict[str, Value] = {
        "cost_per_million_tokens": _mean(whole, MILLION, _("no source tells the tokens of a service that cost anything here")),
        "cost_per_job": _mean(jobs, 1, _("of no job is it known that it began and ended in the window")),
        "cost_per_succeeded_job": _mean(jobs, 1, _("no job is known to have succeeded in the window"), len(succeeded)),
        "cost_per_million_samples": _mean(
            samples, MILLION, _("no workload says by annotation how many samples per second it does (setting rate_annotations)")
        ),
    }  # fmt: skip
    counted = {"cost_per_million_tokens": whole, "cost_per_million_samples": samples}
    figures = [
        Figure(name, values[name], *METHODS[name], _coverage_of(values[name], counted.get(name, jobs)))
        for name in METHODS
    ]
    tables = [
        Table("unit_costs", UNIT_COLUMNS, [each.row() for each in units[:LISTED_MAX]]),
        Table("callers", CALLER_COLUMNS, callers[:LISTED_MAX]),
    ]
    left = {"unit_costs": max(0, len(units) - LISTED_MAX), "callers": max(0, len(callers) - LISTED_MAX)}
    return UnitCostsPart(figures, tables, left)


def _coverage_of(value: Value, units: Sequence[_Unit]) -> float | Unknown:
    """Of what the units cost, how much is theirs of which it is known how much was done."""
    if isinstance(value, Unknown):
        return value
    whole = sum(each.paid.cost_micro or 0 for each in units)
    told = sum(each.paid.cost_micro or 0 for each in units if isinstance(each.quantity, Fraction))
    return told / whole if whole > 0 else 1.0


def _paid(lines: Iterable[CostLine]) -> Mapping[_Workload, Mapping[str, _Paid]]:
    """What each workload's account ``tenant`` cost and was asked for, by currency; what has no price is in none."""
    found: dict[_Workload, dict[str, _Paid]] = {}
    for line in lines:
        record = line.record
        if line.currency is None or line.account != "tenant" or record.get("workload_name") is None:
            continue
        key = (record["cluster"], record["namespace"], record.get("workload_kind") or "", record["workload_name"])
        paid = found.setdefault(key, {}).setdefault(line.currency, _Paid(record.get("tenant")))
        paid.add(
            line.cost_micro if line.priced_us else None,
            line.charge_micro if line.charged_us > line.charge_unpriced_us else None,
        )
    return found


def _services(rows: Iterable[Record]) -> Mapping[tuple[str, str], list[Record]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        found.setdefault((row["cluster"], row["service"]), []).append(row)
    return found


_Services = Mapping[tuple[str, str], Mapping[str, _Paid]]
"""(cluster, service) -> currency -> what it cost."""


def _by_service(paid: Mapping[_Workload, Mapping[str, _Paid]]) -> _Services:
    of_service: dict[tuple[str, str], dict[str, _Paid]] = {}
    for (cluster, namespace, _kind, name), currencies in paid.items():
        found = of_service.setdefault((cluster, f"{namespace}/{name}"), {})
        for currency, each in currencies.items():
            whole = found.setdefault(currency, _Paid(each.tenant))
            whole.add(each.cost_micro, each.charge_micro)
    return of_service


def _engine_units(
    of_service: _Services,
    told: Mapping[tuple[str, str], Sequence[Record]],
    rows: Iterable[Record],
    weights: TokenWeights,
) -> list[_Unit]:
    """Services of which no gateway tells the tokens (``told``), by the counters of their engines, where these were seen for ``COUNTED_MIN`` of the
    time in which the pods held anything."""
    units: list[_Unit] = []
    for (cluster, service), pods in sorted(_services(rows).items()):
        if (cluster, service) in told or all(row["prompt_us"] is None and row["completion_us"] is None for row in pods):
            continue
        counted = sum(min(int(row["prompt_us"] or 0), int(row["completion_us"] or 0)) for row in pods)
        held = sum(int(row["held_us"]) for row in pods)
        for currency, whole in sorted(of_service.get((cluster, service), {}).items()):
            named = (cluster, service, currency)
            if counted < COUNTED_MIN * held:
                seen = f"{counted / held:.1%}" if held > 0 else "0 %"
                why = Unknown(_("the engines' counters of tokens were seen for {ratio} of the time").format(ratio=seen))
                units.append(_Unit("million_tokens", service, cluster, currency, whole, why, MILLION, "engine"))
                continue
            tokens = {
                name: sum(int(row[name] or 0) for row in pods)  # None: not seen, of pods within what may be missing
                for name in ("prompt_tokens", "completion_tokens")
            }
            summed = [{"tenant": None, "cached_tokens": None, **tokens}]
            weighed = weights_by_caller(_uses(summed), weights)
            if not isinstance(weighed, Unknown):
                basis = "engine" if counted == held else f"engine {counted / held:.2%}"
                units += _of_service(named, whole, summed, weighed, basis)
    return units


def _token_units(
    of_service: _Services,
    services: Mapping[tuple[str, str], Sequence[Record]],
    weights: TokenWeights,
) -> tuple[list[_Unit], list[Sequence[Value]]]:
    units: list[_Unit] = []
    callers: list[Sequence[Value]] = []
    for (cluster, service), rows in sorted(services.items()):
        weighed = weights_by_caller(_uses(rows), weights)
        for currency, whole in sorted(of_service.get((cluster, service), {}).items()):
            named = (cluster, service, currency)
            if isinstance(weighed, Unknown):
                units.append(_untold(named, whole, rows))
                callers.append(_unattributed(named, whole, rows))
            else:
                units += _of_service(named, whole, rows, weighed)
                callers += _callers(named, whole, rows, weighed)
    return units, callers


def _uses(rows: Iterable[Record]) -> list[TokenUse]:
    """The rows, each a caller's."""
    return [
        TokenUse(row["tenant"], *(None if row[name] is None else int(row[name]) for name in TOKENS)) for row in rows
    ]


_Named = tuple[str, str, str]
"""Cluster, service, currency."""


def _untold(named: _Named, whole: _Paid, rows: Sequence[Record]) -> _Unit:
    """A service of which a row does not tell its tokens: what it cost is known, and not of how many tokens."""
    cluster, service, currency = named
    count = sum(int(row["untold_count"]) for row in rows)
    why = Unknown(_("{count} rows of the gateway do not tell their tokens").format(count=count))
    return _Unit("million_tokens", service, cluster, currency, whole, why, MILLION, "gateway")


def _of_service(
    named: _Named,
    whole: _Paid,
    rows: Sequence[Record],
    weighed: Mapping[str | None, WeightedTokens],
    basis: str = "gateway",
) -> list[_Unit]:
    """All tokens, and prefill and decode apart: the cost is divided between them by what they weigh."""
    cluster, service, currency = named
    prefill, decode = (sum(getattr(weight, name) for weight in weighed.values()) for name in ("prefill", "decode"))
    prompt, completion = (
        Fraction(sum(int(row[name]) for row in rows)) for name in ("prompt_tokens", "completion_tokens")
    )
    parts: list[tuple[str, Fraction, _Paid]] = [("million_tokens", prompt + completion, whole)]
    if prefill + decode:
        costs, charges = (_divided(amount, (prefill, decode)) for amount in (whole.cost_micro, whole.charge_micro))
        for number, (unit, quantity) in enumerate(
            (("million_prefill_tokens", prompt), ("million_decode_tokens", completion))
        ):
            parts.append((unit, quantity, _Paid(whole.tenant, costs[number], charges[number])))
    return [_Unit(unit, service, cluster, currency, paid, quantity, MILLION, basis) for unit, quantity, paid in parts]


def _callers(
    named: _Named, whole: _Paid, rows: Sequence[Record], weighed: Mapping[str | None, WeightedTokens]
) -> list[Sequence[Value]]:
    """What each caller bears; the rows of a currency sum to the service. Callers who are not named are ``unattributed`` together."""
    cluster, service, currency = named
    weights = [weight.total for weight in weighed.values()]
    if not sum(weights):
        return []
    costs, charges = _divided(whole.cost_micro, weights), _divided(whole.charge_micro, weights)
    found: list[Sequence[Value]] = []
    for name, part, cost, charge in zip(weighed, weights, costs, charges, strict=True):
        tokens = _tokens(row for row in rows if row["tenant"] == name)
        share = float(Fraction(part, sum(weights)))
        caller = UNATTRIBUTED if name is None else name
        found.append((service, caller, currency, *tokens, share, _told(cost), _told(charge), cluster))
    return found


def _unattributed(named: _Named, whole: _Paid, rows: Sequence[Record]) -> Sequence[Value]:
    """All of a service of which a row does not tell its tokens: nobody's share of it can be told."""
    cluster, service, currency = named
    paid = (_told(whole.cost_micro), _told(whole.charge_micro))
    return service, UNATTRIBUTED, currency, *_tokens(rows), 1.0, *paid, cluster


def _tokens(rows: Iterable[Record]) -> Iterator[Value]:
    """As ``TOKENS``, summed; unknown where a row does not tell it."""
    uses = _uses(rows)
    for name in TOKENS:
        counts = [getattr(use, name) for use in uses]
        yield Unknown(_("not told by the gateway")) if None in counts else sum(counts)


def _job_units(paid: Mapping[_Workload, Mapping[str, _Paid]], jobs: Iterable[Record], window: Window) -> list[_Unit]:
    """Jobs that began and ended in the window: a job of which a part lies outside cost more than the window shows."""
    found = []
    for job in jobs:
        key = (job["cluster"], job["namespace"], job["workload_kind"], job["workload_name"])
        created, finished = job["created_us"], job["finished_us"]
        if key not in paid or not job["is_finished"] or created is None or finished is None:
            continue
        if not window.start <= created <= finished < window.end:
            continue
        for currency, each in sorted(paid[key].items()):
            subject = f"{job['namespace']}/{job['workload_kind']}/{job['workload_name']}"
            found.append(
                _Unit("job", subject, job["cluster"], currency, each, Fraction(1), 1, "job", job["outcome"] or None)
            )
    return found


def _sample_units(paid: Mapping[_Workload, Mapping[str, _Paid]], rates: Iterable[Record]) -> list[_Unit]:
    found = []
    for row in rates:
        key = (row["cluster"], row["namespace"], row["workload_kind"] or "", row["workload_name"])
        quantity: Fraction | Unknown = Unknown(_("what its pods say of it is no number"))
        if row["rate_micro"] is not None:
            quantity = Fraction(int(row["rate_micro"]) * int(row["ran_us"]), MILLION * SECOND_US)
        for currency, each in sorted(paid.get(key, {}).items()):
            subject = f"{row['namespace']}/{row['workload_kind'] or '-'}/{row['workload_name']}"
            found.append(
                _Unit("million_samples", subject, row["cluster"], currency, each, quantity, MILLION, "annotation")
            )
    return found


def _mean(units: Sequence[_Unit], per: int, otherwise: str, count: int | None = None) -> Value:
    """Sum of costs by sum of quantities, in one currency."""
    known = [each for each in units if isinstance(each.quantity, Fraction) and each.paid.cost_micro is not None]
    quantity = sum((each.quantity for each in known if isinstance(each.quantity, Fraction)), Fraction(0))
    if count is not None:
        quantity = Fraction(count)
    if not known or quantity <= 0:
        unknown = next((each.quantity for each in units if isinstance(each.quantity, Unknown)), None)
        return Unknown(otherwise) if unknown is None else unknown
    currencies = sorted({each.currency for each in known})
    if len(currencies) > 1:
        return Unknown(
            _("in {currencies}, which are not added: see the table `costs`").format(currencies=", ".join(currencies))
        )
    return money(sum(each.paid.cost_micro or 0 for each in known)) * per / quantity
