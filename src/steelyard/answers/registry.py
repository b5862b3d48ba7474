"""All questions that are built: number, titles, what they take, what they need. Commands, routes and tests derive from this list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from steelyard.answers import (
    cost_series,
    dimensions,
    q01_holders,
    q02_consumption,
    q03_utilisation,
    q06_scheduling,
    q07_overuse,
    q09_cost,
    queue_series,
    state_series,
)
from steelyard.answers.contract import Answer
from steelyard.answers.reading import Rows
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _


@dataclass(frozen=True, slots=True)
class Entry:
    """One question. ``title`` gives it in the chosen language, ``title_zh`` is what the
    Chinese catalogue must say. ``takes``: an instant or a
    window. ``spec``: the class whose fields are ``at`` or ``window``, ``by``, ``where``, ``explain``, ``confined``.
    ``units``: of its figures by name. ``metrics``: what ``/metrics`` tells of the same.
    ``conditions``: words that narrow and do not group, beside the dimensions."""

    number: int
    stem: str
    title: Callable[[], str]
    title_zh: str
    takes: Literal["instant", "window"]
    spec: type[Any]
    function: Callable[[Rows, Any], Answer]
    units: Mapping[str, str]
    metrics: Sequence[str]
    sources: Sequence[str]
    dimensions: Sequence[str]
    example: str
    conditions: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The command's and the route's name, such as ``q1``."""
        return f"q{self.number}"


_BOOK_METRICS: Final = ("steelyard_ledger_residual_gpu_seconds", "steelyard_coverage_ratio")
_QUEUE_METRICS: Final = (
    "steelyard_queue_wait_seconds",
    "steelyard_decisions_total",
    *(f"steelyard_quota_{amount}" for amount in queue_series.AMOUNTS),
)


def _units(figures: Mapping[str, tuple[str, str]]) -> Mapping[str, str]:
    return {**{name: unit for name, (unit, _method) in figures.items()}, "ledger_residual_gpu_us": "GPU-us"}


ANSWERS: Final[tuple[Entry, ...]] = (
    Entry(
        number=1,
        stem="q01_holders",
        title=q01_holders.title,
        title_zh="谁占着哪张 GPU、哪个 MIG 切片或 vGPU",
        takes="instant",
        spec=q01_holders.HoldersSpec,
        function=q01_holders.answer,
        units=_units(q01_holders.FIGURES),
        metrics=_BOOK_METRICS,
        sources=("kubernetes pods", "gpu inventory"),
        dimensions=tuple(sorted(dimensions.HOLDING)),
        example="steelyard q1 --at 2026-11-30T02:00:00Z --by tenant",
    ),
    Entry(
        number=2,
        stem="q02_consumption",
        title=q02_consumption.title,
        title_zh="申请、授予、使用各多少",
        takes="window",
        spec=q02_consumption.ConsumptionSpec,
        function=q02_consumption.answer,
        units=_units(q02_consumption.METHODS),
        metrics=_BOOK_METRICS,
        sources=("kubernetes pods", "gpu inventory", "gpu process memory"),
        dimensions=tuple(sorted(dimensions.POD_AND_PLACE)),
        example="steelyard q2 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --by tenant,model",
    ),
    Entry(
        number=3,
        stem="q03_utilisation",
        title=q03_utilisation.title,
        title_zh="每一 GPU 秒去了哪里",
        takes="window",
        spec=q03_utilisation.UtilisationSpec,
        function=q03_utilisation.answer,
        units={name: unit for name, (unit, _method) in q03_utilisation.METHODS.items()},
        metrics=(*_BOOK_METRICS, f"steelyard_{state_series.METRIC}"),
        sources=("kubernetes pods", "gpu inventory", "gpu samples"),
        dimensions=tuple(sorted(dimensions.STATE)),
        example="steelyard q3 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --by tenant",
    ),
    Entry(
        number=6,
        stem="q06_scheduling",
        title=q06_scheduling.title,
        title_zh="调度与配额是否按规则运行",
        takes="window",
        spec=q06_scheduling.SchedulingSpec,
        function=q06_scheduling.answer,
        units={name: unit for name, (unit, _method) in q06_scheduling.METHODS.items()},
        metrics=_QUEUE_METRICS,
        sources=("kubernetes pods", "events", "audit"),
        dimensions=tuple(sorted(dimensions.DEMAND)),
        conditions=q06_scheduling.CONDITIONS,
        example="steelyard q6 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --by queue,priority",
    ),
    Entry(
        number=7,
        stem="q07_overuse",
        title=q07_overuse.title,
        title_zh="谁用的比授予的多",
        takes="window",
        spec=q07_overuse.OveruseSpec,
        function=q07_overuse.answer,
        units={name: unit for name, (unit, _method) in q07_overuse.METHODS.items()},
        metrics=("steelyard_overuse_episodes", "steelyard_overuse_gpu_seconds"),
        sources=("kubernetes pods", "gpu inventory", "gpu process memory"),
        dimensions=tuple(sorted(dimensions.OVER_USE)),
        example="steelyard q7 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --by tenant,node",
    ),
    Entry(
        number=9,
        stem="q09_cost",
        title=q09_cost.title,
        title_zh="花了多少钱，谁花的",
        takes="window",
        spec=q09_cost.CostSpec,
        function=q09_cost.answer,
        units={name: unit for name, (unit, _method) in q09_cost.METHODS.items()},
        metrics=(f"steelyard_{cost_series.COSTS}", f"steelyard_{cost_series.UNPRICED}"),
        sources=("kubernetes pods", "gpu inventory", "price book"),
        dimensions=tuple(sorted(dimensions.COST)),
        example="steelyard q9 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --by namespace",
    ),
)


def entry(number: int) -> Entry:
    """The entry of Q``number``. Raises UsageError for a question that is not built, naming those that are."""
    for candidate in ANSWERS:
        if candidate.number == number:
            return candidate
    built = ", ".join(candidate.name for candidate in ANSWERS)
    raise UsageError(
        _("question {number} is not built in this version; these are: {built}").format(number=number, built=built)
    )
