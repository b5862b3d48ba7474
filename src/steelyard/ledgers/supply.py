"""The supply ledger: where every GPU-second of every place went, in integers, per place and grain. Its model is ``supply.sql``.

Identity, for each (place, grain) in GPU, memory and compute alike: ``supply = held + held_unplaced + reserved + in_suspense + free +
unobserved``. ``overcommitted`` is a memo outside it: what holders asked beyond the place. Built in steps that stand as tables, each to be
looked at by itself: ``dim.measured_hour`` (the samples, one bit a minute), ``dim.node_capacity`` (counted cards), ``dim.supply_site`` (places and
when they have supply), ``dim.supply_stretch`` (stretches in which the state of a site does not change), ``dim.supply_claim`` (holdings, scaled
and cut by those stretches), ``dim.supply_room`` (what is left where holders lie on
unknown cards), ``dim.supply_piece`` (what each takes); ``supply.sql`` cuts into grains and takes the balance.

Rules that are decided here, beside ``definitions.md`` section 3:

- A card's supply runs from its first sighting, measured sample or holding to the last of them (to the end of a sample that stands for
  two minutes or more); a gap between two cards of one slot is posted to place ``slot``.
- A sample without any figure is no measurement. A card is up in the minutes of its measured samples, an hour a sample at most.
- Lost: from the sighting or kernel event (Xid 79, fell off the bus) to the next sighting that says the card is well.
- Not ready: a node's spell runs from its transition to the transition back; a later transition in between means that it was ready for a
  while nobody saw, so the spell ends at its last sighting. Free time is down after 300 s, a holder after its own toleration.
- A holder whose share is not known holds its least; while it is there, the rest of the place is unobserved.
- A place without a capacity basis has supply equal to what is held there (finding ``supply_unknown``), and so has a counted node at times for
  which nobody declares a count; a node whose cards are known one by one, and a cluster, only take a transfer: ``held_unplaced`` beside ``free``
  and ``unobserved`` negative by the same amount. What it takes is free first, then unobserved, then out of service, never more than its cards have
  left: over a node with its cards no account is negative. The rest is ``overcommitted``.
- Nothing is posted further back than ``history_days_max`` before the latest evidence (default ten years), nor more than a day after it: stamps
  beyond are evidence of no time (finding ``stamp_implausible``), spans beyond are posted as far as they lie within (``span_not_posted``).
- Amounts are floored once per holder, grain and class (account of the remainder, service of place and holder).

Unknown: ``memory_mib_us`` is NULL where the memory of the place's cards is not known, but for holders whose grant states its own, and
for supply that is booked as held where all of these do; service ``unknown`` is not ``up``.

Sceptic's query: ``SELECT account, service, sum(amount_gpu_us) / 3.6e9 FROM ledger.supply WHERE place_id = 'GPU-...' GROUP BY ALL`` beside
``nvidia-smi -L`` and the hours between the first and the last sighting.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "supply = held + held_unplaced + reserved + in_suspense + free + unobserved, per place and grain, in integers"
)

ACCOUNTS: Final = ("held", "held_unplaced", "reserved", "in_suspense", "free", "unobserved")
"""The side opposite to ``supply``."""

SUPPLY: Final = "supply"
OVERCOMMITTED: Final = "overcommitted"
SERVICES: Final = ("up", "unknown", "down")
