"""Statements to test documents with: small ones with every kind of line, and as many lines as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from steelyard.primitives.instant import DAY_US, HOUR_US, Window, parse_instant
from steelyard.settlement.statement import Statement, StatementLine

ZONE = "Asia/Shanghai"
WINDOW = Window(parse_instant("2026-10-31T16:00:00Z"), parse_instant("2026-11-30T16:00:00Z"))
CLOSED_AT = parse_instant("2026-12-03T02:30:00Z")
CARD = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
OTHER_CARD = "GPU-bbbbbbbb-0000-4000-8000-000000000002"


def line(line_id: str, **changes: Any) -> StatementLine:
    """A priced usage line: a quarter of an H100 for 10 hours at 24 a GPU-hour, 10 % off, unless ``changes`` says otherwise."""
    whole: dict[str, Any] = {
        "line_id": line_id,
        "kind": "usage",
        "description": "infer-1 on NVIDIA H100 80GB HBM3",
        "cluster": "default",
        "node": "node-1",
        "device_uuid": CARD,
        "model": "NVIDIA H100 80GB HBM3",
        "unit_kind": "vgpu",
        "unit_id": f"{CARD}/vgpu",
        "namespace": "search",
        "pod": "infer-1",
        "pod_uid": "11111111-0000-4000-8000-000000000001",
        "workload": "infer",
        "queue": "online",
        "department": "Products",
        "team": "Search",
        "project": "Ranking",
        "cost_centre": "4711",
        "commitment": None,
        "started_at": WINDOW.start + DAY_US,
        "ended_at": WINDOW.start + DAY_US + 10 * HOUR_US,
        "quantity_gpu_us": 10 * HOUR_US // 4,
        "normalised_gpu_us": 10 * HOUR_US // 2,
        "used_gpu_us": HOUR_US,
        "used_upper_gpu_us": 2 * HOUR_US,
        "coverage_ppm": 990_000,
        "estimated": False,
        "price_id": "std@3/h100",
        "unit_price_micro": 24_000_000,
        "per": "hour",
        "list_micro": 60_000_000,
        "discount_micro": 6_000_000,
        "amount_micro": 54_000_000,
        "cost_micro": 41_250_001,
        "used_micro": 24_000_000,
        "used_upper_micro": 48_000_000,
    }
    return StatementLine(**{**whole, **changes})


def unpriced(line_id: str, **changes: Any) -> StatementLine:
    """A line whose model no price names."""
    nothing = dict.fromkeys(
        ("price_id", "unit_price_micro", "per", "list_micro", "discount_micro", "amount_micro", "used_micro",
         "used_upper_micro")
    )  # fmt: skip
    return line(
        line_id, **{**nothing, "model": "Unheard-of G7", "unpriced_reason": "no price names this model", **changes}
    )


def plain(line_id: str, kind: str, description: str, amount_micro: int, **changes: Any) -> StatementLine:
    """A line that is no use of a card: tax, a credit, a correction."""
    nothing = dict.fromkeys(
        ("node", "device_uuid", "model", "unit_kind", "unit_id", "namespace", "pod", "pod_uid", "workload", "queue",
         "normalised_gpu_us", "used_gpu_us", "used_upper_gpu_us", "coverage_ppm", "price_id", "unit_price_micro",
         "per", "cost_micro", "used_micro", "used_upper_micro")
    )  # fmt: skip
    whole = {
        "started_at": WINDOW.start,
        "ended_at": WINDOW.end,
        "quantity_gpu_us": 0,
        "list_micro": amount_micro,
        "discount_micro": 0,
        "amount_micro": amount_micro,
    }
    return line(line_id, **{**nothing, "kind": kind, "description": description, **whole, **changes})


def every_kind() -> Sequence[StatementLine]:
    """One line of every kind, two pods on one card, one estimated, one unpriced, one whose quotient does not end."""
    return (
        line("0001"),
        line("0002", pod="infer-2", pod_uid="11111111-0000-4000-8000-000000000002", quantity_gpu_us=HOUR_US // 3,
             list_micro=8_000_000, discount_micro=800_000, amount_micro=7_200_000, description="infer-2 on a third",
             coverage_ppm=700_000, estimated=True),
        line("0003", device_uuid=OTHER_CARD, node="node-2", unit_kind="gpu", unit_id=OTHER_CARD, pod="train-0",
             pod_uid="11111111-0000-4000-8000-000000000003", workload="train", namespace="ranking", team="Ads",
             quantity_gpu_us=7 * HOUR_US, price_id="std@3/odd", unit_price_micro=6_999_999, list_micro=48_999_991,
             discount_micro=0, amount_micro=48_999_991, used_gpu_us=None, used_upper_gpu_us=None, coverage_ppm=None,
             used_micro=None, used_upper_micro=None, description="train-0", started_at=WINDOW.start + 2 * DAY_US,
             ended_at=WINDOW.start + 2 * DAY_US + 7 * HOUR_US),
        unpriced("0004", pod="probe-0", pod_uid="11111111-0000-4000-8000-000000000004", description="probe-0"),
        line("0005", kind="reserved_unused", pod=None, pod_uid=None, workload=None, namespace=None, unit_id=None,
             description="reserved, not used", commitment="reserved", device_uuid=None, node=None, used_gpu_us=None,
             used_upper_gpu_us=None, coverage_ppm=None, used_micro=None, used_upper_micro=None, discount_micro=0,
             amount_micro=60_000_000),
        plain("0006", "credit", "credit for time the card was down", -1_500_000, reason="held_down"),
        plain("0007", "correction", "late facts of 2026-10", -2_250_000, reference="S-2026-10-0007/0003",
              reason="late_facts"),
        plain("0008", "tax", "VAT 6 %", 9_986_999),
    )  # fmt: skip


def statement(lines: Sequence[StatementLine] | None = None, **changes: Any) -> Statement:
    """A closed statement of the tenant ``search`` in CNY."""
    whole: dict[str, Any] = {
        "number": "S-2026-11-0001",
        "period": "2026-11",
        "tenant": "search",
        "window": WINDOW,
        "time_zone": ZONE,
        "state": "closed",
        "closed_at": CLOSED_AT,
        "as_of": CLOSED_AT,
        "currency": "CNY",
        "lines": every_kind() if lines is None else lines,
        "daily": tuple((WINDOW.start + day * DAY_US, (day % 7) * 3_000_000) for day in range(30)),
        "previous_micro": 150_000_000,
        "versions": {"money": "1", "price book std": "3"},
        "notes": ("one card was not priced",),
    }
    return Statement(**{**whole, **changes})


def many(count: int) -> Statement:
    """A statement of ``count`` usage lines."""
    first = line("000000")
    return statement(
        [
            replace(first, line_id=f"{number:06d}", pod=f"pod-{number}", amount_micro=54_000_000 + number,
                    list_micro=60_000_000 + number)
            for number in range(count)
        ]
    )  # fmt: skip
