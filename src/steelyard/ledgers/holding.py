"""The holding ledger: who held which unit of which card, from when to when, with which share. Its model is ``holding.sql``.

Built in steps that stand as dimensions, so that each can be looked at by itself: ``dim.pod_life`` (one life per pod), ``dim.grant``
(every grant resolved to a card, with its standing), ``dim.claim`` (what a pod claims of a place and when it counts); ``holding.sql``
only cuts claims into segments and takes their shares. The trick to know: a segment is cut where the init containers are done, and
only where that changes something.

States of a row (``occupancy``): ``held`` from bind to the last container's end; ``reserved`` from Filter to bind, or to the last
sighting of a pod that was never bound; ``in_suspense`` for a claim that is not accepted (larger than its request, contradictory).
``share_ppm`` NULL is not known; ``share_at_least_ppm`` is what the row takes in any case, so that the books can close over it.

Sceptic's query: ``SELECT * FROM dim.claim WHERE pod_uid = '...'`` beside ``kubectl get pod P -o yaml``.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "per pod and unit: [bind, end) with the dominant share of the sums; max(init, app) until init ends, then app"
)

OCCUPANCIES: Final = ("held", "reserved", "in_suspense")
PLACE_KINDS: Final = ("device", "node", "cluster")
SCHEMES_BY_STRENGTH: Final = (
    "declared",
    "trace",
    "dra",
    "hami",
    "volcano_vgpu",
    "hami_vendor",
    "shared_scheme",
    "pod_resources",
    "mig_plugin",
    "time_slicing",
    "mps",
    "device_plugin",
)
"""For one (pod, container) only the strongest scheme counts; the others corroborate or contradict."""
