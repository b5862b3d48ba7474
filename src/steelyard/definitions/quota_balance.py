"""The balance of a queue's quota at one moment: what of its use is its own, what is borrowed or above, and what is reserved and not used.

Amounts are thousandths of a card (of a MIG instance, of a slot: whatever the resource counts), integers; None stands for not known and
is never 0. Two identities hold wherever both sides are known: ``used = within nominal + borrowed + over nominal``, and
``max(reserved, used) = used + reserved not used``. Kueue has no lender: borrowing is from the pool, so what is lent is known of the pool alone.

Sceptic's command: ``kubectl get clusterqueue -o yaml`` (``status.flavorsUsage``) beside the pods that run.
"""

from __future__ import annotations

import re
from typing import Final

VERSION: Final = "1"
FORMULA: Final = (
    "borrowed = max(0, used - nominal) in a cohort, else over nominal; reserved not used = max(0, reserved - used); "
    "idle = nominal - max(reserved, used)"
)

LEAK_GRACE_MINUTES: Final = 10
"""Admitted and without a live pod for longer than this is leaked."""

WAIT_CEILING_MINUTES: Final = 60
"""A request within its queue's own quota that waited no longer than this was fulfilled."""

MILLI_MAX: Final = 1_000_000_000
"""A million cards: an amount beyond is no quota of cards but a way to write "without limit", and its integral would not fit."""

_CARD_WORDS: Final = (
    "gpu|npu|xpu|dcu|gcu|ppu|mlu|tpu|pgpu|gpu-number|vgpu-number|i915|xe|gaudi|vmlu|dcunum|sgpu|vgpu|vxpu|vgcu|shared-gcu|neuron|"
    "neurondevice|neuroncore"
)
_COUNTING: Final = re.compile(
    rf"(?:requests\.)?(?:gpu|[^/]+/(?:(?:{_CARD_WORDS})(?:\.shared)?|mig-[^/]+|Ascend[^/]+|mlu[^/.]+|mlu[^/]+\.s(?:hare|mlu)|[^/]+-vgpu))",
    re.ASCII,
)


def counts_accelerators(resource: str) -> bool:
    """Whether a quota of this resource counts cards, MIG instances or slots of cards, rather than memory, cores or anything else."""
    return _COUNTING.fullmatch(resource) is not None and not resource.endswith("-memory")


def amount_milli(milli: int | None) -> int | None:
    """The amount where it can be one of cards; None beyond ``MILLI_MAX``, where it says "without limit"."""
    return milli if milli is not None and -MILLI_MAX <= milli <= MILLI_MAX else None


def above_milli(used: int | None, nominal: int | None) -> int | None:
    """What is used above nominal: borrowed in a cohort, over nominal elsewhere."""
    return None if used is None or nominal is None else max(0, used - nominal)


def within_milli(used: int | None, nominal: int | None) -> int | None:
    """What is used within nominal."""
    return None if used is None or nominal is None else min(used, nominal)


def reserved_not_used_milli(reserved: int | None, used: int | None) -> int | None:
    """What is reserved and not used."""
    return None if reserved is None or used is None else max(0, reserved - used)


def spare_milli(nominal: int | None, reserved: int | None, used: int | None) -> int | None:
    """What is left of nominal by the larger of what is reserved and used, below 0 where that is more; None where neither is known."""
    taken = [amount for amount in (reserved, used) if amount is not None]
    return None if nominal is None or not taken else nominal - max(taken)
