"""The last round as Prometheus' text: what a site scrapes that does not let agents deliver.

``metrics_port`` answers with it. The trick to know: what is said only now and then (the inventory, the grants) is repeated in each answer with the
stamp at which it was so, because a scrape may come between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from steelyard.facts.base import Fact
from steelyard.facts.device import Device
from steelyard.facts.event import Event
from steelyard.facts.grant import Grant
from steelyard.facts.metric_sample import MetricSample
from steelyard.facts.unit import Unit
from steelyard.sources.agent_metrics import FAMILIES
from steelyard.sources.agent_metrics.catalogue import Family, label_of

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_INVENTORY: Final = (Device, Unit, Grant)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_MILLISECOND_US: Final = 1_000
EVENT_SERIES_MAX: Final = 1_000


class Board:
    """What is shown: of each source its last inventory, of each counter its last value, of everything else the last round."""

    def __init__(self) -> None:
        self._inventory: dict[str, list[Fact]] = {}
        self._counters: dict[str, Fact] = {}
        self._round: list[Fact] = []
        self._events: dict[tuple[str, str, str], int] = {}

    def take(self, facts: Iterable[Fact]) -> None:
        """Show this round from now on."""
        inventory: dict[str, list[Fact]] = {}
        self._round = []
        for fact in facts:
            if isinstance(fact, _INVENTORY):
                inventory.setdefault(fact.source, []).append(fact)
            elif isinstance(fact, MetricSample):
                self._counters[fact.natural_key] = fact
            elif isinstance(fact, Event):
                self._count(fact)
            else:
                self._round.append(fact)
        self._inventory.update(inventory)

    def facts(self) -> Iterator[Fact]:
        """Everything that is shown as facts."""
        for facts in self._inventory.values():
            yield from facts
        yield from self._counters.values()
        yield from self._round

    def text(self, own: Mapping[str, tuple[str, float]] | None = None) -> bytes:
        """The exposition. ``own``: further metrics about the agent itself, name -> (help, value)."""
        lines: list[str] = []
        shown = list(self.facts())
        for family in FAMILIES:
            lines += _family([fact for fact in shown if isinstance(fact, family.fact)], family)
        events = "Messages of the driver in the kernel's log since the agent began, by card and code."
        lines += [f"# HELP steelyard_agent_events_total {events}", "# TYPE steelyard_agent_events_total counter"]
        for (kind, card, code), count in self._events.items():
            labels = _labels({"kind": kind, "card": card, "code": code})
            lines.append(f"steelyard_agent_events_total{labels} {count}")
        for name, (text, value) in (own or {}).items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {_value(value)}"]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")

    def _count(self, event: Event) -> None:
        key = (event.kind, event.device_uuid or event.pci_address or "", "" if event.code is None else str(event.code))
        if key in self._events or len(self._events) < EVENT_SERIES_MAX:
            self._events[key] = self._events.get(key, 0) + event.count


def _family(facts: list[Fact], family: Family) -> Iterator[str]:
    """The metrics of one class, each with its samples together, as the format wants it."""
    if not facts:
        return
    yield from (f"# HELP {family.presence} {family.help}", f"# TYPE {family.presence} gauge")
    for fact in facts:
        columns = {label_of(name): getattr(fact, name) for name in family.labels}
        if family.key is None:
            columns |= {"source": fact.source, "key": fact.natural_key}
        value = 1 if family.value is None else getattr(fact, family.value)
        if value is not None:
            yield f"{family.presence}{_labels(columns)} {_value(value)} {_stamp(fact)}"
    keyed = [(fact, _labels({label_of(name): getattr(fact, name) for name in family.keys})) for fact in facts]
    for figure in family.figures:
        samples = [
            (fact, labels, value) for fact, labels in keyed if (value := getattr(fact, figure.column)) is not None
        ]
        if samples:
            yield from (f"# HELP {figure.metric} {figure.help}", f"# TYPE {figure.metric} gauge")
        for fact, labels, value in samples:
            scaled = value * figure.times / figure.over if figure.over != 1 else value * figure.times
            yield f"{figure.metric}{labels} {_value(scaled)} {_stamp(fact)}"
    if family.unknown is not None:
        yield from (f"# HELP {family.unknown} Why a figure is not known.", f"# TYPE {family.unknown} gauge")
        for fact in facts:
            keys = {label_of(name): getattr(fact, name) for name in family.keys}
            reasons: dict[str, str] = msgspec.json.decode(getattr(fact, "unknown", "{}"), type=dict[str, str])
            for column, reason in reasons.items():
                yield f"{family.unknown}{_labels({**keys, 'column': column, 'reason': reason})} 1 {_stamp(fact)}"


def _labels(columns: Mapping[str, Any]) -> str:
    """The labels of those columns that are known; an unknown one has none."""
    parts = [f'{name}="{_word(value)}"' for name, value in columns.items() if value is not None and value != ""]
    return f"{{{','.join(parts)}}}" if parts else ""


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).translate(_ESCAPES)


def _value(value: float) -> str:
    """In as many digits as bring the same number back."""
    return str(value) if isinstance(value, int) else repr(float(value))


def _stamp(fact: Fact) -> int:
    return fact.occurred_at // _MILLISECOND_US
