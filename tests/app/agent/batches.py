"""Facts as an agent has them, by the dozen."""

from __future__ import annotations

from steelyard.app.agent.batch import PROTOCOL, Head, encode
from steelyard.facts.base import Fact
from steelyard.facts.device_sample import DeviceSample
from steelyard.facts.event import Event
from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import SECOND_US, parse_instant

AT = parse_instant("2026-11-30T12:00:00Z")
NODE = "gpu-1"
CARD = "GPU-aaaaaaaa-0000-4000-8000-000000000001"


def sample(number: int, card: str = CARD) -> DeviceSample:
    """The sample of the n-th round, ten seconds after the one before."""
    at = AT + 10 * number * SECOND_US
    return DeviceSample(
        source="agent", natural_key=card, occurred_at=at, observed_at=at, device_uuid=card, power_watts=100.0 + number
    )


def event(number: int) -> Event:
    """The n-th event."""
    at = AT + number * SECOND_US
    return Event(
        source="kernel_log",
        natural_key=f"xid/{number}",
        occurred_at=at,
        observed_at=at,
        kind="xid",
        code=31,
        node=NODE,
        message=f"line {number}",
    )


def status(number: int) -> SourceStatus:
    """That the agent was there in the n-th round."""
    at = AT + 10 * number * SECOND_US
    return SourceStatus(
        source="agent",
        natural_key=f"agent/node/{NODE}",
        occurred_at=at,
        observed_at=at,
        kind="agent",
        scope=f"node/{NODE}",
    )


def head(sequence: int = 1, boot: str = "boot-a", **more: object) -> Head:
    return Head(**{"protocol": PROTOCOL, "agent": NODE, "boot": boot, "sequence": sequence, "made_at": AT, **more})  # type: ignore[arg-type]


def body(sequence: int, *facts: Fact, boot: str = "boot-a", **more: object) -> bytes:
    """A batch on the wire."""
    return encode(head(sequence, boot, **more), facts)
