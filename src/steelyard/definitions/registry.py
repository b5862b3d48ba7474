"""All definitions with their versions, for answers to quote. Changing a formula changes its version and the changelog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from steelyard.definitions import (
    conservation,
    cost_change,
    coverage,
    deviation,
    fragmentation,
    gpu_state,
    gpu_time,
    grain,
    holding_interval,
    kaplan_meier,
    measured_time,
    mig,
    models,
    money,
    normalised_gpu_hours,
    over_use,
    percentile,
    queue_wait,
    quota_balance,
    share,
    tenant,
    token_split,
    used_share,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A formula as an answer quotes it: the stem of its file, its version, one line."""

    name: str
    version: str
    formula: str


DEFINITIONS: Final[tuple[Definition, ...]] = tuple(
    Definition(module.__name__.rpartition(".")[2], module.VERSION, module.FORMULA)
    for module in (
        share,
        mig,
        models,
        holding_interval,
        grain,
        gpu_time,
        measured_time,
        normalised_gpu_hours,
        conservation,
        coverage,
        percentile,
        fragmentation,
        gpu_state,
        over_use,
        quota_balance,
        queue_wait,
        kaplan_meier,
        tenant,
        used_share,
        deviation,
        money,
        token_split,
        cost_change,
    )
)


def definition(name: str) -> Definition:
    """The definition of this name. Raises KeyError where there is none."""
    return {entry.name: entry for entry in DEFINITIONS}[name]
