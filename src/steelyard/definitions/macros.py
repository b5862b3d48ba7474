"""The SQL side of the definitions: every ``.sql`` beside this module, in the order in which macros may build on each other.

The store runs this text when it opens. A macro has the name and the arguments of its pure function; NULL stands for Unknown.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

STEMS: Final = (
    "share",
    "gpu_time",
    "measured_time",
    "normalised_gpu_hours",
    "holding_interval",
    "grain",
    "percentile",
    "coverage",
    "conservation",
    "queue_wait",
    "kaplan_meier",
    "tenant",
    "quota_balance",
    "used_share",
    "gpu_state",
    "over_use",
    "money",
)


def macro_sql() -> str:
    """All macros as one script of ``CREATE OR REPLACE MACRO`` statements."""
    return "\n".join((files(__package__) / f"{stem}.sql").read_text(encoding="utf-8") for stem in STEMS)
