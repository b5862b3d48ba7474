"""Which questions the facts of a store can answer, as commands to go on with.

An import tells them at its end. The trick to know: the store as a whole is asked, and not what one import brought, since one question joins
many files.
"""

from __future__ import annotations

import shlex
from typing import Final

from steelyard.store import Store

_OF_HOLDINGS: Final = ("q1", "q2 --by tenant")
_OF_QUEUES: Final = "q6"
_HOLDINGS: Final = "SELECT EXISTS (FROM ledger.holding) OR EXISTS (FROM dim.device)"
_QUEUES: Final = "SELECT EXISTS (FROM ledger.wait) OR EXISTS (FROM fact.quota) OR EXISTS (FROM fact.decision) OR EXISTS (FROM fact.refusal)"
_TABLES: Final = "SELECT table_schema, table_name FROM information_schema.tables"
_NEEDED: Final = {("ledger", "holding"), ("ledger", "wait"), ("dim", "demand"), ("dim", "device")}
_LONGEST_WAIT: Final = """
SELECT coalesce(d.namespace || '/', '') || d.name
FROM ledger.wait AS w
JOIN dim.demand AS d ON d.cluster = w.cluster AND d.demand_id = w.demand_id
WHERE w.ended_at IS NULL AND w.stage IN ('queue', 'gate', 'scheduler', 'admission_check', 'backoff')
ORDER BY w.started_at, d.namespace, d.name
LIMIT 1
"""


def askable(store: Store) -> tuple[str, ...]:
    """The words of each command that has an answer: who holds what, use, scheduling, and the story of the request that waits longest.

    Empty where the ledgers that tell of it are not posted yet.
    """
    tables = {(schema, name) for schema, name in store.rows(_TABLES)}
    if not _NEEDED <= tables:
        return ()
    found: list[str] = []
    if store.rows(_HOLDINGS)[0][0]:
        found += _OF_HOLDINGS
    if store.rows(_QUEUES)[0][0]:
        found.append(_OF_QUEUES)
    found += [f"why {shlex.quote(name)}" for (name,) in store.rows(_LONGEST_WAIT)]
    return tuple(found)
