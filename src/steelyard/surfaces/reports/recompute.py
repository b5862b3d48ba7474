#!/usr/bin/env python3
"""Recomputes the totals of a statement from statement.parquet alone and lays them beside manifest.json.

It is shipped with every statement and needs nothing of Steelyard: Python 3.9 or later with pyarrow.

    python recompute.py [FOLDER]        # where it lies itself, unless a folder is named

Exit: 0 all figures agree, 1 some do not, 2 a file is missing or cannot be read. Amounts are added as integers of millionths.
"""

from __future__ import annotations

import hashlib
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

BATCH_ROWS = 65_536
COLUMNS = ["kind", "list_amount", "discount", "amount", "quantity_gpu_us", "currency", "statement"]


def micro(value: Decimal | None) -> int | None:
    """A decimal with at most six places as whole millionths; None stays None."""
    if value is None:
        return None
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -6:
        raise ValueError(f"{value} has more than six places")
    whole = int("".join(map(str, digits))) * int(10 ** (exponent + 6))
    return -whole if sign else whole


def recomputed(path: Path) -> tuple[dict[str, Any], int, set[tuple[Any, Any]]]:
    """The totals of the lines, and whether each line keeps list - discount = amount."""
    import pyarrow.parquet as pq

    sums = {"amount_micro": 0, "list_micro": 0, "discount_micro": 0, "quantity_gpu_us": 0}
    sums.update(lines_count=0, unpriced_count=0)
    by_kind: dict[str, int] = {}
    said: set[tuple[Any, Any]] = set()
    broken = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS, columns=COLUMNS):
        for row in batch.to_pylist():
            listed, discount, amount = (micro(row[name]) for name in ("list_amount", "discount", "amount"))
            sums["lines_count"] += 1
            sums["unpriced_count"] += amount is None
            sums["amount_micro"] += amount or 0
            sums["list_micro"] += listed or 0
            sums["discount_micro"] += discount or 0
            sums["quantity_gpu_us"] += row["quantity_gpu_us"]
            if amount is not None:
                by_kind[row["kind"]] = by_kind.get(row["kind"], 0) + amount
            if listed is not None and discount is not None and listed - discount != amount:
                broken += 1
            said.add((row["statement"], row["currency"]))
    return {**sums, "amount_micro_by_kind": dict(sorted(by_kind.items()))}, broken, said


def differences(folder: Path) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """What does not agree, one line each."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found, broken, said = recomputed(folder / "statement.parquet")
    lines = []
    for name, value in manifest["totals"].items():
        if found.get(name) != value:
            lines.append(f"{name}: the manifest says {value}, the lines come to {found.get(name)}")
    if broken:
        lines.append(f"{broken} lines do not keep list_amount - discount = amount")
    if said - {(manifest["statement"], manifest["currency"])}:
        lines.append(f"lines of another statement or currency: {sorted(map(str, said))}")
    for name, file in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            lines.append(f"{name}: is not there")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            lines.append(f"{name}: its SHA-256 is not the manifest's")
    return lines, found, manifest


def main(arguments: list[str]) -> int:
    """Compare and say so."""
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    try:
        lines, found, manifest = differences(folder)
    except (OSError, ValueError, KeyError, ImportError) as error:
        print(f"cannot recompute {folder}: {error!r}", file=sys.stderr)
        return 2
    for line in lines:
        print(line)
    whole, part = divmod(abs(found["amount_micro"]), 10**6)
    sign = "-" if found["amount_micro"] < 0 else ""
    total = f"{sign}{whole}.{part:06d} {manifest['currency']}"
    verdict = "DIFFERS" if lines else "agrees"
    print(f"statement {manifest['statement'] or 'draft'}: {found['lines_count']} lines, {total}: {verdict}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
