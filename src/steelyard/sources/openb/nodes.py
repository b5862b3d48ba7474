"""The node list of an openb trace: how many cards of which model each node has. It is the trace's declared capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.finding import Finding
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.openb.cells import SOURCE, cpu_milli, whole
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.csv_table import CsvRow, CsvTable, malformed

NODE_COLUMNS: Final = ("sn", "gpu", "model")
_CARDS_MAX: Final = 100_000
_NAME_MAX: Final = 253


def read_openb_nodes(lines: Iterable[str] | str, ctx: ReadContext) -> Iterator[Fact]:
    """A node and, where it has cards, an inventory basis ``declared`` per row, good from the trace's t = 0 on.

    A node with 0 cards is declared to have none and gets no basis row. Refused rows are findings; a file without the columns
    of ``NODE_COLUMNS`` yields one finding and nothing else. Check: ``awk -F, '{c += $4} END {print c}'`` gives the cards.
    """
    table = CsvTable(lines, ctx, SOURCE)
    missing = [column for column in NODE_COLUMNS if column not in table.columns]
    if missing:
        yield ctx.finding(
            SOURCE,
            "trace_columns_missing",
            f"file {ctx.file}",
            f"expected the columns {', '.join(NODE_COLUMNS)}; missing: {', '.join(missing)}; nothing was taken from it",
            severity="error",
            evidence={"missing": missing, "found": list(table.columns)[:50]},
        )
        return
    names: set[str] = set()
    for row in table:
        if isinstance(row, Finding):
            yield row
            continue
        try:
            yield from _facts(row, names, ctx)
            if row.get("cpu_milli") and cpu_milli(row) is None:
                text = f"cpu_milli {row.get('cpu_milli')[:40]!r} is no amount of CPU: that of the node is not known"
                yield ctx.finding(SOURCE, "trace_cpu_unreadable", f"node {row.get('sn')}", text, line=row.line)
        except SourceMalformed as error:
            yield malformed(ctx, SOURCE, error)


def _facts(row: CsvRow, names: set[str], ctx: ReadContext) -> Iterator[Fact]:
    name = row.get("sn")
    if not name or len(name) > _NAME_MAX:
        raise SourceMalformed(f"sn: expected 1 to {_NAME_MAX} characters, found {name[:40]!r}", row.line, row.text)
    if name in names:
        raise SourceMalformed(f"sn: {name!r} stands twice in this file; the first row counts", row.line, row.text)
    cards = whole(row, "gpu", _CARDS_MAX)
    names.add(name)
    model = row.get("model") or None
    epoch = ctx.settings.trace_epoch
    yield Node(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=name,
        occurred_at=epoch,
        observed_at=ctx.observed_at,
        node=name,
        gpu_product=model,
        labels=msgspec.json.encode({"model": model} if model else {}).decode(),
        cpu_milli=cpu_milli(row),
    )
    if cards:
        yield InventoryBasis(
            cluster=ctx.cluster,
            source=SOURCE,
            natural_key=f"node/{name}",
            occurred_at=epoch,
            observed_at=ctx.observed_at,
            basis="declared",
            node=name,
            cards_count=cards,
            model=model,
            valid_from_at=epoch,
        )
