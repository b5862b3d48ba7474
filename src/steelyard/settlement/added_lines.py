"""Lines that no row of a ledger makes: credits for time that was down, shares of shared model services, tax.

``assembly`` adds them in this order, each over what stands before it. The trick to know: a service's whole charge leaves its owner in one negative
line and comes back in shares that sum to it, so what all tenants together are asked for does not move by a millionth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from steelyard.definitions.money import half_up, unit_of_time_us
from steelyard.definitions.token_split import TokenUse, TokenWeights, divided, weights_by_caller
from steelyard.primitives.instant import Window
from steelyard.primitives.unknown import Unknown
from steelyard.settlement.rules import PPM, CreditRule, SettlementRules, TaxRule
from steelyard.settlement.statement import DISPUTED_TAX, Kind, StatementLine
from steelyard.settlement.usage_lines import line_id
from steelyard.store import Store

UNATTRIBUTED: Final = "unattributed"


def plain_line(
    kind: Kind, description: str, window: Window, amount_micro: int, *, identity: Sequence[object], cluster: str = ""
) -> StatementLine:
    """A line that is about no card: an amount over a window."""
    return StatementLine(
        line_id=line_id(kind, *identity), kind=kind, description=description, cluster=cluster, node=None, device_uuid=None, model=None,
        unit_kind=None, unit_id=None, namespace=None, pod=None, pod_uid=None, workload=None, queue=None, department=None, team=None, project=None,
        cost_centre=None, commitment=None, started_at=window.start, ended_at=window.end, quantity_gpu_us=0, normalised_gpu_us=None, used_gpu_us=None,
        used_upper_gpu_us=None, coverage_ppm=None, estimated=False, price_id=None, unit_price_micro=None, per=None, list_micro=amount_micro,
        discount_micro=0, amount_micro=amount_micro, cost_micro=None, used_micro=None, used_upper_micro=None,
    )  # fmt: skip


def credit_lines(
    tenant: str, lines: Sequence[StatementLine], down: Sequence[StatementLine], rules: Sequence[CreditRule]
) -> Iterator[StatementLine]:
    """What the first rule for the tenant gives back, one line for each line of time that was down. ``down``: those of ``lines`` that are."""
    rule = next((each for each in rules if _meets(tenant, each.tenant)), None)
    if rule is None or sum(line.quantity_gpu_us for line in down) < max(1, rule.least_gpu_us):
        return
    for line in down:
        worth = _worth_micro(line)
        amount = None if worth is None else -half_up(worth * rule.rate_ppm, PPM)
        yield replace(
            line,
            line_id=line_id("credit", rule.name, line.line_id),
            kind="credit",
            description=f"{rule.name}: {line.description}",
            list_micro=amount,
            discount_micro=None if amount is None else 0,
            amount_micro=amount,
            cost_micro=None,
            used_micro=None,
            used_upper_micro=None,
            unpriced_reason=line.unpriced_reason
            if amount is not None
            else (line.unpriced_reason or "no unit price for the time that was down"),
            reference=line.line_id,
            reason="held_down",
        )


def _worth_micro(line: StatementLine) -> int | None:
    """What the line's time would be asked for before discounts; None without one unit price."""
    if line.unit_price_micro is None or line.per not in ("hour", "day", "month", "year"):
        return None
    start, end = unit_of_time_us(line.started_at, line.per)  # type: ignore[arg-type]  # checked in the line above
    return half_up(line.unit_price_micro * line.quantity_gpu_us, end - start)


def tax_lines(
    tenant: str, lines: Sequence[StatementLine], rules: Sequence[TaxRule], window: Window
) -> Iterator[StatementLine]:
    """One line for each tax that is due: its rate of the sum of all priced lines that begin while it holds, rounded half up once."""
    for number, rule in enumerate(rules):
        due = lines_taxed(rule, tenant, lines)
        if due:
            amount = half_up(sum(line.amount_micro or 0 for line in due) * rule.rate_ppm, PPM)
            yield plain_line(
                "tax", rule.name_with_rate(), window, amount, identity=(tenant, number, rule.name, rule.rate_ppm)
            )


