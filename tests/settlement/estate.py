"""A month of a small estate with prices, posted by the real ledgers: two cards, three pods of two tenants, everything seen throughout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from steelyard.definitions.money import MoneyPolicy
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.exchange_rate import ExchangeRate
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.price import Discount, Price, PriceBook
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import Instant, parse_instant
from steelyard.settlement.assembly import Sheet, statements
from steelyard.settlement.closing import CloseReport, CloseRequest, close
from steelyard.settlement.documents import FORMATS, Folder, Format
from steelyard.settlement.rules import SettlementRules
from steelyard.settlement.statement import Statement
from steelyard.settlement.tables import lay_out_ledgers
from steelyard.store import Store

CARDS = ("GPU-a", "GPU-b")
NODE = "n1"


def at(text: str) -> Instant:
    """``11-05`` or ``11-05T06`` of 2026, in UTC, or a whole stamp."""
    if len(text) > 11:
        return parse_instant(text)
    day, _t, hour = text.partition("T")
    return parse_instant(f"2026-{day}T{hour or '00'}:00:00Z")


def watched(start: str = "11-01", end: str = "12-02") -> SourceStatus:
    """The API server was watched throughout."""
    return SourceStatus(
        source="kube_api", natural_key="pods/cluster", kind="pods", scope="cluster", status="ok", complete=True,
        occurred_at=at(end), observed_at=at(end), observed_from_at=at(start), observed_to_at=at(end),
    )  # fmt: skip


def cards(first: str = "11-01", last: str = "12-02") -> list[Fact]:
    """Both cards on their node, seen at the start and the end."""
    found: list[Fact] = []
    for stamp in (first, last):
        seen = {"occurred_at": at(stamp), "observed_at": at(stamp)}
        found.append(Node(source="kube_api", natural_key=NODE, node=NODE, ready=True, **seen))
        found += [
            Device(source="nvidia_smi", natural_key=uuid, device_uuid=uuid, node=NODE, memory_mib=1024, model="NVIDIA L40S",
                   basis="inventory", device_index=index, **seen)
            for index, uuid in enumerate(CARDS)
        ]  # fmt: skip
    return found


def pod(name: str, start: str, end: str | None, uuid: str = "GPU-a", memory_mib: int = 1024, **more: Any) -> list[Fact]:
    """``namespace/name`` holds a share of a card from start to end (None: still)."""
    namespace, short = name.split("/")
    last = end or "12-02"
    seen = {"occurred_at": at(last), "observed_at": at(last)}
    request = Request(
        source="kube_api", natural_key=short, pod_uid=short, namespace=namespace, pod=short, node=NODE,
        phase="Running" if end is None else "Succeeded", created_at=at(start), scheduled_at=at(start), started_at=at(start),
        first_container_at=at(start), last_container_end_at=None if end is None else at(end), **more, **seen,
    )  # fmt: skip
    grant = Grant(
        source="hami", natural_key=f"{short}/main/{uuid}", pod_uid=short, container="main", scheme="hami", node=NODE, device_uuid=uuid,
        unit_kind="vgpu", memory_mib=memory_mib, cores_percent=0, **seen,
    )  # fmt: skip
    return [request, grant]


def book(
    version: int = 1,
    charge: int | None = 2_000_000,
    cost: int | None = 1_000_000,
    declared_by: str = "ann",
    **more: Any,
) -> list[Fact]:
    """A version of the book ``site``: prices of a card-hour in millionths, or none of a side."""
    stamp = {"source": "declared", "occurred_at": at("10-01"), "observed_at": at("10-01")}
    lines: list[Fact] = [
        PriceBook(
            natural_key=f"site@{version}",
            book="site",
            version=version,
            sha256=f"{version:064d}",
            lines_count=2,
            declared_by=declared_by,
            **stamp,
        )
    ]
    for side, price in (("charge", charge), ("cost", cost)):
        lines.append(
            Price(natural_key=f"site@{version}/{side}", book="site", version=version, price_id=side, side=side, currency="USD",
                  price_micro=price, **more, **stamp)
        )  # fmt: skip
    return lines


def discount(tenant: str, ppm: int, version: int = 1) -> Discount:
    """What a tenant pays less."""
    return Discount(
        source="declared", natural_key=f"site@{version}/{tenant}/1", book="site", version=version, tenant=tenant, discount_ppm=ppm,
        occurred_at=at("10-01"), observed_at=at("10-01"),
    )  # fmt: skip


def rate(pair: str, nano: int, day: str) -> ExchangeRate:
    base, quote = pair.split("/")
    return ExchangeRate(
        source="declared", natural_key=pair, occurred_at=at(day), observed_at=at(day), base_currency=base, quote_currency=quote, rate_nano=nano
    )  # fmt: skip


def story() -> list[Fact]:
    """team-a: a whole card for ten days and half a card for two; team-b: a quarter throughout."""
    return [
        watched(),
        *cards(),
        *pod("team-a/train", "11-01", "11-11", "GPU-a"),
        *pod("team-a/infer", "11-20", "11-22", "GPU-b", 512),
        *pod("team-b/lab", "11-01", None, "GPU-b", 256),
        *book(),
        discount("team-b", 100_000),
    ]


def posted(store: Store, facts: Sequence[Fact], now: str = "12-02", money: MoneyPolicy | None = None) -> None:
    """Add the facts and post."""
    store.append(facts)
    post_ledgers(store, PostingParameters(money=money or MoneyPolicy()), clock=FixedClock(at(now)))


def opened(directory: Path, facts: Sequence[Fact] | None = None) -> Store:
    """A store on the disk with the story posted."""
    store = Store.open(directory)
    posted(store, story() if facts is None else facts)
    return store


class PlainDocuments:
    """Implements ``documents.Documents`` with one small file: what a statement comes to."""

    def write(self, statement: Statement, folder: Folder, formats: Collection[Format] = FORMATS) -> Sequence[str]:
        text = f"{statement.number} {statement.tenant} {statement.amount_micro} {statement.closed_at} {len(statement.lines)}\n"
        folder.write("statement.csv", text.encode())
        return ["statement.csv"]


def closed(
    store: Store,
    directory: Path,
    label: str = "2026-11",
    rules: SettlementRules | None = None,
    now: str = "12-02",
    **more: Any,
) -> CloseReport:
    """The period closed by bob, who declared nothing."""
    request = CloseRequest(label, more.pop("actor", "bob"), **more)
    return close(store, directory, rules or SettlementRules(), request, PlainDocuments(), FixedClock(at(now)))


def drafts(
    store: Store, label: str = "2026-11", rules: SettlementRules | None = None, **sheet: Any
) -> dict[str, Statement]:
    """The drafts of a period, by tenant."""
    wanted = rules or SettlementRules()
    with store.reader() as view:
        lay_out_ledgers(view, wanted.periods, label)
        return {each.tenant: each for each in statements(view, wanted, Sheet(label, at("12-02"), **sheet))}


def micro(amount: float) -> int:
    """An amount in millionths."""
    return round(amount * 1_000_000)
