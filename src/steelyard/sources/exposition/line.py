"""One line of a sample taken apart: series, value, stamp. Formats: Prometheus text 0.0.4 and what OpenMetrics adds to it.

The trick to know: every pattern matches from one fixed position and never gives a character back (possessive quantifiers), so the
time is linear in the line whatever stands in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import SourceMalformed
from steelyard.primitives.instant import AT_OBSERVATION, INSTANT_MAX, INSTANT_MIN, Instant

LINE_CHARACTERS_MAX: Final = 65_536
LABELS_MAX: Final = 200
NAME_CHARACTERS_MAX: Final = 1_000

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+", re.ASCII)
_QUOTED: Final = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LABEL: Final = re.compile(rf"[ \t]*+(?:([a-zA-Z_][a-zA-Z0-9_]*+)|{_QUOTED})[ \t]*+(?:=[ \t]*+{_QUOTED}[ \t]*+)?+")
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+\Z", re.ASCII)
_SPECIAL: Final = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})
_DIGITS_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Sample:
    """A line read in full. ``end``: where the series text ends in the line. ``repeated``: label names that stand there twice."""

    name: str
    labels: dict[str, str]
    value: float
    at: Instant
    end: int
    repeated: tuple[str, ...]


def parse_line(line: str, number: int, *, seconds: bool) -> Sample:
    """The sample in a line. ``seconds``: stamps are seconds (OpenMetrics), else milliseconds. An exemplar is passed over.

    A label name that stands twice keeps its first value (a sender writes its own labels before those it copies from pods).
    Raises SourceMalformed with the line's number and text.
    """
    if len(line) > LINE_CHARACTERS_MAX:
        raise SourceMalformed(f"expected at most {LINE_CHARACTERS_MAX} characters, found {len(line)}", number, line)
    try:
        start = len(line) - len(line.lstrip(" \t"))
        match = _NAME.match(line, start)
        name, end = (match.group(), match.end()) if match else ("", start)
        while end < len(line) and line[end] in " \t":
            end += 1
        labels: dict[str, str] = {}
        repeated: tuple[str, ...] = ()
        if end < len(line) and line[end] == "{":
            name, labels, repeated, end = _labels(line, end + 1, name)
        if not name or len(name) > NAME_CHARACTERS_MAX:
            raise ValueError("expected the name of a metric")
        value, at = parse_rest(line[end:], seconds=seconds)
    except ValueError as error:
        raise SourceMalformed(str(error), number, line) from None
    return Sample(name, labels, value, at, end, repeated)


def _labels(line: str, position: int, name: str) -> tuple[str, dict[str, str], tuple[str, ...], int]:
    """Name, labels, repeated names, and where the text goes on after the closing brace. Raises ValueError."""
    labels: dict[str, str] = {}
    repeated: list[str] = []
    for _ in range(LABELS_MAX + 1):
        while position < len(line) and line[position] in " \t":
            position += 1
        if position < len(line) and line[position] == "}":
            return name, labels, tuple(repeated), position + 1
        match = _LABEL.match(line, position)
        if match is None:
            raise ValueError('expected a label such as name="value"')
        plain, quoted, written = match.groups()
        label = plain if plain is not None else _unescape(quoted)
        if written is None:
            if plain is not None or name:
                raise ValueError('expected a label such as name="value"')
            name = label
        elif label in labels:
            repeated.append(label)
        else:
            labels[label] = _unescape(written)
        position = match.end()
        if position < len(line) and line[position] == ",":
            position += 1
        elif position >= len(line) or line[position] != "}":
            raise ValueError("expected a comma or a closing brace after a label")
    raise ValueError(f"expected at most {LABELS_MAX} labels")


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match.group(1) == "n" else match.group(1), text)


def parse_rest(text: str, *, seconds: bool) -> tuple[float, Instant]:
    """Value and stamp of what follows the series text; AT_OBSERVATION without a stamp. Raises ValueError."""
    fields = text.partition(" # ")[0].split()
    if not 1 <= len(fields) <= 2:
        raise ValueError(f"expected a value and at most one timestamp, found {len(fields)} fields")
    value = parse_value(fields[0])
    return value, parse_stamp(fields[1], seconds=seconds) if len(fields) == 2 else AT_OBSERVATION


def parse_value(text: str) -> float:
    """A sample's value; NaN and infinities are values. Raises ValueError where it is none (blanks, underscores, other scripts)."""
    if (len(text) <= _DIGITS_MAX and _NUMBER.match(text)) or text.casefold() in _SPECIAL:
        return float(text)
    raise ValueError(f"expected a number, found {text[:60]!r}")


def parse_stamp(text: str, *, seconds: bool) -> Instant:
    """A stamp in milliseconds, or in seconds where OpenMetrics says so, as an instant. Raises ValueError."""
    if len(text) > 40 or not _NUMBER.match(text):
        raise ValueError(f"expected a timestamp, found {text[:60]!r}")
    if seconds:
        whole, _, fraction = text.partition(".")
        exact = whole.lstrip("+-").isdecimal() and fraction.isdecimal()
        micros = float(text) * 1e6
        if abs(micros) < 2**62 and exact:
            part = int(fraction[:6].ljust(6, "0"))
            at = int(whole) * 1_000_000 + (-part if whole.startswith("-") else part)
        else:
            at = round(micros) if abs(micros) < 2**62 else INSTANT_MAX + 1
    else:
        if not text.lstrip("+-").isdecimal():
            raise ValueError(f"expected a timestamp in whole milliseconds, found {text[:60]!r}")
        at = int(text) * 1_000
    if not INSTANT_MIN <= at <= INSTANT_MAX:
        raise ValueError(f"expected a timestamp in the years 1 to 9999, found {text[:60]!r}")
    return at
