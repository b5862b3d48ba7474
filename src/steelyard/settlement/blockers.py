"""What speaks against closing a period, each with what to do about it.

``close --dry-run`` lists it; ``closing`` refuses while anything is left that was not waived by name. The trick to know: a blocker is judged over the
tables of ``tables``, so it looks at the very rows that would be frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant, format_instant
from steelyard.settlement.corrections import Correction
from steelyard.settlement.exchange import rates_of
from steelyard.settlement.registers import PeriodRow, StatementRow
from steelyard.settlement.rules import PPM, SettlementRules
from steelyard.settlement.tables import filled, model_text
from steelyard.store import Store

SHOWN_MAX: Final = 5
NEVER_WAIVED: Final = frozenset(
    {"period_not_over", "nothing_posted", "ledger_residual", "no_exchange_rate", "window_moved"}
)
"""A period that is not over, whose books do not close, whose amounts nobody can tell, or that takes the hours of another: no matter of opinion."""
WAIVABLE: Final = (
    "corrections_unpriced", "coverage_low", "late_sources", "open_incidents", "previous_open", "provisional_prices", "tokens_untold", "unpriced",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason. ``code``: what ``--accept`` names. ``count``: of what there is, None where that says nothing. ``todo``: what to do about it."""

    code: str
    count: int | None
    message: str
    todo: str

    @property
    def can_be_waived(self) -> bool:
        """Whether somebody may let it pass, with a reason."""
        return self.code not in NEVER_WAIVED


@dataclass(frozen=True, slots=True)
class Scene:
    """What a period is judged in: label, rules, the instant as of which the ledgers speak, what is closed already, and which of its corrections
    cannot be told. ``corrections``: those that can. ``statements``: what was closed before."""

    label: str
    rules: SettlementRules
    as_of: Instant | None
    closed: Sequence[PeriodRow]
    shadow: bool = False
    untold: Sequence[Correction] = ()
    corrections: Sequence[Correction] = ()
    statements: Sequence[StatementRow] = ()


def blockers(store: Store, scene: Scene) -> list[Blocker]:
    """All that speaks against it, over the laid-out tables, in a stable order; empty = it can be closed."""
    checks: tuple[Callable[[Store, Scene], Iterator[Blocker]], ...] = (
        _not_over, _nothing, _residual, _coverage, _unpriced, _rates, _corrections, _provisional, _untold, _incidents, _late, _order, _windows,
    )  # fmt: skip
    return [found for check in checks for found in check(store, scene)]


def _not_over(store: Store, scene: Scene) -> Iterator[Blocker]:
    end = scene.rules.periods.span(scene.label).end
    if scene.as_of is None or scene.as_of < end:
        known = _("nothing") if scene.as_of is None else format_instant(scene.as_of)
        yield Blocker(
            "period_not_over",
            None,
            _("the period ends at {end}; the ledgers know up to {known}").format(end=format_instant(end), known=known),
            _("wait for its end, and import or collect what was seen until then"),
        )


def _nothing(store: Store, scene: Scene) -> Iterator[Blocker]:
    if not store.rows("SELECT 1 FROM settling_cost LIMIT 1") and not store.rows(
        "SELECT 1 FROM settling_charge LIMIT 1"
    ):
        yield Blocker(
            "nothing_posted",
            0,
            _("neither ledger has a row in this period"),
            _("import a price book with `steelyard prices import` and the estate's facts with `steelyard import`"),
        )


def _residual(store: Store, scene: Scene) -> Iterator[Blocker]:
    if not store.rows("SELECT 1 FROM settling_total LIMIT 1"):
        return  # told by ``_nothing``
    window = scene.rules.periods.window(scene.label)
    left = int(store.rows(filled("residual_of_period", {"from_us": window.start, "to_us": window.end}))[0][0])
    if left:
        yield Blocker(
            "ledger_residual",
            left,
            _("the accounts of the cost ledger miss the supply by {count} GPU-microseconds").format(count=left),
            _("post again; where it stays, the books are broken: keep the directory and report it"),
        )


def _coverage(store: Store, scene: Scene) -> Iterator[Blocker]:
    total, unseen = store.rows(model_text("coverage_of_period"))[0]
    seen_ppm = None if not total else (total - unseen) * PPM // total
    if seen_ppm is not None and seen_ppm < scene.rules.coverage_min_ppm:
        yield Blocker(
            "coverage_low",
            seen_ppm,
            _("{seen} of the supply was seen; {least} is asked for").format(
                seen=f"{seen_ppm / 10_000:.2f} %", least=f"{scene.rules.coverage_min_ppm / 10_000:.2f} %"
            ),
            _("take in what is missing: `steelyard doctor` names the sources, `steelyard backfill` fetches the past"),
        )


def _unpriced(store: Store, scene: Scene) -> Iterator[Blocker]:
    found = store.rows(model_text("unpriced"))
    if found:
        told = [f"{side}: {reason} ({amount / HOUR_US:,.1f} GPU-h)" for side, reason, _rows, amount in found]
        yield Blocker(
            "unpriced",
            sum(row[2] for row in found),
            _("{count} rows have no price: {examples}").format(
                count=sum(row[2] for row in found), examples=_short(told)
            ),
            _("add the missing lines to the price book and import it: `steelyard prices import`"),
        )


