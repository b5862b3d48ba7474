"""A Node as facts: readiness, cordon, sharing set-up, extended resources, and the card count of GPU feature discovery.

``app`` calls ``read_node`` per Node object; registers of sharing layers on the same object are read by their own readers. The trick to know:
``nvidia.com/gpu.count`` counts physical cards, except under the MIG strategy ``single``, where the product ends in ``-MIG-<profile>`` and
the label counts instances; then the number of cards is not known from the labels.

Sceptic's command: ``kubectl get node NODE -o jsonpath='{.metadata.labels}{.status.allocatable}'``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.inventory_basis import InventoryBasis
from steelyard.facts.node import Node
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.unknown import Unknown
from steelyard.sources.kube_api.owners import json_text
from steelyard.sources.shared.accelerators import UNLISTED, meaning_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.demand import amount_of
from steelyard.sources.shared.pods import instant_of, list_of, mapping_of, text_of, texts_of
from steelyard.sources.shared.resource_amounts import milli_of

SOURCE: Final = "kube_api"

_COUNT: Final = "nvidia.com/gpu.count"
_PRODUCT: Final = "nvidia.com/gpu.product"
_MEMORY: Final = "nvidia.com/gpu.memory"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode
CARDS_MAX: Final = 1_024


def read_node(payload: Mapping[str, Any], ctx: ReadContext) -> Iterator[Fact]:
    """One Node; one InventoryBasis (``gfd_label``) where the labels count physical cards; findings.

    ready: True or False; a Ready condition that reads ``Unknown`` (the kubelet is silent) is False, as ``kubectl`` prints it; None where
    the condition is absent. gpu_count is None under MIG strategy ``single`` (finding ``gfd_counts_mig_instances``). gpu_product is the
    label as written, with its ``-SHARED`` or ``-MIG-`` ending; the InventoryBasis names the bare model. Raises SourceMalformed without a name.
    """
    metadata, spec, status = (mapping_of(payload.get(key)) for key in ("metadata", "spec", "status"))
    name = text_of(metadata.get("name"))
    if name is None:
        raise SourceMalformed("expected metadata.name in a Node, found none", excerpt=reprlib.repr(payload))
    problems: list[str] = []
    labels = texts_of(metadata.get("labels"))
    ready, changed = _ready(status, problems)
    bad: list[tuple[str, str]] = []
    counts = {key: _label_count(labels, key, bad) for key in (_COUNT, _MEMORY, _REPLICAS)}
    product = labels.get(_PRODUCT) or None
    instances = product is not None and "-MIG-" in product
    cards = None if instances else counts[_COUNT]
    if cards is not None and cards > CARDS_MAX:
        bad.append((_COUNT, f"expected at most {CARDS_MAX} cards in a node; found {cards}"))
        cards = None
    yield Node(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=name,
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        node=name,
        node_uid=text_of(metadata.get("uid")),
        created_at=instant_of(metadata.get("creationTimestamp"), problems, "metadata.creationTimestamp"),
        ready=ready,
        ready_changed_at=changed,
        unschedulable=spec.get("unschedulable") is True,
        gpu_count=cards,
        gpu_product=product,
        gpu_memory_mib=counts[_MEMORY],
        mig_strategy=labels.get("nvidia.com/mig.strategy") or None,
        mig_config_state=labels.get("nvidia.com/mig.config.state") or None,
        sharing_strategy=labels.get("nvidia.com/gpu.sharing-strategy") or None,
        replicas=counts[_REPLICAS],
        labels=json_text(labels),
        extended_resources=_extended_resources(status, bad),
        cpu_milli=_cpu_milli(status, bad),
    )
    if cards:
        yield _basis(name, cards, product, counts[_MEMORY], ctx)
    yield from _findings(name, problems, bad, counts[_COUNT] if instances else None, product, ctx)


def bare_product(product: str) -> str:
    """The model behind a GFD product label: without ``-SHARED`` and ``-MIG-<profile>``."""
    return product.removesuffix("-SHARED").partition("-MIG-")[0]


def _basis(node: str, cards: int, product: str | None, memory_mib: int | None, ctx: ReadContext) -> InventoryBasis:
    return InventoryBasis(
        cluster=ctx.cluster,
        source=SOURCE,
        natural_key=f"node/{node}",
        occurred_at=ctx.observed_at,
        observed_at=ctx.observed_at,
        basis="gfd_label",
        node=node,
        cards_count=cards,
        model=bare_product(product) if product else None,
        memory_mib=memory_mib,
    )


def _ready(status: Mapping[str, Any], problems: list[str]) -> tuple[bool | None, int | None]:
    for condition in list_of(status.get("conditions")):
        if condition.get("type") == "Ready":
            changed = instant_of(condition.get("lastTransitionTime"), problems, "Ready.lastTransitionTime")
            value = condition.get("status")
            return (value == "True" if value in ("True", "False", "Unknown") else None), changed
    return None, None


def _label_count(labels: Mapping[str, str], key: str, bad: list[tuple[str, str]]) -> int | None:
    value = labels.get(key)
    if value is None:
        return None
    amount = amount_of(value)
    if isinstance(amount, Unknown):
        bad.append((key, amount.reason))
        return None
    return amount


def _extended_resources(status: Mapping[str, Any], bad: list[tuple[str, str]]) -> str:
    found: dict[str, dict[str, int]] = {}
    for part in ("capacity", "allocatable"):
        for name, value in mapping_of(status.get(part)).items():
            meaning = meaning_of(name) if "/" in name else None
            if meaning is None:
                continue
            amount = amount_of(value)
            if not isinstance(amount, Unknown):
                found.setdefault(part, {})[name] = amount
            elif meaning.role != UNLISTED:
                bad.append((f"{part} {name[:120]}", amount.reason))
    if not found:
        return "{}"
    try:
        return _ENCODE(found).decode()
    except UnicodeEncodeError:
        return "{}"


def _cpu_milli(status: Mapping[str, Any], bad: list[tuple[str, str]]) -> int | None:
    """What pods may be given there: allocatable CPU."""
    value = mapping_of(status.get("allocatable")).get("cpu")
    if value is None:
        return None
    try:
        return milli_of(value)
    except ValueError as error:
        bad.append(("allocatable cpu", str(error)))
        return None


def _findings(
    node: str,
    problems: list[str],
    bad: list[tuple[str, str]],
    instances: int | None,
    product: str | None,
    ctx: ReadContext,
) -> Iterator[Fact]:
    subject = f"node {node}"
    for text in problems:
        yield ctx.finding(SOURCE, "stamp_malformed", subject, text)
    for what, reason in bad[:20]:
        yield ctx.finding(
            SOURCE, "quantity_malformed", f"{subject} {what}", f"{what}: {reason}", evidence={"count": len(bad)}
        )
    if instances is not None:
        text = (
            f"{_COUNT} {instances} counts MIG instances ({product}): the number of cards is not known from the labels"
        )
        yield ctx.finding(
            SOURCE, "gfd_counts_mig_instances", subject, text, severity="info", evidence={"count": instances}
        )
