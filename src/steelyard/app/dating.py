"""Which instant the files of a command stand for: one for all of them, except where they hold several snapshots.

Files of one snapshot (pods, nodes, events, a card's readings without a stamp) take one instant, the latest plausible stamp in any of them,
because the newest stamp may stand in another file than the pods. The trick to know: two complete listings of pods of the same scope cannot
be of one snapshot unless they are the same, so where a command has several with different latest stamps, as a folder of daily dumps has,
each of them is dated by its own. ``--as-of`` is a person's word for all files and wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.app.parsing import ParsedFile
from steelyard.primitives.instant import DAY_US, DurationUs, Instant, format_instant

DECLARED: Final = "declared"
INFERRED: Final = "inferred"
FILE_TIME: Final = "file_time"

FUTURE_US: Final[DurationUs] = DAY_US
"""A declared instant may be ahead of this machine's clock by so much."""

INTERVAL_MAX_US: Final[DurationUs] = 366 * DAY_US
"""Nobody lists an estate less often; a longer interval is a slip of the hand."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """The instant that the import's snapshots stand for, and its basis: declared, inferred (from stamps) or file_time."""

    instant: Instant
    basis: str


def as_of_command(parsed: Sequence[ParsedFile], declared: Instant | None, now: Instant) -> AsOf:
    """The declared instant, else the latest plausible stamp of all files, else the latest time of a file, else now."""
    if declared is not None:
        return AsOf(declared, DECLARED)
    stamps = [each.latest for each in parsed if each.latest is not None]
    if stamps:
        return AsOf(max(stamps), INFERRED)
    times = [each.modified_at for each in parsed if each.modified_at is not None]
    return AsOf(max(times, default=now), FILE_TIME)


def as_of_files(parsed: Sequence[ParsedFile], command: AsOf) -> list[AsOf]:
    """Each file's instant: the command's, but its own latest stamp for a complete listing of pods where others of its scope have another."""
    stamps: dict[str, set[Instant]] = {}
    if command.basis != DECLARED:
        for each in parsed:
            if each.later.pod_listing is not None and each.latest is not None:
                stamps.setdefault(each.later.pod_listing.scope, set()).add(each.latest)
    return [
        AsOf(each.latest, INFERRED)
        if each.latest is not None
        and each.later.pod_listing is not None
        and len(stamps.get(each.later.pod_listing.scope, ())) > 1
        else command
        for each in parsed
    ]


def disagreements(
    parsed: Sequence[ParsedFile], instants: Sequence[AsOf]
) -> Iterator[tuple[ParsedFile, Mapping[str, object]]]:
    """Files that list other pods than an earlier file of the command does for the same scope and instant, with the evidence."""
    first: dict[tuple[str, Instant], ParsedFile] = {}
    for each, as_of in zip(parsed, instants, strict=True):
        listing = each.later.pod_listing
        if listing is None:
            continue
        other = first.setdefault((listing.scope, as_of.instant), each)
        told = other.later.pod_listing
        if told is not None and told.content != listing.content:
            yield (
                each,
                {
                    "scope": listing.scope,
                    "instant": format_instant(as_of.instant),
                    "other_file": other.file.name,
                    "pods": listing.count,
                    "pods_in_other": told.count,
                },
            )
