"""What to do next, from where the GPU-time went: the largest avoidable part first, with the owner and a command to look at it.

Every line is drawn from amounts of the answer itself; nothing is advised of a state that has no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from steelyard.answers.contract import Table
from steelyard.answers.reading import Record
from steelyard.answers.state_lines import StateLine, hours, total_us
from steelyard.answers.state_tables import owner_of
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import HOUR_US, Instant, format_instant

ACTIONS_MAX: Final = 8
_LEAST_US: Final = HOUR_US // 10


def next_actions(
    lines: Sequence[StateLine],
    worst: Sequence[tuple[Record, int]],
    since: Mapping[tuple[str, str], Instant],
    pending: Table,
) -> list[str]:
    """At most ``ACTIONS_MAX`` lines. ``worst``: the holders that wasted most, with what they wasted."""
    found: list[tuple[int, str]] = [
        (wasted, _holder(record, wasted, since)) for record, wasted in worst if wasted >= _LEAST_US
    ]
    for state, causes, text in _ADVICE:
        amount = sum(
            line.amount_us
            for line in lines
            if line.record["state"] == state and (causes is None or line.record["cause"] in causes)
        )
        if amount >= _LEAST_US:
            found.append((amount, text().format(hours=_short(amount))))
    missing = [
        line for line in lines if line.record["state"] == "held_unknown" and "1002" in (line.record["cause"] or "")
    ]
    if total_us(missing) >= _LEAST_US:
        found.append(
            (
                total_us(missing),
                _(
                    "{hours} GPU-h are held and cannot be judged without SM_ACTIVE (1002): add DCGM_FI_PROF_SM_ACTIVE to the exporter's counters"
                ).format(hours=_short(total_us(missing))),
            )
        )
    ordered = sorted(found, key=lambda entry: (-entry[0], entry[1]))
    return [text for _amount, text in ordered[:ACTIONS_MAX]]


_ADVICE: Final[tuple[tuple[str, Sequence[str] | None, Callable[[], str]], ...]] = (
    (
        "free_waiting", ("quota",),
        lambda: _("{hours} GPU-h were free while requests waited for quota: raise it or let it be borrowed (`steelyard q6`)"),
    ),
    (
        "free_waiting", ("fragmentation",),
        lambda: _("{hours} GPU-h were free in pieces too small for what waited: move or resize holders"),
    ),
    (
        "free_waiting", ("gang",),
        lambda: _("{hours} GPU-h were free while gangs waited to be whole: look at the incomplete ones (`steelyard q6`)"),
    ),
    (
        "free_waiting", ("placement",),
        lambda: _("{hours} GPU-h were free where taints, affinity or topology let nobody in (`steelyard why POD`)"),
    ),
    (
        "free_waiting", ("scheduler",),
        lambda: _("{hours} GPU-h were free while the scheduler had not yet decided: look at its queue and its latency"),
    ),
    ("out_of_service", None, lambda: _("{hours} GPU-h were out of service and held by nobody: repair or replace the cards")),
    (
        "held_unknown", ("telemetry",),
        lambda: _(
            "{hours} GPU-h were held and no sample covers them: `steelyard doctor` names what is missing; samples without a declared interval "
            "stand for no time (import them with --expected-interval 60s, or as often as they come)"
        ),
    ),
    (
        "held_unknown", ("instance",),
        lambda: _(
            "{hours} GPU-h of GPU instances cannot be judged, for nobody tells which of the exporter's instances they are: read "
            "nvidia-smi -q beside nvidia-smi -L, or let the exporter name pods"
        ),
    ),
    (
        "held_unattributed", None,
        lambda: _("{hours} GPU-h on shared cards have no path to their pods: read the sharing layer's monitor or run the node agent"),
    ),
)  # fmt: skip


def _holder(record: Record, wasted: int, since: Mapping[tuple[str, str], Instant]) -> str:
    at = since.get((record["cluster"], record["pod_uid"]))
    return _("{pod} of {owner} wasted {hours} GPU-h{since}: ask {person}, or take the card back").format(
        pod=f"{record.get('namespace')}/{record.get('pod')}",
        owner=owner_of(record),
        hours=_short(wasted),
        since=_(", without work since {at}").format(at=format_instant(at)) if at is not None else "",
        person=record.get("person") or record.get("tenant") or _("its owner"),
    )


def _short(amount_us: int) -> str:
    return f"{float(hours(amount_us)):.1f}"
