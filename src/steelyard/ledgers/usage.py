"""The usage ledger: memory used, and the use of the card itself as far as it was measured, per card and holder. Its model is ``usage.sql``.

Built by windows of hours whose ground changed (``windows.py``), in steps that stand as tables: ``dim.sample_hour`` (samples summed by hour, one
pass that ``gpu_state`` shares), ``dim.usage_calm`` (hours of which these sums tell all), ``dim.usage_stretch`` (what each sample of the other
hours stands for), ``dim.usage_process`` (the same for processes proven to be a pod's), ``dim.usage_intruder`` (those of pods that hold nothing of
the card), ``dim.usage_holder`` (when a unit has exactly one holder), ``dim.usage_exclusive`` (when a card is
one pod's whole and no other's), and ``dim.usage_instance`` (the share of its card that a GPU instance is).

Attribution, best first, each second once: ``exclusive`` (all that a card used belongs to its one holder), ``mig`` (a GPU instance's),
``process`` (memory only). ``device`` rows are the card itself (its instances for what the board did not tell in that grain),
``residual`` rows the card less its holders: what nobody can be named for.

- Time counts only where a sample stands for it: its interval (an hour at most), else until the next sample where the source's status declares the gap
  (``source_status.gap_max_us`` of kind ``nvidia_smi`` and the like, scope ``cluster`` or ``node/<name>``), else no time at all.
- What is known of the card's use stands in columns of its own for each basis, each with its observed time, so that no two are added up:
  ``used_gpu_us`` (max(1002, 1005), of ``used_of_gpu_us`` that the unit had in that time), ``sm_gpu_us`` (1002), ``dram_gpu_us`` (1005),
  ``engine_upper_gpu_us`` (1001, an upper bound), ``compute_upper_gpu_us`` (203, an upper bound: a kernel ran). ``used_basis`` is the best of them.
- Two samples of one unit and instant are one, the larger figures; a figure in which they contradict each other is none (``ledger.contradiction``).
- The counters of a GPU instance are relative to it: its amounts are of the card, times the instance's share.
- While a process is proven to be that of a pod that holds nothing of the unit, nobody is its one holder.
- Several holders of a part of a card: what each used of it is not known (no row says it), the card's own rows have all of it.
- ``observed_us`` is the time in which memory was known, ``compute_observed_us`` that of 203. Amounts over no time are NULL with ``unknown_reason``;
  peak, 99th percentile (linear, floored to a MiB) and ``samples_count`` are of the samples themselves.
- A removed sample takes its use and its observed time away: use moves to unknown, never to idle.

Sceptic: ``nvidia-smi --query-gpu=timestamp,uuid,memory.used,utilization.gpu --format=csv -l 60`` and ``dcgmi dmon -e 1001,1002,1005``
beside the row of that card and hour.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "2"
FORMULA: Final = (
    "used = integral over observed time of memory used and of the used share, max(1002, 1005), 1001 and 203 beside it as upper bounds; "
    "residual = card - sum of its holders"
)

PATHS: Final = ("device", "exclusive", "mig", "process", "residual")
BASES: Final = (
    "max_sm_1002_dram_1005",
    "gr_engine_1001_upper_bound",
    "util_gpu_203_upper_bound",
    "memory_only",
    "unknown",
)
"""Of ``used_basis``, best first."""
