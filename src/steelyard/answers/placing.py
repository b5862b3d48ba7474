"""Placing a request on a node: which cards it would take and what is then left of them.

``fits`` plays moves through with it. The trick to know: of the cards that are large enough the fullest is taken first, so that whole cards stay
whole, and everything is decided by figures and names, never by the order in which rows came.
"""

from __future__ import annotations

from dataclasses import replace

from steelyard.definitions.fragmentation import FreeCard, FreeNode, MigLayout, Shape, fits_card, fits_node, free_starts
from steelyard.definitions.mig import MigSlices, mig_slices
from steelyard.definitions.share import WHOLE_PPM, share_mig_ppm, share_vgpu_ppm
from steelyard.primitives.unknown import Unknown


def chosen_cards(node: FreeNode, shape: Shape) -> tuple[int, ...] | None:
    """The places in ``node.cards`` of the cards that the request would take, the fullest first; None where it does not fit, or is not known to."""
    if fits_node(node, shape) is not True:
        return None
    fitting = [place for place, card in enumerate(node.cards) if fits_card(card, shape) is True]
    return tuple(sorted(fitting, key=lambda place: (_room(node.cards[place]), place))[: shape.cards_count])


def placed(node: FreeNode, shape: Shape) -> FreeNode | None:
    """The node with the request on it; None where it does not fit, or is not known to."""
    taken = chosen_cards(node, shape)
    if taken is None:
        return None
    cards = tuple(less(card, shape) if place in taken else card for place, card in enumerate(node.cards))
    cpu = node.cpu_milli
    return FreeNode(cards, None if cpu is None or shape.cpu_milli is None else cpu - shape.cpu_milli)


def less(card: FreeCard, shape: Shape) -> FreeCard:
    """What is left of a card when one of the request's cards is served from it. An instance goes to its first legal place."""
    if shape.profile is not None and card.mig is not None:
        slices = mig_slices(shape.profile, card.model, card.memory_mib)
        if not isinstance(slices, MigSlices):
            return card
        share = share_mig_ppm(slices.compute, slices.compute_total, slices.memory, slices.memory_total)
        taken = 0 if isinstance(share, Unknown) else share
        return replace(card, free_ppm=max(0, card.free_ppm - taken), mig=_with_instance(card.mig, slices))
    if shape.share_ppm is not None and shape.memory_mib is None and not shape.cores_percent:
        memory = None if card.memory_mib is None else card.memory_mib * shape.share_ppm // WHOLE_PPM
        percent, taken = -(-shape.share_ppm // 10_000), shape.share_ppm
    else:
        memory, percent = shape.memory_mib or 0, shape.cores_percent or 0
        share = share_vgpu_ppm(shape.memory_mib, card.memory_mib, shape.cores_percent)
        taken = card.free_ppm if isinstance(share, Unknown) else share
    return replace(
        card,
        free_ppm=max(0, card.free_ppm - taken),
        free_mib=None if card.free_mib is None or memory is None else max(0, card.free_mib - memory),
        free_percent=None if card.free_percent is None else max(0, card.free_percent - percent),
        slots=None if card.slots is None else max(0, card.slots - 1),
    )


def _with_instance(layout: MigLayout, slices: MigSlices) -> MigLayout:
    wanted = (1 << slices.memory) - 1
    masks = {taken | wanted << starts[0] for taken in layout.taken if (starts := free_starts(taken, slices))}
    return replace(layout, taken=tuple(sorted(masks)), compute_free=max(0, layout.compute_free - slices.compute))


def _room(card: FreeCard) -> tuple[int, int]:
    return card.free_ppm, -1 if card.free_mib is None else card.free_mib
