"""Our own metrics as Prometheus text: base units, ``_total`` for counters, and no sample where a value is not known.

``health`` calls ``exposition``; ``Traffic`` counts requests by route as declared, never by what a client wrote, so their number is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from steelyard.answers import cost_series, overuse_series
from steelyard.answers.state_series import METRIC
from steelyard.definitions.money import MICRO
from steelyard.primitives.instant import SECOND_US
from steelyard.primitives.unknown import Unknown
from steelyard.surfaces.http_api.queue_families import queue_families
from steelyard.surfaces.shared.server_ports import Standing
from steelyard.surfaces.shared.service_ports import CollectorStatus

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], int | float | None]
"""Labels and value; None = not known, no sample."""


@dataclass(slots=True)
class Traffic:
    """Requests that were answered, by (route, method, status), and those under way."""

    answered: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    under_way: int = 0


def exposition(standing: Standing, traffic: Traffic, collectors: Sequence[CollectorStatus]) -> bytes:
    """The whole text."""
    residual = standing.residual_gpu_us
    coverage = None if isinstance(standing.coverage, Unknown) else standing.coverage
    posted = None if standing.posted_at is None else standing.posted_at / SECOND_US
    as_of = None if standing.as_of is None else standing.as_of / SECOND_US
    answered = [
        ({"route": route, "method": method, "status": str(status)}, count)
        for (route, method, status), count in sorted(traffic.answered.items())
    ]
    families = [
        _family("build_info", "gauge", "Always 1; the version that runs.", [({"version": version("steelyard")}, 1)]),
        _family(
            "ledger_residual_gpu_seconds",
            "gauge",
            "Supply minus the sum of all accounts, absolute, over all places and grains: 0, or the books do not close.",
            [({}, None if residual is None else residual / SECOND_US)],
        ),
        _family("coverage_ratio", "gauge", "Observed share of the supply over the last known day.", [({}, coverage)]),
        _family("posting_timestamp_seconds", "gauge", "When the ledgers last changed.", [({}, posted)]),
        _family("as_of_timestamp_seconds", "gauge", "The instant as of which the facts speak.", [({}, as_of)]),
        _family("http_requests_total", "counter", "Requests answered.", answered),
        _family("http_requests_under_way", "gauge", "Requests that are being answered.", [({}, traffic.under_way)]),
        *_of_life(standing, collectors),
        *_of_collectors(collectors),
        *(_lines(*family) for family in queue_families(standing.queues)),
        *_of_deviations(standing),
        *_of_free_shares(standing),
        _family(METRIC, "gauge", "GPU-time of the last booked day, by state and cause.", _of_states(standing)),
        *_of_over_use(standing),
        *_of_costs(standing),
    ]
    return "".join(families).encode("utf-8")


def _of_states(standing: Standing) -> Sequence[Sample]:
    return [
        ({"cluster": cluster, "state": state, "cause": cause}, amount / SECOND_US)
        for (cluster, state, cause), amount in standing.states.items()
    ]


def _of_over_use(standing: Standing) -> Iterable[str]:
    """Episodes that go on or ended within a day, and what they took."""
    names = [
        ({"cluster": cluster, "rule": rule, "severity": severity}, found)
        for (cluster, rule, severity), found in standing.over_use.items()
    ]
    counts = [(labels, episodes) for labels, (episodes, _taken) in names]
    yield _family(overuse_series.EPISODES, "gauge", "Episodes of over-use that go on or ended within a day.", counts)
    taken = [(labels, taken_us / SECOND_US) for labels, (_episodes, taken_us) in names]
    yield _family(overuse_series.GPU_SECONDS, "gauge", "GPU-time above grants of those episodes, seconds.", taken)


def _of_costs(standing: Standing) -> Iterable[str]:
    """Money of the last booked day, and GPU-time for which none stands."""
    costs = [
        ({"cluster": cluster, "account": account, "currency": currency}, micro / MICRO)
        for (cluster, account, currency), micro in standing.costs.costs.items()
    ]
    yield _family(cost_series.COSTS, "gauge", "What the last booked day cost, by account, in its currency.", costs)
    unpriced = [
        ({"cluster": cluster, "side": side, "reason": reason}, amount / SECOND_US)
        for (cluster, side, reason), amount in standing.costs.unpriced.items()
    ]
    text = "GPU-time of the last booked day that has no price, by side of the price book and reason."
    yield _family(cost_series.UNPRICED, "gauge", text, unpriced)


def _of_deviations(standing: Standing) -> Iterable[str]:
    """What is counted against what is true, where both sides were seen."""
    differences = [
        ({"cluster": cluster, "kind": kind}, mib) for (cluster, kind), mib in standing.deviations.mib.items()
    ]
    yield _family(
        "deviation_mib", "gauge", "Memory of cards, one word less another, MiB, as of their last word.", differences
    )
    found = [
        ({"cluster": cluster, "code": code}, count) for (cluster, code), count in standing.deviations.findings.items()
    ]
    yield _family("deviation_findings", "gauge", "Findings about what exporters say and the cluster does not.", found)


def _of_free_shares(standing: Standing) -> Iterable[str]:
    """What of the free part is of use to nobody, by measure."""
    texts = {
        "fragmentation_ratio": "Free share that no typical request can use, of the free share, by measure.",
        "trapped_ratio": "Free share that no typical request can use, of the supply, by measure.",
    }
    for name, text in texts.items():
        samples = [
            ({"measure": measure}, ratio) for (of, measure), ratio in standing.free_share_ratios.items() if of == name
        ]
        yield _family(name, "gauge", text, samples)


def _of_life(standing: Standing, collectors: Sequence[CollectorStatus]) -> Iterable[str]:
    """What an alert on silence stands on."""
    last = max((each.last_round_at for each in collectors if each.last_round_at is not None), default=None)
    yield _family("up", "gauge", "Always 1; missing, the server is silent.", [({}, 1)])
    yield _family(
        "last_round_timestamp_seconds", "gauge", "When any collector last ended a round.", [({}, _seconds(last))]
    )
    yield _family("agents_known", "gauge", "Node agents heard of in the last day.", [({}, standing.agents_known)])
    yield _family(
        "agents_silent", "gauge", "Of those, the ones not heard of for five minutes.", [({}, standing.agents_silent)]
    )


def _of_collectors(collectors: Sequence[CollectorStatus]) -> Iterable[str]:
    named = [({"collector": each.name}, each) for each in collectors]

    def family(name: str, kind: str, help_text: str, value: Callable[[CollectorStatus], int | float | None]) -> str:
        return _family(f"collector_{name}", kind, help_text, [(labels, value(each)) for labels, each in named])

    yield family("rounds_total", "counter", "Rounds ended.", lambda each: each.rounds_count)
    yield family("failures_total", "counter", "Rounds failed.", lambda each: each.failures_count)
    yield family("skipped_total", "counter", "Rounds not begun in time.", lambda each: each.skipped_count)
    yield family("rows_total", "counter", "Facts that were new.", lambda each: each.rows_count)
    yield family("up", "gauge", "Whether the last round saw anything.", _up)
    yield family(
        "consecutive_failures", "gauge", "Rounds failed in a row.", lambda each: each.consecutive_failures_count
    )
    yield family(
        "round_duration_seconds", "gauge", "How long the last round took.", lambda each: _seconds(each.last_duration_us)
    )
    yield family(
        "success_timestamp_seconds",
        "gauge",
        "When a round last succeeded.",
        lambda each: _seconds(each.last_success_at),
    )
    yield family(
        "next_round_timestamp_seconds",
        "gauge",
        "When the next round is due.",
        lambda each: _seconds(each.next_round_at),
    )


def _up(status: CollectorStatus) -> int | None:
    return None if status.state in ("starting", "stopped") else int(status.state in ("ok", "partial"))


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND_US


def _family(name: str, kind: str, help_text: str, samples: Sequence[Sample]) -> str:
    return _lines(name, kind, help_text, [("", labels, value) for labels, value in samples])


def _lines(
    name: str, kind: str, help_text: str, samples: Sequence[tuple[str, Mapping[str, str], int | float | None]]
) -> str:
    """A family as text; each sample has a suffix of its name (a histogram's), labels and a value."""
    known = [each for each in samples if each[2] is not None]
    if not known:
        return ""
    lines = [f"# HELP steelyard_{name} {help_text}", f"# TYPE steelyard_{name} {kind}"]
    lines += [f"steelyard_{name}{suffix}{_labels(labels)} {value!r}" for suffix, labels, value in known]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    plain = value.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
