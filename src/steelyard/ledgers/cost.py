"""The cost ledger: what the estate cost, every place and grain divided among accounts, in integers. Its model is ``cost.sql``.

Identity, for each (place, grain): the accounts' amounts sum to its ``supply``, and their money to what the place cost: the price of one card in
that grain times its supply, floored once. Every higher level (node, tenant, cluster, fleet) is a plain sum. It refines ``ledger.supply``, window
by window, in steps that stand as tables: ``dim.cost_booked`` (supply as money looks at it), ``dim.cost_starting``, ``dim.cost_blocked``,
``dim.cost_stranded``, ``dim.cost_unused`` and ``dim.cost_idle`` (what becomes of the free share), ``dim.cost_amount``; ``dim.price_rate``
tells what holds for whom, ``dim.money_price`` what that is in each grain.

Rules that are decided here, beside ``definitions.md`` section 13:

- The price of a grain is the one that holds at its start. A card's lines are chosen by its cluster, model, kind (``mig`` where it is cut, else
  ``gpu``) and commitment.
- What lies beside a saturated or memory-bound holder is stranded for as long as its state lasts, at the mean free share of the grain. Of the rest
  that part is stranded which typical requests cannot use, by dominant share and popularity; without typical requests none.
- All that is free on a dedicated node is its owner's ``reserved_unused``. Of other idle share, as much is laid on owners of unused quota as they
  left unused and nobody borrowed, place after place, owner after owner.
- A place that only takes a transfer has negative ``idle``, ``unobserved`` and ``out_of_service`` beside its holders: what they hold of cards that
  nobody names.

Unknown: where no price holds, ``cost_micro`` is NULL and ``unpriced_reason`` says why; a use that no path measures has NULL bounds.

Sceptic's query: ``SELECT account, sum(cost_micro) FROM ledger.cost WHERE place_id = 'GPU-...' GROUP BY ALL`` beside the price book and the hours.
"""

from __future__ import annotations

from typing import Final

ACCOUNTS: Final = (
    "tenant",
    "idle",
    "stranded",
    "out_of_service",
    "unobserved",
    "platform_start",
    "reserved_unused",
    "overhead",
)
"""They add up to the supply of a place and grain, and to its cost."""

UNPRICED_REASONS: Final = (
    "no price",
    "model unknown",
    "price ambiguous",
    "price implausible",
    "price not known",
    "two currencies",
    "discount ambiguous",
    "share unknown",
)
"""Why a row of either money ledger has no money; the last two only in ``charge``."""
