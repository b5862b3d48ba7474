"""Short builders for hand-made cases of money: an estate of one hour after another, prices, and what both ledgers then say.

One card ``GPU-a`` of node ``n1``, seen throughout from minute 0 to ``MINUTES``; pods are bound and running from ``start`` to ``end`` unless
told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from steelyard.definitions.money import MoneyPolicy
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.price import Discount, Price
from steelyard.facts.tenancy import Tenancy
from steelyard.ledgers.posting import PostingParameters, PostingResult, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import MINUTE_US
from steelyard.store import Store
from tests.ledgers.facts_of import CARD, at, card, grant, listing, node, pod, seen, vgpu

MINUTES = 180
HOUR = 60
H100 = "NVIDIA-H100-80GB-HBM3"


def estate(*cards: str, minutes: int = MINUTES, model: str | None = H100, **of_node: Any) -> list[Fact]:
    """Cards of one node, known and watched throughout."""
    found: list[Fact] = [node(0, **of_node), watched(minutes)]
    for uuid in cards or (CARD,):
        found += [card(0, uuid, model=model), card(minutes, uuid, model=model)]
    return found


def watched(minutes: int = MINUTES) -> Fact:
    """The pods of the cluster were known from the beginning to the end."""
    return listing(minutes, observed_from_at=at(0), observed_to_at=at(minutes))


def held(
    uid: str = "u1", start: float = 0, end: float = MINUTES, uuid: str = CARD, percent: int = 100, **more: Any
) -> list[Fact]:
    """A pod on a part of a card (``percent`` of its cores), running from its bind unless ``running`` says when."""
    running = more.pop("running", start)
    ended = {"phase": "Succeeded", "last_container_end_at": end} if end < MINUTES else {}
    stamps = {} if running is None else {"first_container_at": running}
    request = pod(MINUTES, uid, created_at=start, scheduled_at=start, **{**stamps, **ended, **more})
    return [request, vgpu(MINUTES, uid, memory=0, cores=percent, device_uuid=uuid, node=request.node)]


def whole(uid: str = "u1", start: float = 0, end: float = MINUTES, uuid: str = CARD, **more: Any) -> list[Fact]:
    """A pod on a whole card."""
    request, _ = held(uid, start, end, uuid, **more)
    return [
        request,
        grant(MINUTES, uid, device_uuid=uuid, unit_kind="gpu", scheme="pod_resources", source="pod_resources"),
    ]


def price(price_id: str, price_micro: int | None, side: str = "cost", version: int = 1, **more: Any) -> Price:
    fields: dict[str, Any] = {"book": "b", "currency": "USD", **more}
    stamps = {name: at(value) for name, value in fields.items() if name.endswith("_at") and value is not None}
    return Price(
        source="test", natural_key=f"b@{version}/{price_id}/{side}", version=version, price_id=price_id, side=side, price_micro=price_micro,
        **{**fields, **stamps}, **seen(0),
    )  # fmt: skip


def discount(tenant: str, ppm: int, number: int = 0, **more: Any) -> Discount:
    return Discount(
        source="test",
        natural_key=f"b@1/{tenant}/{number}",
        book="b",
        version=1,
        tenant=tenant,
        discount_ppm=ppm,
        **more,
        **seen(0),
    )


def tree(position: int, match: str, by: str = "namespace", version: int = 1, **more: Any) -> Tenancy:
    stamps = {name: at(value) for name, value in more.items() if name.endswith("_at") and value is not None}
    return Tenancy(
        source="test",
        natural_key=f"{version}/{position}",
        version=version,
        position=position,
        by=by,
        match=match,
        **{**more, **stamps},
        **seen(0),
    )


def event(minute: float, reason: str, message: str | None = None, uid: str = "u1") -> Event:
    return Event(
        source="kube_api", natural_key=f"{uid}/{reason}/{minute}", kind="kubernetes", reason=reason, message=message, subject_kind="Pod",
        subject_uid=uid, **seen(minute),
    )  # fmt: skip


def measured(start: int, end: int, sm: float, dram: float = 0.0, uuid: str = CARD) -> Iterator[Fact]:
    """A sample a minute of a card's triple."""
    for minute in range(start, end):
        yield DeviceSample(
            source="dcgm_exporter", natural_key=uuid, device_uuid=uuid, interval_us=MINUTE_US, gr_active_ratio=max(sm, dram), sm_active_ratio=sm,
            dram_active_ratio=dram, memory_used_mib=100, **seen(minute),
        )  # fmt: skip


def policy(**more: Any) -> PostingParameters:
    return PostingParameters(money=MoneyPolicy(**more))


def post(store: Store, parameters: PostingParameters | None = None) -> PostingResult:
    return post_ledgers(store, parameters or PostingParameters(), clock=FixedClock(at(MINUTES + 60)))


@contextmanager
def posted(facts: Iterable[Fact], parameters: PostingParameters | None = None) -> Iterator[Store]:
    """A store of these facts after one posting."""
    with Store.open_memory() as store:
        store.append(list(facts))
        post(store, parameters)
        yield store


def cost_of(store: Store, *by: str, where: str = "TRUE") -> dict[Any, tuple[float, int | None]]:
    """Per value of ``by`` (one: itself, several: a tuple): GPU-hours and money of the cost ledger."""
    return sums(store, "cost", "amount_gpu_us", "cost_micro", by, where)


def charge_of(store: Store, *by: str, where: str = "TRUE") -> dict[Any, tuple[float, int | None]]:
    """The same of the charge ledger."""
    return sums(store, "charge", "quantity_gpu_us", "charge_micro", by, where)


def sums(
    store: Store, ledger: str, amount: str, money: str, by: Sequence[str], where: str
) -> dict[Any, tuple[float, int | None]]:
    columns = ", ".join(by)
    rows = store.rows(
        f"SELECT {columns}, sum({amount}) / 3.6e9, CAST(sum({money}) AS BIGINT) FROM ledger.{ledger} WHERE {where} "
        f"GROUP BY {columns} ORDER BY {columns}"
    )
    return {row[0] if len(by) == 1 else row[: len(by)]: (round(row[-2], 9), row[-1]) for row in rows}


def codes(store: Store) -> set[str]:
    return {code for (code,) in store.rows("SELECT code FROM ledger.finding")}
