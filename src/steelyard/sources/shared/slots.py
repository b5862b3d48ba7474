"""Which container an allocation slot belongs to. The layers number slots differently from release to release.

Up to HAMi 2.8 slots stand for app containers, from 2.9 for init containers and then app containers, 2.10.0 drops empty slots,
and 2.5 and 2.6 may leave out leading empty ones. The trick to know: the number of cards in a slot must equal what its container
asks for, so a wrong numbering betrays itself, and where no numbering fits the slots stay unmatched instead of being guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.sources.shared.pods import APP, ContainerView

POSITION: Final = "position"
IN_ORDER: Final = "gpu_requesting_containers_in_order"


@dataclass(frozen=True, slots=True)
class Alignment:
    """``containers[i]`` owns slot i (None: nobody is known to); ``method`` is None where the slots could not be matched, with ``reason``."""

    method: str | None
    containers: tuple[ContainerView | None, ...]
    reason: str | None = None


def align_slots(
    counts: Sequence[int], containers: Sequence[ContainerView], wanted: Sequence[int], *, apps_only: bool = False
) -> Alignment:
    """Match slots to containers.

    counts: cards in each slot. containers: init containers first, then app containers. wanted: cards each of them asks for; all
    zero means that the requests are not known, and then only the positions speak. apps_only: there is a sign that the writer
    counted app containers only (it merely decides which numbering is tried first).
    """
    apps = [index for index, container in enumerate(containers) if container.kind == APP]
    requesting = [index for index, want in enumerate(wanted) if want > 0]
    holding = [index for index, count in enumerate(counts) if count > 0]
    by_app = (POSITION, dict(enumerate(apps)) if len(counts) == len(apps) else None)
    by_order = (
        IN_ORDER,
        dict(zip(holding, requesting, strict=True)) if requesting and len(holding) == len(requesting) else None,
    )
    by_all = (POSITION, dict(enumerate(range(len(containers)))) if len(counts) == len(containers) else None)
    for method, owners in (by_all, by_app, by_order) if apps_only else (by_all, by_order, by_app):
        if owners is not None and _fits(owners, counts, wanted, bool(requesting)):
            return Alignment(method, tuple(_owner(containers, owners, slot) for slot in range(len(counts))))
    nobody: tuple[ContainerView | None, ...] = (None,) * len(counts)
    return Alignment(
        None,
        nobody,
        f"{len(counts)} slots with {[*counts][:16]} cards fit no numbering of {len(containers)} containers that ask for {[*wanted][:16]}",
    )


def _fits(owners: dict[int, int], counts: Sequence[int], wanted: Sequence[int], known: bool) -> bool:
    if not known:
        return True
    return all(counts[slot] == wanted[owner] for slot, owner in owners.items())


def _owner(containers: Sequence[ContainerView], owners: dict[int, int], slot: int) -> ContainerView | None:
    index = owners.get(slot)
    return containers[index] if index is not None else None
