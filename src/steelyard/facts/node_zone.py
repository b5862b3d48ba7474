"""NUMA zones of nodes: how many accelerators each has, and how many of them a pod that wants one zone could get."""

from __future__ import annotations

from typing import ClassVar

from steelyard.facts.base import Fact


class NodeZone(Fact, frozen=True, kw_only=True):
    """One resource of one zone at one sighting of its node's topology. natural_key: ``<node>/<zone>/<resource>``.

    zone_type: as written (``Node`` is a NUMA node). resource None: the zone names no accelerator (natural_key without its last part), so that
    a resource that is no longer named is told from one that was not looked for. Counts are in the resource's own unit, None = not said: capacity
    (there), allocatable (for pods), available (of that, not given to a pod). All rows of one node with one ``occurred_at`` are its topology
    then. policies: a JSON object, ``topology_policies`` (a list) and ``attributes`` (name -> value) of the node, where it has them.
    """

    TABLE: ClassVar[str] = "node_zone"

    node: str
    zone: str
    zone_type: str | None = None
    resource: str | None = None
    capacity_count: int | None = None
    allocatable_count: int | None = None
    available_count: int | None = None
    policies: str = "{}"
