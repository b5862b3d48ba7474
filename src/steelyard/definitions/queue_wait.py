"""What counts as waiting, from when to when, and what of it can be known: the stages of a request on its way to a running pod.

The model of ledger ``wait`` goes by these rules; the words stand here once. A request is a list of waits: the first starts when it is created,
each further one when the quota of the run before is given back (where a back-off was set, when that is over), and each ends when quota is
reserved. Between decision and give-back lies ``release_lag``, between reservation and admission ``admission_check``: neither is waiting in the
queue. The trick to know: an object tells only its last change of each kind, and a controller's own clock restarts at a stamp that it does not
always move; so a wait is known only where all evictions of the request were seen. Of the others the ledger has a row with its reason,
whose length is the most that it can have been.

Sceptic's command: ``kubectl get workload W -o jsonpath='{.metadata.creationTimestamp} {.status.conditions[?(@.type=="QuotaReserved")]}'``.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
FORMULA: Final = "waits of a request: [created, reserved), then [released or end of back-off, reserved) per eviction; pods: [created, scheduled)"

STAGES: Final = ("queue", "release_lag", "backoff", "admission_check", "gate", "scheduler", "starting")
"""``queue``: for quota (Kueue) or for the gang (Volcano). ``gate``: a pod that no scheduler may look at yet."""

STEPS: Final = (
    "created",
    "evicted",
    "released",
    "backoff_until",
    "ungated",
    "reserved",
    "admitted",
    "scheduled",
    "running",
    "finished",
    "abandoned",
)
"""The vocabulary of ``dim.step``, in the order that holds among steps of one instant: stamps have seconds, and a request that lost its quota may
have it again within one."""

WAITING: Final = {"workload": "queue", "pod_group": "queue", "pod": "scheduler"}
"""The stage by kind of demand whose length is the queueing delay."""

ENDS: Final = (
    "reserved",
    "admitted",
    "scheduled",
    "running",
    "evicted",
    "released",
    "requeued",
    "ungated",
    "abandoned",
)
"""What ends a stage: a row that has an end names one of them. ``released``: the quota of a run was given back. ``requeued``: the back-off was over.
``ungated``: a scheduler may look at the pod."""

SERVED: Final = ("reserved", "scheduled", "running")
"""What ends a wait as an event; all else, and no end, censors it."""

EVICTIONS_LOST: Final = "evictions_not_seen"
RESERVATION_LOST: Final = "reservation_not_seen"
RELEASE_LOST: Final = "release_not_seen"
REACTIVATION_LOST: Final = "reactivation_not_seen"
RESTARTED: Final = "restarted"
NOT_STAMPED: Final = "end_not_stamped"
GATE_UNKNOWN: Final = "gate_not_seen"
WORKLOAD_UNSEEN: Final = "workload_not_seen"
CREATION_LOST: Final = "creation_not_seen"
UNKNOWN_REASONS: Final = (
    EVICTIONS_LOST,
    RESERVATION_LOST,
    RELEASE_LOST,
    REACTIVATION_LOST,
    RESTARTED,
    NOT_STAMPED,
    GATE_UNKNOWN,
    WORKLOAD_UNSEEN,
    CREATION_LOST,
)
"""Why a wait cannot be recovered. Such a row's length is the most that its waits take together; but of ``creation_not_seen``, where no object
was seen, it is what its controller claims, else 0."""
