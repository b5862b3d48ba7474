"""May a tenant be added to this card? Yes, no, or nobody can tell, with the reason, by the card's last grain.

A card that is memory-bound or saturated has room only on paper: its free share is real and its bandwidth is spent. The trick to know: the verdict
looks at the card, not at the share that is free, and a card nobody measured gets no yes.

Sceptic's command: ``dcgmi dmon -i <gpu> -e 1001,1002,1005``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from steelyard.answers.card_spent import NOT_TOLD, CardSpent, UnheldMemory
from steelyard.answers.contract import Column, Table, Value
from steelyard.answers.reading import Record
from steelyard.answers.state_lines import HELD, NOT_KNOWN, hours
from steelyard.definitions.share import WHOLE_PPM
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import Instant, format_instant
from steelyard.primitives.unknown import Unknown

COLUMNS: Final = (
    Column("node"),
    Column("gpu"),
    Column("model"),
    Column("may_add_tenant"),
    Column("because"),
    Column("state"),
    Column("free_ratio", "1"),
    Column("tenants", "1"),
    Column("at"),
    Column("cluster"),
)
_LISTED_MAX: Final = 1_000


def cards_table(
    cards: Iterable[Record],
    last: Sequence[Record],
    spent: Mapping[tuple[str, str, Instant], CardSpent],
    unplaced: Collection[tuple[str, str | None, Instant]] = (),
    unheld: Mapping[tuple[str, str], UnheldMemory] | None = None,
) -> tuple[Table, int]:
    """One row per card, those that say no first; and how many more there are than are listed.

    ``last``: of each card the GPU-time by state in its last grain. ``spent``: of cards in grains. ``unplaced``: nodes and grains
    in which somebody holds cards that no source names. ``unheld``: memory that is in use and that nobody was granted. ``free_ratio``: the share of
    that grain that was free, less that memory.
    """
    by_card: dict[tuple[str, str], dict[str, int]] = {}
    instants: dict[tuple[str, str], Instant] = {}
    pods: dict[tuple[str, str], int] = {}
    for row in last:
        key = (row["cluster"], row["device_uuid"])
        by_card.setdefault(key, {})[row["state"]] = int(row["amount_gpu_us"])
        instants[key] = int(row["at_us"])
        pods[key] = max(pods.get(key, 0), int(row["pods_count"]))
    rows = []
    for card in cards:
        key = (card["cluster"], card["device_uuid"])
        states = by_card.get(key, {})
        told = spent.get((*key, instants[key]), NOT_TOLD) if key in instants else NOT_TOLD
        allowed, reason = verdict(card, states, told)
        if allowed == "yes" and (card["cluster"], card["node"], instants[key]) in unplaced:
            reason = _("a pod on its node holds cards that no source names: this may be one of them")
            allowed = Unknown(reason)
        free = states.get("free_waiting", 0) + states.get("free_no_demand", 0)
        total = sum(states.values())
        taken = (unheld or {}).get(key)
        if taken is not None and taken.at >= instants.get(key, taken.at) and allowed == "yes":
            free, allowed, reason = _less_unheld(free, total, taken, bool(pods.get(key)))
        rows.append(
            (
                card["node"],
                card["device_uuid"],
                card["model"],
                allowed,
                reason,
                _standing(states),
                float(Fraction(free, total)) if total else None,
                pods.get(key, 0),
                format_instant(instants[key]) if key in instants else None,
                card["cluster"],
            )
        )
    rows.sort(key=lambda row: (_ORDER.get(str(row[3]), 1), str(row[0]), str(row[1])))
    return Table("cards", COLUMNS, rows[:_LISTED_MAX]), max(0, len(rows) - _LISTED_MAX)


def _less_unheld(free_us: int, total_us: int, taken: UnheldMemory, is_held: bool) -> tuple[int, Value, str]:
    """GPU-time that is free beside memory that is in use and that nobody was granted, whether a tenant may be added to it, and the reason."""
    left = 0 if taken.unheld_ppm is None else max(0, free_us - -(-total_us * taken.unheld_ppm // WHOLE_PPM))
    why = _("{mib} MiB are in use on it that nobody was granted").format(mib=taken.unheld_mib)
    if left <= 0 and taken.unheld_ppm is not None:
        return 0, "no", _("{why}: no more is free of it").format(why=why)
    if taken.unheld_ppm is None or not is_held:
        return left, Unknown(why), why
    return left, "yes", _("a share is free and its bandwidth is not spent; {why}").format(why=why)


_ORDER: Final = {"no": 0, "yes": 2}


def _standing(states: Mapping[str, int]) -> str | None:
    """What most of the held share did; of a card that nobody held, what most of it was."""
    held = {name: amount for name, amount in states.items() if name in HELD and amount > 0} or states
    return max(held, key=lambda name: (held[name], name)) if held else None


def verdict(card: Record, states: Mapping[str, int], told: CardSpent) -> tuple[Value, str]:
    """``yes`` or ``no``, or Unknown, and the reason. ``states``: GPU-time of the card's last grain by state; ``told``: of the card itself in it."""
    if card.get("placeable") is False:
        return "no", _("nothing may be placed on it: {reason}").format(
            reason=card.get("state_reason") or card.get("state") or "?"
        )
    if not states:
        return Unknown(_("nothing is booked of this card")), _("nothing is booked of this card")
    if states.get("out_of_service", 0) or states.get("held_down", 0):
        return "no", _("it is out of service")
    held = sum(states.get(name, 0) for name in HELD)
    known = held - sum(states.get(name, 0) for name in NOT_KNOWN)
    if states.get("suspected_hang", 0):
        return "no", _("a hang is suspected on it: {hours} GPU-h").format(hours=_short(states["suspected_hang"]))
    if told.spent is not None:
        reasons = {
            "memory_bound": _("its memory bandwidth is spent"),
            "saturated": _("compute and memory bandwidth are spent"),
        }
        return "no", reasons[told.spent]
    if states.get("free_waiting", 0) + states.get("free_no_demand", 0) <= 0:
        if states.get("unobserved", 0) > 0:
            why = _("whether a share of it is free was not seen")
            return Unknown(why), why
        return "no", _("no share of it is free")
    if held and 2 * known < held:
        why = _("what its holders do is not known")
        return Unknown(why), why
    if not held and told.is_at_work:
        why = _("it is at work and nobody holds it")
        return Unknown(why), why
    if not held and not told.is_measured:
        return "yes", _("nobody holds it; whether its bandwidth is spent was not measured")
    return "yes", _("a share is free and its bandwidth is not spent")


def _short(amount_us: int) -> str:
    return f"{float(hours(amount_us)):.2f}"
