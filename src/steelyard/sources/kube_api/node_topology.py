"""A NodeResourceTopology: the accelerators of each NUMA zone of a node, as an exporter on the node publishes them.

``app`` calls ``read_node_topology`` for each. The trick to know: the object has no spec and no status, in both versions its zones stand at the top;
v1alpha1 may write a quantity as a number, and tells the kubelet's policy in ``topologyPolicies``, v1alpha2 in ``attributes``. Its name is the node's.
What is *available* is the exporter's count of devices not given to a pod; a sharing layer above the device plugin is not in it.

Sceptic's command: ``kubectl get noderesourcetopologies.topology.node.k8s.io NODE -o yaml``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from steelyard.facts.base import Fact
from steelyard.facts.node_zone import NodeZone
from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.unknown import Unknown
from steelyard.sources.shared.accelerators import meaning_of
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.demand import amount_of
from steelyard.sources.shared.object_changes import safe
from steelyard.sources.shared.pods import mapping_of, text_of
from steelyard.sources.shared.resource_amounts import RESOURCES_MAX, to_json

SOURCE: Final = "kube_api"
GROUP: Final = "topology.node.k8s.io/"
ZONES_MAX: Final = 256
"""So many zones of a node, and policies and attributes of it, are read; the largest machines have some dozens."""
_COUNTS: Final = ("capacity", "allocatable", "available")
_SHOWN_MAX: Final = 20


def is_node_topology(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the object is a NodeResourceTopology, of whatever version."""
    version = payload.get("apiVersion")
    return kind == "NodeResourceTopology" and isinstance(version, str) and version.startswith(GROUP)


def read_node_topology(payload: Mapping[str, Any], kind: str, ctx: ReadContext) -> Iterator[Fact]:
    """One NodeZone per zone and accelerator; one without a resource for a zone that names none; findings ``quantity_malformed`` (that count
    is None) and ``node_topology_malformed``. Raises SourceMalformed for an object without a name or without an array of zones."""
    name = text_of(mapping_of(payload.get("metadata")).get("name"))
    zones = payload.get("zones")
    if name is None:
        raise SourceMalformed(f"expected metadata.name in a {kind}, found none", excerpt=reprlib.repr(payload))
    if not isinstance(zones, list):
        found = f"expected an array of zones in {kind} {safe(name)}, found {type(zones).__name__}"
        raise SourceMalformed(found, excerpt=reprlib.repr(zones))
    node, policies = safe(name), _policies(payload)
    bad: list[str] = []
    malformed: list[str] = []
    named: set[str] = set()
    if len(zones) > ZONES_MAX:
        malformed.append(f"expected at most {ZONES_MAX} zones, found {len(zones)}: the others are not read")
    for position, zone in enumerate(zones[:ZONES_MAX]):
        title = text_of(mapping_of(zone).get("name"))
        if title is None:
            malformed.append(f"zones[{position}]: expected an object with a name, found {type(zone).__name__}")
            continue
        if (title := safe(title)) in named:
            malformed.append(f"zone {title} stands there twice: the first one is read")
            continue
        named.add(title)
        zone_type = text_of(zone.get("type"))
        for resource, counts in _accelerators(title, zone, bad, malformed) or [(None, {})]:
            yield NodeZone(
                cluster=ctx.cluster,
                source=SOURCE,
                natural_key="/".join(part for part in (node, title, resource) if part is not None),
                occurred_at=ctx.observed_at,
                observed_at=ctx.observed_at,
                node=node,
                zone=title,
                zone_type=None if zone_type is None else safe(zone_type),
                resource=resource,
                capacity_count=counts.get("capacity"),
                allocatable_count=counts.get("allocatable"),
                available_count=counts.get("available"),
                policies=policies,
            )
    for code, texts in (("quantity_malformed", bad), ("node_topology_malformed", malformed)):
        if texts:
            evidence = {"count": len(texts), "problems": texts[:_SHOWN_MAX]}
            yield ctx.finding(SOURCE, code, f"node {node} topology", "; ".join(texts[:3]), evidence=evidence)


def _accelerators(
    zone: str, payload: Mapping[str, Any], bad: list[str], malformed: list[str]
) -> list[tuple[str | None, dict[str, int]]]:
    """(resource, its counts) of each accelerator of a zone; a count that cannot be read is left out and noted in ``bad``."""
    listed = payload.get("resources")
    if listed is None:
        return []
    if not isinstance(listed, list):
        malformed.append(f"zone {zone}: expected an array of resources, found {type(listed).__name__}")
        return []
    if len(listed) > RESOURCES_MAX:
        malformed.append(f"zone {zone}: expected at most {RESOURCES_MAX} resources, found {len(listed)}")
    found: dict[str | None, dict[str, int]] = {}
    for entry in listed[:RESOURCES_MAX]:
        each = mapping_of(entry)
        name = text_of(each.get("name"))
        if name is None:
            malformed.append(f"zone {zone}: expected a resource with a name, found {reprlib.repr(entry)}")
            continue
        if "/" not in name or meaning_of(name) is None:
            continue
        if (name := safe(name)) in found:
            malformed.append(f"zone {zone}: {name} stands there twice: the first one is read")
            continue
        counts = found[name] = {}
        for key in _COUNTS:
            amount = None if each.get(key) is None else amount_of(each[key])
            if isinstance(amount, Unknown):
                bad.append(f"zone {zone}: {key} of {name}: {amount.reason}")
            elif amount is not None:
                counts[key] = amount
    return list(found.items())


def _policies(payload: Mapping[str, Any]) -> str:
    """The node's policies and attributes as JSON; what is no text is left out."""
    listed, attributes = payload.get("topologyPolicies"), payload.get("attributes")
    policies = [safe(each) for each in _some(listed) if isinstance(each, str)]
    named = {
        safe(name): safe(value)
        for each in map(mapping_of, _some(attributes))
        if (name := text_of(each.get("name"))) and (value := text_of(each.get("value")))
    }
    return to_json({"topology_policies": policies or None, "attributes": named or None})


def _some(value: object) -> list[Any]:
    return value[:ZONES_MAX] if isinstance(value, list) else []
