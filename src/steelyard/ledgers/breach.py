"""The ledger of broken rules: who was served before whom against which rule, and what that cost. Its model is ``breach.sql``.

``fifo``: somebody of the same priority who asked later was served first; ``priority``: somebody of lower priority was. Under ``StrictFIFO``
either is a breach. Under ``BestEffortFIFO``, and in Volcano's queues, who does not fit may be passed: it is a breach only where the one who passed
asks for no less of anything and has the same flavors, so that what it was given would have done; all else is an ``overtaking``. ``weight``: a queue
with the larger weighted share was served above its quota. ``borrowing_limit``: a queue has reserved more than its quota and what it may borrow.
``preemption_policy``: a preemption that the preemptor's queue, or the victim's, does not allow.

The trick to know: nothing is charged on a suspicion. What is not known (flavors of one that still waits in a queue with several, a queue's use at the
instant, a policy that nobody saw) makes no breach. Cost is the victim's: its GPUs times its wait from the breach on.

Sceptic's query: ``SELECT * FROM dim.breach_overtaken WHERE demand_id = '...'`` beside ``kubectl get workloads -n N``.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = "GPUs of the victim x (end of its wait - the breach); of a limit: GPUs above it x time above it"

RULES: Final = ("fifo", "priority", "weight", "borrowing_limit", "preemption_policy")
KINDS: Final = ("breach", "overtaking")
