"""Estates with prices, posted by the real ledgers: every number can be checked by hand.

Two cards of an L40S node from 2026-11-01 to 2026-12-02, seen throughout; a card-hour costs 1 and is charged at 2 unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from steelyard.answers.contract import Answer, Table
from steelyard.answers.q09_cost import CostSpec, answer
from steelyard.definitions.money import MoneyPolicy
from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.grant import Grant
from steelyard.facts.node import Node
from steelyard.facts.owner import Owner
from steelyard.facts.price import Price, PriceBook
from steelyard.facts.request import Request
from steelyard.facts.source_status import SourceStatus
from steelyard.facts.tenancy import Tenancy
from steelyard.ledgers.posting import PostingParameters, post_ledgers
from steelyard.primitives.clock import FixedClock
from steelyard.primitives.instant import Instant, Window, parse_instant
from steelyard.store import Store

FIRST, SECOND = "GPU-a", "GPU-b"
NODE = "n1"
LAST = "12-02"


def at(text: str) -> Instant:
    """``11-05`` or ``11-05T06`` of 2026, in UTC."""
    day, _t, hour = text.partition("T")
    return parse_instant(f"2026-{day}T{hour or '00'}:00:00Z")


def watched(start: str = "11-01", end: str = LAST) -> SourceStatus:
    """The API server was watched throughout."""
    return SourceStatus(
        source="kube_api", natural_key="pods/cluster", kind="pods", scope="cluster", status="ok", complete=True, occurred_at=at(end),
        observed_at=at(end), observed_from_at=at(start), observed_to_at=at(end),
    )  # fmt: skip


def cards(
    uuids: Sequence[str] = (FIRST, SECOND), node: str = NODE, model: str | None = "NVIDIA L40S", **more: Any
) -> list[Fact]:
    """Cards on a node, seen at the start and the end."""
    found: list[Fact] = []
    for stamp in ("11-01", LAST):
        seen = {"occurred_at": at(stamp), "observed_at": at(stamp)}
        found.append(Node(source="kube_api", natural_key=node, node=node, ready=True, **seen, **more))
        found += [
            Device(source="nvidia_smi", natural_key=uuid, device_uuid=uuid, node=node, memory_mib=1024, model=model, basis="inventory",
                   device_index=index, **seen)
            for index, uuid in enumerate(uuids)
        ]  # fmt: skip
    return found


def pod(
    name: str,
    start: str,
    end: str | None,
    uuid: str | None = FIRST,
    memory_mib: int = 1024,
    node: str = NODE,
    workload: tuple[str, str] | None = None,
    labels: str = "{}",
    annotations: str = "{}",
    workload_uid: str | None = None,
    **more: Any,
) -> list[Fact]:
    """``namespace/name`` holds a share of a card (of 1,024 MiB) from start to end (None: still). ``workload``: kind and name of its root."""
    namespace, short = name.split("/")
    last = end or LAST
    seen = {"occurred_at": at(last), "observed_at": at(last)}
    kind, root = workload or (None, None)
    request = Request(
        source="kube_api", natural_key=short, pod_uid=short, namespace=namespace, pod=short, node=node,
        phase="Running" if end is None else "Succeeded", created_at=at(start), scheduled_at=at(start), started_at=at(start),
        first_container_at=at(start), last_container_end_at=None if end is None else at(end), **more, **seen,
    )  # fmt: skip
    owner = Owner(
        source="kube_api", natural_key=short, pod_uid=short, namespace=namespace, owner_kind=kind, owner_name=root, owner_uid=workload_uid,
        workload_kind=kind, workload_name=root, labels=labels, annotations=annotations, **seen,
    )  # fmt: skip
    if uuid is None:
        return [request, owner]
    grant = Grant(
        source="hami", natural_key=f"{short}/main/{uuid}", pod_uid=short, container="main", scheme="hami", node=node, device_uuid=uuid,
        unit_kind="vgpu", memory_mib=memory_mib, cores_percent=0, **seen,
    )  # fmt: skip
    return [request, owner, grant]


def line(
    price_id: str, side: str, price_micro: int | None, version: int = 1, currency: str = "USD", **more: Any
) -> Price:
    """One line of a price book; ``from_``, ``to``: its validity."""
    stamps = {
        f"valid_{name}_at": at(value)
        for name, key in (("from", "from_"), ("to", "to"))
        if (value := more.pop(key, None)) is not None
    }
    return Price(
        source="declared", natural_key=f"site@{version}/{price_id}/{len(stamps)}/{more.get('model')}", book="site", version=version,
        price_id=price_id, side=side, currency=currency, price_micro=price_micro, occurred_at=at("10-01"), observed_at=at("10-01"),
        **more, **stamps,
    )  # fmt: skip


def book(*lines: Price, version: int = 1) -> list[Fact]:
    """A version of the book ``site`` with these lines; with none: cost 1 and charge 2 a card-hour."""
    found = lines or (line("charge", "charge", 2_000_000, version), line("cost", "cost", 1_000_000, version))
    head = PriceBook(
        source="declared", natural_key=f"site@{version}", book="site", version=version, sha256=f"{version:064d}", lines_count=len(found),
        occurred_at=at("10-01"), observed_at=at("10-01"),
    )  # fmt: skip
    return [head, *found]


def tree(*rows: tuple[str, str, dict[str, Any]], version: int = 1) -> list[Fact]:
    """Lines of the tenancy tree: (what it looks at, pattern, names and validity)."""
    return [
        Tenancy(source="declared", natural_key=f"{version}/{number}", version=version, position=number, by=by, match=match,
                occurred_at=at("10-01"), observed_at=at("10-01"), **more)
        for number, (by, match, more) in enumerate(rows)
    ]  # fmt: skip


def story() -> list[Fact]:
    """team-a: the first card for ten days, then half of the second for two; team-b: a quarter of the second throughout."""
    return [
        watched(),
        *cards(),
        *pod("team-a/train", "11-01", "11-11", FIRST, workload=("Job", "train")),
        *pod("team-a/infer", "11-20", "11-22", SECOND, 512, labels='{"app": "chat"}'),
        *pod("team-b/lab", "11-01", None, SECOND, 256),
    ]


def opened(facts: Sequence[Fact], money: MoneyPolicy | None = None) -> Store:
    """A store in memory with the facts posted."""
    store = Store.open_memory()
    store.append(list(facts))
    post_ledgers(store, PostingParameters(money=money or MoneyPolicy()), clock=FixedClock(at(LAST)))
    return store


@cache
def standard(idle_sharing: Literal["none", "proportional", "even"] = "none") -> Store:
    """The story with its book, posted once; nobody writes to it."""
    return opened([*story(), *book()], MoneyPolicy(idle_sharing=idle_sharing))


def ask(
    facts: Sequence[Fact] | Store,
    money: MoneyPolicy | None = None,
    start: str = "11-01",
    end: str = "12-01",
    **spec: Any,
) -> Answer:
    """Q9 over November."""
    store = facts if isinstance(facts, Store) else opened(facts, money)
    return answer(store, CostSpec(window=Window(at(start), at(end)), **spec))


def figure(result: Answer, name: str) -> Any:
    """The value of a figure."""
    return next(each.value for each in result.figures if each.name == name)


def table(result: Answer, name: str) -> Table:
    """A table by its name."""
    return next(each for each in result.tables if each.name == name)


def rows(result: Answer, name: str) -> list[dict[str, Any]]:
    """Its rows by column."""
    found = table(result, name)
    names = [column.name for column in found.columns]
    return [dict(zip(names, row, strict=True)) for row in found.rows]
