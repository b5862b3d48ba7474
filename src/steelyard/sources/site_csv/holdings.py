"""Cards lent outside Kubernetes (bare metal, a virtual machine, Slurm): who has which card from when to when, and who approved it.

The trick to know: a declared holding counts because a person answers for it. Without an approver it is not accepted: it occupies
its card in the books, in no tenant's total. Without a beginning it cannot be booked at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.grant import Grant
from steelyard.facts.owner import Owner
from steelyard.facts.request import Request
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import Instant, format_instant
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvRow, CsvTable, malformed
from steelyard.sources.site_csv.columns import HOLDINGS_ALIASES, KEY_MAX, SOURCE, card_of, cell, columns_of, moment

NAMESPACE: Final = "outside-kubernetes"


def read_holdings(lines: Iterable[str] | str, ctx: ReadContext) -> Iterator[Fact]:
    """A request, an owner and a ``declared`` grant of one whole card per row; what is missing or unreadable as findings.

    Columns by header: device_uuid or serial, holder (or tenant), kind, from, to, approver, node. ``from`` and ``to`` bound a half-open stretch
    ``[from, to)``: a date is its midnight in UTC, a time needs a zone. An empty ``to`` = no end agreed, which is said.
    """
    table = CsvTable(lines, ctx, SOURCE)
    columns = columns_of(table.columns, HOLDINGS_ALIASES)
    missing = [name for name in ("holder", "from") if name not in columns]
    if "uuid" not in columns and "serial" not in columns:
        missing.append("device_uuid or serial")
    if missing:
        yield ctx.finding(
            SOURCE,
            "holdings_columns_missing",
            f"file {ctx.file}",
            f"expected the columns {', '.join(missing)}; nothing was taken from it",
            severity="error",
            evidence={"missing": missing, "found": list(table.columns)[:50]},
        )
        return
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            yield from _holding(row, columns, ctx)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)


def _holding(row: CsvRow, columns: Mapping[str, str], ctx: ReadContext) -> Iterator[Fact]:
    uuid, serial = card_of(row, columns)
    holder = cell(row, columns, "holder")
    if holder is None or len(holder) > KEY_MAX:
        raise SourceMalformed(f"holder: expected 1 to {KEY_MAX} characters", row.line, row.text)
    start, end = _moment(row, columns, "from"), _moment(row, columns, "to")
    subject = f"holding of {uuid or f'serial {serial}'} by {holder}"
    if start is None:
        yield ctx.finding(
            SOURCE,
            "holding_without_validity",
            subject,
            "it does not say from when: it cannot be booked",
            line=row.line,
            excerpt=row.text,
        )
        return
    if start < 0:
        raise SourceMalformed("from: expected a time since 1970, when there was a card to lend", row.line, row.text)
    if end is not None and end <= start:
        raise SourceMalformed("to is not after from", row.line, row.text)
    yield from _facts(row, columns, (start, end), holder, ctx)
    if end is None:
        yield ctx.finding(
            SOURCE, "holding_open_ended", subject, "it does not say until when", severity="info", line=row.line
        )
    if cell(row, columns, "approver") is None:
        yield ctx.finding(
            SOURCE,
            "holding_without_approver",
            subject,
            "nobody approved it: it occupies its card in no tenant's total",
            line=row.line,
            excerpt=row.text,
        )


def _facts(
    row: CsvRow, columns: Mapping[str, str], validity: tuple[Instant, Instant | None], holder: str, ctx: ReadContext
) -> Iterator[Fact]:
    start, end = validity
    uuid, serial, node = (cell(row, columns, meaning) for meaning in ("uuid", "serial", "node"))
    kind = (cell(row, columns, "kind") or "outside").lower().replace(" ", "_")
    approver = cell(row, columns, "approver")
    tenant = cell(row, columns, "tenant") or holder
    card = uuid or f"serial/{serial}"
    pod_uid = f"declared/{card}/{holder}/{format_instant(start)}"
    yield Request(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=pod_uid,
        occurred_at=start,
        observed_at=ctx.observed_at,
        pod_uid=pod_uid,
        namespace=NAMESPACE,
        pod=f"{kind}/{holder}",
        node=node,
        phase="Running",
        created_at=start,
        scheduled_at=start,
        gpu_count=1,
    )
    yield Owner(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=pod_uid,
        occurred_at=start,
        observed_at=ctx.observed_at,
        pod_uid=pod_uid,
        namespace=NAMESPACE,
        workload_kind=kind,
        workload_name=holder,
        labels=msgspec.json.encode({"kind": kind, "tenant": tenant}, order="sorted").decode(),
    )
    yield Grant(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"{pod_uid}/*/{card}",
        occurred_at=start,
        observed_at=ctx.observed_at,
        pod_uid=pod_uid,
        container="*",
        scheme="declared",
        node=node,
        device_uuid=uuid,
        device_unknown_reason=None if uuid else f"named by serial {serial} only",
        unit_kind="gpu",
        unit_id=None if uuid else f"serial/{serial}",
        valid_from_at=start,
        valid_to_at=end,
        approver=approver,
        claim_state="accepted" if approver else "suspect",
        claim_reason=None if approver else "no approver",
    )


def _moment(row: CsvRow, columns: Mapping[str, str], meaning: str) -> Instant | None:
    text = cell(row, columns, meaning)
    if text is None:
        return None
    try:
        return moment(text)
    except ValueError as error:
        raise SourceMalformed(f"{meaning}: {error}", row.line, row.text) from None
