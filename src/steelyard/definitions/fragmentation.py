"""How much of what is free cannot be used by the requests that this site makes: the measure of FGD (Weng et al., USENIX ATC 2023).

Answers about capacity use it. A class of requests m (so many cards, such a part of each, popularity p_m) and a node n: where n cannot run m, all its
free share is lost to m; where it can, the free share on the cards that are too small for m is. F = sum over n and m of p_m x F_n(m), and what is not
lost is usable. ``fragmentation_ratio`` = F / total free, ``trapped_ratio`` = F / total supply. The trick to know: amounts and popularity are integers
(``weight`` of ``whole``), so a measure is an exact fraction and does not depend on the order of nodes or classes.

A test says what "fits" asks for and what of a card counts as free, always in ppm of a card: ``share`` (every dimension at once, by dominant share),
``memory``, ``compute``, ``mig`` (memory slices at legal starts) and ``paper`` (the released code's: share and CPU, no memory).
What a card or a request does not tell makes the fit unknown: that part of the free amount is counted as unknown, never as usable.

Sceptic: the trace's own files and 20 lines of awk give 13.945 % for the default list of openb on its empty nodes; the authors published 13.919.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from steelyard.definitions.mig import MigSlices, legal_starts, mig_slices
from steelyard.definitions.models import model_tokens
from steelyard.definitions.share import WHOLE_PPM, share_mig_ppm, share_vgpu_ppm
from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "F_n(m) = all free share of node n where it cannot run m, else the free share on its cards too small for m; "
    "F = sum of popularity x F_n(m); fragmentation = F / free, trapped = F / supply"
)

TYPICAL_DAYS: Final = 30
TYPICAL_PPM: Final = 950_000
"""The most frequent shapes of a month, until they are 95 % of all requests."""

Test: TypeAlias = Literal["share", "memory", "compute", "mig", "paper"]
TESTS: Final[tuple[Test, ...]] = ("share", "memory", "compute", "mig", "paper")

Cause: TypeAlias = Literal[
    "q1_lack_both", "q2_lack_gpu", "q3_satisfied", "q4_lack_cpu", "xl_satisfied", "xr_lack_cpu", "no_access"
]
CAUSES: Final[tuple[Cause, ...]] = (
    "q1_lack_both",
    "q2_lack_gpu",
    "q3_satisfied",
    "q4_lack_cpu",
    "xl_satisfied",
    "xr_lack_cpu",
    "no_access",
)
"""Of a free amount and a class: neither cards nor CPU suffice; the cards do not; usable; the CPU does not; a class without cards whose CPU suffices
(the cards stay free beside it; also where the CPU is not known), or does not; the node has no card of a model that the class may use."""

SATISFIED: Final[Cause] = "q3_satisfied"


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What one request asks for. ``share_ppm``, ``memory_mib``, ``cores_percent``: of each of ``cards_count`` cards, None where it does not say;
    a request of whole cards has ``share_ppm`` 1,000,000. ``profile``: each card is an instance of this MIG profile. ``models``: any of these,
    empty = any; ``cpu_milli`` None = not known."""

    cards_count: int
    share_ppm: int | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    cores_percent: int | None = None
    profile: str | None = None
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A shape and how often it is asked for: ``weight`` of the mix's ``whole``."""

    shape: Shape
    weight: int


@dataclass(frozen=True, slots=True)
class Mix:
    """The typical classes. ``whole``: what their weights are parts of; after renormalising, their sum."""

    classes: tuple[RequestClass, ...]
    whole: int

    def only_cards(self) -> Mix:
        """Without the classes that ask for no card, renormalised."""
        left = tuple(each for each in self.classes if each.shape.cards_count)
        return Mix(left, sum(each.weight for each in left))


@dataclass(frozen=True, slots=True)
class MigLayout:
    """A card that is cut into instances. ``taken``: each way in which held instances may lie, as bits of memory slices (bit 0 = slice 0); empty = not
    known where they lie. ``compute_free``: compute slices that nobody holds."""

    taken: tuple[int, ...]
    compute_free: int
    memory_total: int
    compute_total: int


