"""Which reader takes which kind of object. Pods go through ``parse_pod`` once for all systems, so their reader takes the view.

Resource slices and claims are read as batches (``dra.read_dra``): what a claim holds stands in the slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from steelyard.facts.base import Fact
from steelyard.sources.kube_api.dra import read_resource_claim, read_resource_slice
from steelyard.sources.kube_api.events import read_event
from steelyard.sources.kube_api.nodes import read_node
from steelyard.sources.kube_api.pods import read_pod
from steelyard.sources.shared.context import ReadContext
from steelyard.sources.shared.pods import PodView

ObjectReader: TypeAlias = Callable[[Mapping[str, Any], ReadContext], Iterator[Fact]]
PodReader: TypeAlias = Callable[[PodView, ReadContext], Iterator[Fact]]

POD_READER: Final[PodReader] = read_pod
OBJECT_READERS: Final[Mapping[str, ObjectReader]] = {
    "Node": read_node,
    "Event": read_event,
    "ResourceSlice": read_resource_slice,
    "ResourceClaim": read_resource_claim,
}
BATCH_KINDS: Final = frozenset({"ResourceSlice", "ResourceClaim"})
