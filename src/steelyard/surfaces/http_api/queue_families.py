"""Queues as families of Prometheus text: waits as a histogram, decisions as counters, quota in cards.

``exposition`` prints them. An amount that is not known has no sample; what comes without a queue (a pod that a scheduler placed) has an empty
label, which to Prometheus is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from steelyard.answers.queue_series import AMOUNTS, BOUNDS_US, QueueSeries
from steelyard.primitives.instant import SECOND_US

Family = tuple[str, str, str, Sequence[tuple[str, Mapping[str, str], int | float | None]]]
"""Name, type, help, and samples: (suffix of the name, labels, value)."""

_HELP: Final = {
    "nominal": "Cards that the queue's own quota is.",
    "reserved": "Cards that are reserved for its requests.",
    "used": "Cards that its pods hold; where pods were not seen, what its controller says.",
    "borrowed": "Cards used beyond its own quota, out of its cohort.",
    "leaked": "Cards that stay reserved without a live pod.",
}


def queue_families(series: QueueSeries) -> Iterator[Family]:
    """All families; those without a sample are left to the caller to leave out."""
    text = "How long requests waited for what they asked, known waits that ended, by queue."
    yield "queue_wait_seconds", "histogram", text, list(_wait_samples(series))
    decisions = [
        ("", {"cluster": cluster, "queue": queue, "verdict": verdict, "cause": cause}, count)
        for (cluster, queue, verdict, cause), count in series.decisions.items()
    ]
    yield "decisions_total", "counter", "Decisions about requests, by verdict and cause.", decisions
    for number, name in enumerate(AMOUNTS):
        samples = [
            (
                "",
                {"cluster": cluster, "kind": kind, "queue": queue, "flavor": flavor, "resource": resource},
                _cards(amounts[number]),
            )
            for (cluster, kind, queue, flavor, resource), amounts in series.quotas.items()
        ]
        yield f"quota_{name}", "gauge", _HELP[name], samples


def _wait_samples(series: QueueSeries) -> Iterator[tuple[str, Mapping[str, str], int | float]]:
    for (cluster, queue), waits in series.waits.items():
        labels = {"cluster": cluster, "queue": queue}
        *below, count = accumulate(waits.buckets)
        for bound, within in zip(BOUNDS_US, below, strict=True):
            yield "_bucket", {**labels, "le": str(bound // SECOND_US)}, within
        yield "_bucket", {**labels, "le": "+Inf"}, count
        yield "_sum", labels, waits.total_us / SECOND_US
        yield "_count", labels, count


def _cards(milli: int | None) -> float | None:
    return None if milli is None else milli / 1_000