@dataclass(frozen=True, slots=True)
class FreeCard:
    """What is free of a card: dominant share, memory, cores; None where it is not known. ``memory_mib``: of the whole card. ``slots``: how many more
    holders its sharing layer admits, None = no limit is known. ``mig``: where it is cut into instances. ``unknown``: whether any of it is free is not
    known, so it fits nothing for sure. ``whole``: nobody holds any of it."""

    free_ppm: int
    model: str | None = None
    memory_mib: int | None = None
    free_mib: int | None = None
    free_percent: int | None = None
    slots: int | None = None
    mig: MigLayout | None = None
    unknown: bool = False

    @property
    def whole(self) -> bool:
        """Whether nobody holds any of it."""
        return self.free_ppm >= WHOLE_PPM


@dataclass(frozen=True, slots=True)
class FreeNode:
    """The cards of a node on which something may be placed, and its free CPU (None = not known)."""

    cards: tuple[FreeCard, ...]
    cpu_milli: int | None = None


@dataclass(slots=True)
class Measure:
    """Free amounts by what becomes of them, each times the popularity of classes, in ppm of a card times ``whole``.

    ``free``: the free amount times ``whole``; ``unknown``: of it, where nobody can tell whether the class fits. The identity: all causes and
    ``unknown`` add up to ``free``.
    """

    whole: int
    free: int = 0
    unknown: int = 0
    amounts: dict[Cause, int] = field(default_factory=dict)

    @property
    def trapped(self) -> Fraction:
        """F, in ppm of a card: all that is not usable and not unknown."""
        lost = sum(amount for cause, amount in self.amounts.items() if cause != SATISFIED)
        return Fraction(lost, self.whole) if self.whole else Fraction(0)

    def amount(self, cause: Cause) -> Fraction:
        """The expected amount of one cause, in ppm of a card."""
        return Fraction(self.amounts.get(cause, 0), self.whole) if self.whole else Fraction(0)

    def ratio(self) -> Fraction | Unknown:
        """F / free, over what is known of it. Unknown where nothing is free, no class is typical, or no fit is known."""
        known = self.free - self.unknown
        if not self.whole:
            return Unknown("no class of requests is typical")
        if known <= 0:
            return Unknown("nothing is free" if not self.free else "no card tells whether the requests fit")
        return self.trapped * self.whole / known

    def coverage(self) -> Fraction | Unknown:
        """The part of the free amount of which the fit is known."""
        return Fraction(self.free - self.unknown, self.free) if self.free else Unknown("nothing is free")

    def add(self, other: Measure, times: int = 1) -> None:
        """Another node's, ``times`` over. Raises InvariantError where the two were taken over different mixes."""
        if other.whole != self.whole:
            raise InvariantError(f"measures over {self.whole} and {other.whole} cannot be added")
        self.free += other.free * times
        self.unknown += other.unknown * times
        for cause, amount in other.amounts.items():
            self.amounts[cause] = self.amounts.get(cause, 0) + amount * times


def typical(counts: Mapping[Shape, int], threshold_ppm: int = TYPICAL_PPM) -> Mix:
    """The most frequent shapes, one by one until they are ``threshold_ppm`` of all requests, renormalised; equal counts in the order
    of their shapes."""
    whole = sum(counts.values())
    classes: list[RequestClass] = []
    reached = 0
    for shape, count in sorted(counts.items(), key=lambda entry: (-entry[1], _order(entry[0]))):
        if count <= 0 or reached * WHOLE_PPM >= threshold_ppm * whole:
            break
        classes.append(RequestClass(shape, count))
        reached += count
    return Mix(tuple(classes), reached)


def _order(shape: Shape) -> tuple[object, ...]:
    """A total order of shapes; None sorts first."""
    numbers = (shape.share_ppm, shape.cpu_milli, shape.memory_mib, shape.cores_percent)
    return (
        shape.cards_count,
        *(-1 if number is None else number for number in numbers),
        shape.profile or "",
        shape.models,
    )


