"""A statement: what one tenant is asked for in one period, line by line, beside what it cost. The one shape that every document is made from.

Built by ``settlement`` from a snapshot (closed) or from the ledgers (draft); read by ``surfaces/reports`` and by FOCUS rows. Amounts are millionths
of the statement's currency, quantities GPU-time in microseconds. The trick to know: a total is the plain sum of the lines' integers, never of
what a document shows rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from steelyard.primitives.instant import Instant, Window

Kind = Literal["usage", "credit", "correction", "tax", "reserved_unused", "burst", "service_share"]
DISPUTED: Final = "dispute"
DISPUTED_TAX: Final = "dispute_of_tax"
"""Reasons of corrections that a dispute brought: of a line, and of a line of tax, on which no tax is laid again."""


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One line. ``line_id`` is unique in its statement and stays the same over every document and rerun.

    started_at, ended_at: the stretch within the period. quantity_gpu_us: declared share x time; normalised_gpu_us: times the model's weight.
    unit_price_micro and per: as the price book states it; None = unpriced (then ``unpriced_reason``), and all amounts None.
    list_micro - discount_micro = amount_micro. cost_micro: the tenant's part in the cost book, None = unpriced there. used_micro,
    used_upper_micro: effective cost, between what was seen used and that plus what was not seen; None = no path. coverage_ppm: seen / granted
    time, None = no telemetry. estimated: coverage below 95 %. reference: the statement and line that a correction is of, with its ``reason``.
    """

    line_id: str
    kind: Kind
    description: str
    cluster: str
    node: str | None
    device_uuid: str | None
    model: str | None
    unit_kind: str | None
    unit_id: str | None
    namespace: str | None
    pod: str | None
    pod_uid: str | None
    workload: str | None
    queue: str | None
    department: str | None
    team: str | None
    project: str | None
    cost_centre: str | None
    commitment: str | None
    started_at: Instant
    ended_at: Instant
    quantity_gpu_us: int
    normalised_gpu_us: int | None
    used_gpu_us: int | None
    used_upper_gpu_us: int | None
    coverage_ppm: int | None
    estimated: bool
    price_id: str | None
    unit_price_micro: int | None
    per: str | None
    list_micro: int | None
    discount_micro: int | None
    amount_micro: int | None
    cost_micro: int | None
    used_micro: int | None
    used_upper_micro: int | None
    unpriced_reason: str | None = None
    provisional: bool = False
    reference: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """All that a document of one tenant and period shows.

    number: None for a draft. state: ``draft``, ``closed`` or ``shadow``. closed_at: the instant that documents carry, None for a draft.
    tax_micro: its own row, in ``lines`` too. daily: (start of day in the statement's zone, charge in micro-units) for the chart. previous_micro: the
    total of the period before, None = there was none. versions: of definitions and price books by name.
    """

    number: str | None
    period: str
    tenant: str
    window: Window
    time_zone: str
    state: Literal["draft", "closed", "shadow"]
    closed_at: Instant | None
    as_of: Instant
    currency: str
    lines: Sequence[StatementLine]
    daily: Sequence[tuple[Instant, int]] = ()
    previous_micro: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def amount_micro(self) -> int:
        """What is asked for: the sum of the priced lines, tax and corrections in it."""
        return sum(line.amount_micro for line in self.lines if line.amount_micro is not None)

    @property
    def unpriced_count(self) -> int:
        """Lines without a price: a statement with any is not whole."""
        return sum(line.amount_micro is None for line in self.lines)
