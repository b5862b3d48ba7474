"""The usage ledger, first version: memory used, and 203 GPU_UTIL as an upper bound of compute, per card and holder. Its model is ``usage.sql``.

Built by windows of hours whose ground changed (``windows.py``), in steps that stand as tables: ``dim.usage_stretch`` (what each sample of a card
stands for), ``dim.usage_process`` (the same for processes proven to be a pod's), ``dim.usage_holder`` (when a unit has exactly one holder).

Attribution, best first, each second once: ``exclusive`` (all that a card used belongs to its one holder), ``mig`` (a GPU instance's),
``process`` (memory only). ``device`` rows are the card itself (its instances where the board was not sampled in that grain),
``residual`` rows the card less its holders: what nobody can be named for.

- Time counts only where a sample stands for it: its interval (an hour at most), else until the next sample where the source's status declares the gap
  (``source_status.gap_max_us`` of kind ``nvidia_smi`` and the like, scope ``cluster`` or ``node/<name>``), else no time at all.
- ``observed_us`` is the time in which memory was known, ``compute_observed_us`` that of 203. Amounts over no time are NULL with ``unknown_reason``;
  peak, 99th percentile (linear, floored to a MiB) and ``samples_count`` are of the samples themselves.
- A removed sample takes its use and its observed time away: use moves to unknown, never to idle.
- ``used_basis``: ``util_gpu_203_upper_bound``, ``memory_only`` or ``unknown``. 203 says that a kernel ran, not how much of the card it used.

Sceptic: ``nvidia-smi --query-gpu=timestamp,uuid,memory.used,utilization.gpu --format=csv -l 60`` beside the row of that card and hour.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "used = integral over observed time of memory used and of 203 GPU_UTIL; residual = card - sum of its holders"
)

PATHS: Final = ("device", "exclusive", "mig", "process", "residual")
BASES: Final = ("util_gpu_203_upper_bound", "memory_only", "unknown")