def fits_card(card: FreeCard, shape: Shape, test: Test = "share") -> bool | None:
    """Whether one card can serve one of the cards that a request asks for, by this test; None = a figure that it takes is not known."""
    allowed = fits_model(card, shape)
    if allowed is not True or card.unknown:
        return None if allowed is not False else False
    if test == "paper":
        return _enough(card.free_ppm, _share_need_ppm(card, shape))
    if shape.profile is not None or card.mig is not None:
        return _fits_mig(card, shape)
    verdicts: list[bool | None] = []
    if test == "memory" or (test == "share" and shape.memory_mib is not None):
        verdicts.append(_enough(card.free_mib, _memory_need_mib(card, shape)))
    if test == "compute" or (test == "share" and shape.cores_percent):
        verdicts.append(_enough(card.free_percent, _cores_need_percent(shape)))
    if test == "share":
        verdicts.append(card.slots is None or card.slots > 0)
        if shape.share_ppm is not None or not (shape.memory_mib is not None or shape.cores_percent):
            verdicts.append(_enough(card.free_ppm, shape.share_ppm))
    if False in verdicts:
        return False
    return None if None in verdicts else True


def fits_node(node: FreeNode, shape: Shape, test: Test = "share") -> bool | None:
    """Whether the node can run a request of this shape; None = what it takes is not known. CPU that nobody tells is asked for by ``paper`` alone."""
    cause, _verdicts = _judge(node, shape, test)
    return None if cause is None else cause == SATISFIED


def measure(nodes: Iterable[FreeNode], mix: Mix, test: Test = "share") -> Measure:
    """F over the nodes. Nodes that are alike are measured once; neither their order nor that of their cards matters."""
    times: dict[FreeNode, int] = {}
    for node in nodes:
        times[node] = times.get(node, 0) + 1
    total = Measure(mix.whole)
    for node, count in times.items():
        total.add(measure_node(node, mix, test), count)
    return total


def measure_node(node: FreeNode, mix: Mix, test: Test = "share") -> Measure:
    """F of one node, by causes. Complexity: classes x cards."""
    amounts = [_free_amount_ppm(card, test) for card in node.cards]
    known = sum(amount for amount, is_known in amounts if is_known)
    unknown = sum(amount for amount, is_known in amounts if not is_known)
    found = Measure(mix.whole, free=(known + unknown) * mix.whole)
    by_cause = dict.fromkeys(CAUSES, 0)
    for each in mix.classes:
        cause, verdicts = _judge(node, each.shape, test)
        if cause is None:
            found.unknown += (known + unknown) * each.weight
        elif cause != SATISFIED:
            by_cause[cause] += known * each.weight
            found.unknown += unknown * each.weight
        else:
            for (amount, is_known), fits in zip(amounts, verdicts, strict=True):
                if fits is None or not is_known:
                    found.unknown += amount * each.weight
                else:
                    by_cause[SATISFIED if fits else "q2_lack_gpu"] += amount * each.weight
    # A mix that is no whole leaves a part of which no class speaks: it is nobody's loss.
    rest = mix.whole - sum(each.weight for each in mix.classes)
    by_cause[SATISFIED] += (known + unknown) * rest
    found.amounts = {cause: amount for cause, amount in by_cause.items() if amount}
    return found


def free_starts(taken: int, slices: MigSlices) -> list[int]:
    """Where on the card an instance of these slices can be made: legal starts whose memory slices are all free. ``taken``: bits of slices."""
    wanted = (1 << slices.memory) - 1
    return [start for start in legal_starts(slices) if not taken & (wanted << start)]