def lines_taxed(rule: TaxRule, tenant: str, lines: Sequence[StatementLine]) -> list[StatementLine]:
    """The priced lines that a tax is laid on; what is given back of a tax itself is none."""
    return [
        line
        for line in lines
        if line.amount_micro is not None and line.reason != DISPUTED_TAX and rule.holds(tenant, line.started_at)
    ]


@dataclass(frozen=True, slots=True)
class Callers:
    """Who took how much of a service in a window: tenant (None: not named) and weighted tokens. ``untold_count``: rows of the gateway without a count
    that the weights need; where there are any, all of it is one caller's who is not named."""

    weights: Mapping[str | None, int]
    untold_count: int = 0


def callers_of(store: Store, window: Window, weights: TokenWeights) -> Mapping[tuple[str, str], Callers]:
    """(cluster, service) -> its callers within a window."""
    uses: dict[tuple[str, str], list[TokenUse]] = {}
    untold: dict[tuple[str, str], int] = {}
    for cluster, service, tenant, prompt, cached, completion, count in store.rows(
        "SELECT cluster, service, tenant, prompt_tokens, cached_tokens, completion_tokens, untold_count FROM settling_service "
        "WHERE started_at >= make_timestamp($from_us::BIGINT) AND started_at < make_timestamp($to_us::BIGINT) ORDER BY ALL",
        {"from_us": window.start, "to_us": window.end},
    ):
        uses.setdefault((cluster, service), []).append(TokenUse(tenant, prompt, cached, completion))
        untold[cluster, service] = untold.get((cluster, service), 0) + count
    found = {}
    for key, taken in uses.items():
        weighed = weights_by_caller(taken, weights)
        if isinstance(weighed, Unknown):
            found[key] = Callers({None: 1}, max(1, untold[key]))
        else:
            found[key] = Callers({tenant: weight.total for tenant, weight in weighed.items()})
    return found


def service_lines(
    served: Mapping[tuple[str, str], Sequence[tuple[str, StatementLine]]],
    callers: Mapping[tuple[str, str], Callers],
    rules: SettlementRules,
    label: str,
) -> Iterator[tuple[str, str | None, StatementLine]]:
    """(owner, caller, line) of each service's split, in the owner's currency; caller None: the line stands with the owner. ``served``:
    (cluster, service) -> (owner, its lines, all of an owner in one currency).

    The owner's part of what nobody can be named for stands as ``unattributed`` with the owner: all of it where a row of the gateway does not tell
    its tokens. Nothing is split where no caller is known.
    """
    for (cluster, service), owned in sorted(served.items()):
        taken = callers.get((cluster, service), Callers({}))
        if not sum(taken.weights.values()):
            continue
        for owner in dict.fromkeys(tenant for tenant, _line in owned):
            lines = [line for tenant, line in owned if tenant == owner and line.amount_micro is not None]
            if not lines:
                continue
            window = rules.periods.window(label, owner)
            charge = sum(line.amount_micro or 0 for line in lines)
            costs = [line.cost_micro for line in lines if line.cost_micro is not None]
            cost = sum(costs) if costs else None
            weights = list(taken.weights.values())
            shares = divided(charge, weights)
            costs_shared: Sequence[int | None] = [None] * len(weights) if cost is None else divided(cost, weights)
            whole = plain_line(
                "service_share",
                f"{service} -> callers",
                window,
                -charge,
                identity=(label, service, owner, "whole"),
                cluster=cluster,
            )
            yield owner, None, replace(whole, cost_micro=None if cost is None else -cost, workload=service)
            for tenant, share, cost_share in zip(taken.weights, shares, costs_shared, strict=True):
                line = plain_line(
                    "service_share",
                    service if tenant is not None else _unattributed(service, taken.untold_count),
                    window,
                    share,
                    identity=(label, service, owner, tenant),
                    cluster=cluster,
                )
                reason = None if tenant is not None else UNATTRIBUTED
                yield owner, tenant, replace(line, cost_micro=cost_share, workload=service, reason=reason)


def _unattributed(service: str, untold_count: int) -> str:
    return f"{service} ({UNATTRIBUTED}{f': {untold_count} rows do not tell their tokens' if untold_count else ''})"


def _meets(tenant: str, glob: str) -> bool:
    return fnmatchcase(tenant, glob)
