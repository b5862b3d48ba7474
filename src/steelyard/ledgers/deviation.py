"""The ledger of deviations: what was requested, granted, enforced, counted and reported by the device, side by side. Its model is ``deviation.sql``.

One row per pod, card and grain, and one per card and grain (``pod_uid`` NULL), in the hours in which a sharing layer's exporters said anything. Five
columns that are never merged: ``requested`` (the container's own words), ``granted`` (the scheduler's annotation, by ``ledger.holding``),
``enforced`` (the limit that the layer's monitor shows), ``counted`` (what it counted), ``device`` (what the driver reports: of the card, of the pod
that has it alone, of a GPU instance's one holder, else of the pod's processes; ``device_path``). Beside them what the scheduler's cache says is
allocated (``scheduler``), which is its memory and no measurement.

- ``<x>_mib_us`` over ``<x>_observed_us``: a sample stands for time as in ``ledger.usage``. Samples that stand for no time are in
  ``<x>_last_mib``, ``last_at``.
- ``counted_less_device_mib_us`` over ``both_observed_us``: the difference is taken where both were seen, nothing is subtracted across other times.
- A series that is absent is not 0. What the monitor says of a pod that does not hold the card counts for nobody (a finding names it), more than the
  card's physical memory is refused (``refused_count``), and 0 % of all pods on a card that is at work is not measured.
- Percent are of one card; of the device, 1001, else 203.

Sceptic: ``curl node:31992/metrics | grep vGPU_device_memory`` beside ``nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv``.
"""

from __future__ import annotations

from typing import Final

KINDS: Final = ("requested", "granted", "enforced", "counted", "device")
"""The five, in the order in which one becomes the next."""