def _judge(node: FreeNode, shape: Shape, test: Test) -> tuple[Cause | None, list[bool | None]]:
    """What becomes of the node's free share for this shape (None: not known), and the verdict of each card."""
    cpu = _cpu_suffices(node, shape, test)
    if not shape.cards_count:
        return ("xr_lack_cpu" if cpu is False else "xl_satisfied"), []
    if all(fits_model(card, shape) is False for card in node.cards):
        return "no_access", []
    verdicts = [fits_card(card, shape, test) for card in node.cards]
    sure = verdicts.count(True)
    cards = True if sure >= shape.cards_count else None if sure + verdicts.count(None) >= shape.cards_count else False
    if cards is False:
        return ("q1_lack_both" if cpu is False else "q2_lack_gpu"), verdicts
    if cpu is False:
        return "q4_lack_cpu", verdicts
    return (SATISFIED if cards and cpu else None), verdicts


def _cpu_suffices(node: FreeNode, shape: Shape, test: Test) -> bool | None:
    if node.cpu_milli is None or shape.cpu_milli is None:
        return None if test == "paper" else True
    return node.cpu_milli >= shape.cpu_milli


def fits_model(card: FreeCard, shape: Shape) -> bool | None:
    """Whether the request may use a card of this model; words of a model as in ``definitions.models``."""
    if not shape.models:
        return True
    if card.model is None:
        return None
    words = model_tokens(card.model)
    return any(model_tokens(model) <= words for model in shape.models)


def _enough(free: int | None, need: int | None) -> bool | None:
    if need is not None and need <= 0:
        return True
    return None if free is None or need is None else free >= need


def _fits_mig(card: FreeCard, shape: Shape) -> bool | None:
    if card.mig is None or shape.profile is None:
        return False  # an instance is made on a card that is cut; a card that is cut serves instances alone
    slices = mig_slices(shape.profile, card.model, card.memory_mib)
    if isinstance(slices, Unknown) or slices.memory_total != card.mig.memory_total:
        return None
    if card.mig.taken and slices.compute > card.mig.compute_free:
        return False
    verdicts = {bool(free_starts(taken, slices)) for taken in card.mig.taken}
    return verdicts.pop() if len(verdicts) == 1 else None


def _share_need_ppm(card: FreeCard, shape: Shape) -> int | None:
    """The dominant share that one card's part of the request is of this card, at most a whole one."""
    if shape.share_ppm is not None:
        return min(shape.share_ppm, WHOLE_PPM)
    if shape.profile is not None:
        slices = mig_slices(shape.profile, card.model, card.memory_mib)
        if isinstance(slices, Unknown):
            return None
        share = share_mig_ppm(slices.compute, slices.compute_total, slices.memory, slices.memory_total)
    else:
        share = share_vgpu_ppm(shape.memory_mib, card.memory_mib, shape.cores_percent)
    return None if isinstance(share, Unknown) else min(share, WHOLE_PPM)


def _memory_need_mib(card: FreeCard, shape: Shape) -> int | None:
    if shape.memory_mib is not None:
        return shape.memory_mib
    if shape.share_ppm is None:
        return 0 if shape.cores_percent else None
    return None if card.memory_mib is None else shape.share_ppm * card.memory_mib // WHOLE_PPM


def _cores_need_percent(shape: Shape) -> int | None:
    """Percent of one card's cores; a request that names memory alone reserves none."""
    if shape.cores_percent is not None:
        return shape.cores_percent
    if shape.share_ppm is not None:
        return -(-shape.share_ppm // 10_000)
    return 0 if shape.memory_mib is not None else None


def _free_amount_ppm(card: FreeCard, test: Test) -> tuple[int, bool]:
    """What is free of the card in the test's dimension, and whether that is known; where it is not, the dominant share stands for it."""
    if test == "memory":
        if card.memory_mib and card.free_mib is not None:
            return card.free_mib * WHOLE_PPM // card.memory_mib, True
        return card.free_ppm, False
    if test == "compute":
        return (card.free_ppm, False) if card.free_percent is None else (card.free_percent * 10_000, True)
    if test == "mig":
        if card.mig is None:
            return 0, True
        if not card.mig.taken:
            return card.free_ppm, False
        # Every way takes as many slices: they are those of the same instances.
        free = card.mig.memory_total - card.mig.taken[0].bit_count()
        return free * WHOLE_PPM // card.mig.memory_total, True
    return card.free_ppm, True
