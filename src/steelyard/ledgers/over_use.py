"""The ledger of over-use: who took more than was granted, or used a card without a grant, from when to when.

Its models are ``excess*.sql`` and ``over_use.sql``. Two ledgers: ``excess`` is posted by windows of hours, the stretches of each grain in which
samples show a pod above its tolerance (``definitions.over_use``), with the curve that was seen, which outlives the samples. ``over_use`` joins them
to episodes, one row each; with it stand annotations larger than their request, and pods to which cards stand open though no process was seen.

- Paths: ``process`` (the driver's processes, proven by their cgroup), ``soft_partition`` (what the layer counted), ``device`` (the card, where one
  pod alone holds it). ``basis`` names them. What is divided by reservation (``split_by_grant``) is no path.
- ``interval_us``: how far apart the samples lie that show it; of a sample that stands for no time, how far the nearest is (NULL: there is none).
- ``excess_gpu_us``: what was taken above the grant, as a share of the card, times the time shown; NULL where the card's memory, or what a
  process used of it, is not known all the time. ``excess_least_gpu_us``: what is known of it; a weekly excess
  is judged by that.

Sceptic: ``SELECT * FROM ledger.excess WHERE pod_uid = '...'`` beside ``nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv``.
"""

from __future__ import annotations

from typing import Final

PATHS: Final = ("process", "soft_partition", "device")
GRADES: Final = (
    "process_in_cgroup",
    "counted_by_layer",
    "sole_holder_of_card",
    "written_in_annotation",
    "written_in_pod",
)
"""Of ``evidence_grade``: by what an episode is shown."""
