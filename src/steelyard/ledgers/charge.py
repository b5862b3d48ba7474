"""The charge ledger: what tenants are asked for, by declared share, independent of neighbours. Its model is ``charge.sql``.

Each row is rounded by itself, half up: ``list = price of the grain x quantity``, the discount from the rounded list price, ``charge = list -
discount``. What a card's rows sum to is not what it cost: the difference is over- or under-recovery, and is shown as such.

Rules that are decided here, beside ``definitions.md`` section 13:

- A holder's ``grant`` runs from the charge start (policy) to the end of its holding, less the time in which what it holds was down; that is
  ``held_down``, a quantity with charge 0. Reservations and claims in suspense are nobody's charge.
- ``burst`` (policy) is the compute that samples showed above a grant, as ``ledger.excess`` has it; ``reserved_unused`` (policy) is what the cost
  ledger has in its owner's account, priced as a whole card of the place for that tenant.
- A share that is not known counts its least, and has no price.

Sceptic's query: ``SELECT line, sum(quantity_gpu_us) / 3.6e9, sum(charge_micro) FROM ledger.charge WHERE pod_uid = '...' GROUP BY ALL`` beside
the pod's request, its times and the price book.
"""

from __future__ import annotations

from typing import Final

LINES: Final = ("grant", "held_down", "burst", "reserved_unused")