def _rates(store: Store, scene: Scene) -> Iterator[Blocker]:
    rates, rules = rates_of(store), scene.rules
    charged: dict[str, set[str]] = {}
    for tenant, currency in store.rows(model_text("charged_currency")):
        charged.setdefault(tenant, set()).add(currency)
    asked = {
        (base, rules.currency_of(tenant) or quote, rules.periods.window(scene.label, tenant).end - 1)
        for tenant, own in charged.items()
        for base in own
        for quote in own
    }
    asked |= {
        (each.currency, rules.currency_of(each.tenant) or each.currency, each.ended_at - 1)
        for each in scene.corrections
        if each.ledger == "charge" and each.tenant is not None and each.currency is not None
    }
    missing = sorted({(base, quote) for base, quote, at in asked if rates.at(base, quote, at) is None})
    if missing:
        yield Blocker(
            "no_exchange_rate",
            len(missing),
            _("no exchange rate leads from what prices are in to what statements are in: {examples}").format(
                examples=_short([f"{base}/{quote}" for base, quote in missing])
            ),
            _("import rates that hold at the period's end with `steelyard rates import`, or set another currency"),
        )


def _windows(store: Store, scene: Scene) -> Iterator[Blocker]:
    """Hours that a closed statement has already, or that none would ever have: a tenant's time zone changed since."""
    periods, before = scene.rules.periods, scene.rules.periods.calendar.previous_label(scene.label)
    told = []
    for each in scene.statements:
        if scene.shadow or each.shadow or each.label == scene.label:
            continue
        window = periods.window(scene.label, each.tenant)
        overlaps = window.start < each.window.end and each.window.start < window.end
        if overlaps or (each.label == before and each.window.end != window.start):
            told.append(
                _("{tenant}: {number} ended at {end}, this one would begin at {start}").format(
                    tenant=each.tenant,
                    number=each.number,
                    end=format_instant(each.window.end),
                    start=format_instant(window.start),
                )
            )
    if told:
        yield Blocker(
            "window_moved",
            len(told),
            _("hours would be asked for twice or never: {examples}").format(examples=_short(told)),
            _("give the tenant the time zone and calendar back that its closed statements have"),
        )


def _corrections(store: Store, scene: Scene) -> Iterator[Blocker]:
    if scene.untold:
        told = dict.fromkeys(f"{each.label} {each.ledger}: {each.name}" for each in scene.untold)
        yield Blocker(
            "corrections_unpriced",
            len(told),
            _(
                "{count} differences from closed periods have no price now, so nobody can tell by how much: {examples}"
            ).format(count=len(told), examples=_short([*told])),
            _("import a price book that prices them, or accept that they are corrected later"),
        )


def _provisional(store: Store, scene: Scene) -> Iterator[Blocker]:
    found = store.rows(model_text("provisional"))
    if found:
        count = sum(row[1] for row in found)
        yield Blocker(
            "provisional_prices",
            count,
            _("{count} rows are priced provisionally: {examples}").format(
                count=count, examples=_short([row[0] for row in found])
            ),
            _("import the final prices, or accept that they are corrected in the next period"),
        )


def _untold(store: Store, scene: Scene) -> Iterator[Blocker]:
    found = store.rows(model_text("untold"))
    if found:
        count = sum(row[1] for row in found)
        yield Blocker(
            "tokens_untold",
            count,
            _(
                "{count} rows of gateways do not tell their tokens, so their services are split to nobody: {examples}"
            ).format(count=count, examples=_short([row[0] for row in found])),
            _(
                "import the gateway's log with prompt and completion tokens, or accept that the owners of the services pay"
            ),
        )


def _incidents(store: Store, scene: Scene) -> Iterator[Blocker]:
    span = scene.rules.periods.span(scene.label)
    found = store.rows(filled("errors_open", {"from_us": span.start, "to_us": span.end}))
    if found:
        yield Blocker(
            "open_incidents",
            len(found),
            _("{count} findings of the severity error: {examples}").format(
                count=len(found), examples=_short([f"{code} {subject}" for code, subject, _message in found])
            ),
            _("settle them, or accept them with the reason why they move no amount"),
        )


def _late(store: Store, scene: Scene) -> Iterator[Blocker]:
    span = scene.rules.periods.span(scene.label)
    bounds = {"from_us": span.start, "to_us": span.end, "late_us": span.end - scene.rules.late_after_us}
    found = store.rows(filled("late_sources", bounds))
    if found:
        told = [
            _("{source} of {cluster}, last heard {at}").format(source=s, cluster=c, at=format_instant(at))
            for s, c, at in found
        ]
        yield Blocker(
            "late_sources",
            len(found),
            _("sources that told nothing at the end of the period: {examples}").format(examples=_short(told)),
            _("collect or import what they have to tell, or accept that they are gone"),
        )


def _order(store: Store, scene: Scene) -> Iterator[Blocker]:
    calendar = scene.rules.periods.calendar
    before = calendar.previous_label(scene.label)
    closed = [row.label for row in scene.closed if row.state == "closed" and row.shadow == scene.shadow]
    start = scene.rules.periods.window(scene.label).start
    earlier = [row for row in scene.closed if row.label in closed and row.window.start < start]
    if earlier and before not in closed:
        yield Blocker(
            "previous_open",
            None,
            _("the period before, {label}, is open").format(label=before),
            _("close it first, so that each statement follows the one before"),
        )


def _short(told: Sequence[str]) -> str:
    shown = ", ".join(told[:SHOWN_MAX])
    return (
        shown
        if len(told) <= SHOWN_MAX
        else _("{shown} and {count} more").format(shown=shown, count=len(told) - SHOWN_MAX)
    )
