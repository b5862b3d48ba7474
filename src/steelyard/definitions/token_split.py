"""How what a shared model service costs is split to its callers, and to prefill and decode: by tokens, weighted by what they ask of a card.

Statements and Q9 call these. A prompt token weighs 1; one that was read from a cache less, one that is decoded more, since decoding goes
token by token. The trick to know: weights and amounts are integers, and what flooring leaves goes to the largest remainders, so the parts sum to
the whole whatever the weights are. And what is not told is not nothing: one row of a service that keeps a count to itself makes the share of every
caller unknown, so then nothing of the service is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

VERSION: Final = "2"
FORMULA: Final = (
    "weight = (prompt - cached) x 1 + cached x its weight + completion x its weight, cached ones as any other where a row of the service does not "
    "tell them; parts = amount x weight / sum of weights, largest remainder; all of it unattributed where a row does not tell prompt or completion"
)

PROMPT_PPM: Final = 1_000_000
DECODE_PPM: Final = 4_000_000
CACHED_PPM: Final = 100_000


@dataclass(frozen=True, slots=True)
class TokenWeights:
    """What a decoded token and a cached one weigh, in parts per million of a prompt token."""

    decode_ppm: int = DECODE_PPM
    cached_ppm: int = CACHED_PPM


@dataclass(frozen=True, slots=True)
class WeightedTokens:
    """What a caller's tokens weigh: ``prefill`` of the prompt (cached ones in it), ``decode`` of the completion."""

    prefill: int
    decode: int

    @property
    def total(self) -> int:
        """Both."""
        return self.prefill + self.decode


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens that one caller took of a service, summed. caller: None = not named. A count is None where any row of it does not tell it."""

    caller: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None


def weighted_tokens(
    prompt_tokens: int | None,
    cached_tokens: int | None,
    completion_tokens: int | None,
    weights: TokenWeights = TokenWeights(),
) -> WeightedTokens | Unknown:
    """The weight of tokens. Cached ones that are not told weigh as any other of the prompt. Unknown where the prompt or the completion is not told,
    or more cached tokens are told than the prompt has."""
    if prompt_tokens is None or completion_tokens is None:
        return Unknown("the tokens of the prompt or of the completion are not told")
    cached = cached_tokens or 0
    if not 0 <= cached <= prompt_tokens:
        return Unknown("more cached tokens are told than the prompt has")
    prefill = (prompt_tokens - cached) * PROMPT_PPM + cached * weights.cached_ppm
    return WeightedTokens(prefill, completion_tokens * weights.decode_ppm)


def weights_by_caller(
    uses: Iterable[TokenUse], weights: TokenWeights = TokenWeights()
) -> Mapping[str | None, WeightedTokens] | Unknown:
    """What each caller of one service took, by weight; callers that are not named stand as None, which comes last.

    Unknown where one of ``uses`` has no weight: nobody's share can be told then. Where one does not tell its cached tokens nobody's count as cached,
    so that two callers who did the same pay the same.
    """
    taken = list(uses)
    told = all(use.cached_tokens is not None for use in taken)
    found: dict[str | None, WeightedTokens] = {}
    for use in sorted(taken, key=lambda use: (use.caller is None, use.caller or "")):
        cached = use.cached_tokens if told else None
        weight = weighted_tokens(use.prompt_tokens, cached, use.completion_tokens, weights)
        if isinstance(weight, Unknown):
            return weight
        before = found.get(use.caller, WeightedTokens(0, 0))
        found[use.caller] = WeightedTokens(before.prefill + weight.prefill, before.decode + weight.decode)
    return found


def divided(whole: int, weights: Sequence[int]) -> list[int]:
    """``whole`` by weights, floored, and what is left to the largest remainders (ties: the first). The parts sum to it.

    Raises InvariantError where the weights sum to nothing: what cannot be divided stays whole, visibly, with whoever asks."""
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise InvariantError(f"{whole} cannot be divided by weights that sum to {total}")
    parts = [whole * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda n: -(whole * weights[n] % total))
    for n in by_remainder[: whole - sum(parts)]:
        parts[n] += 1
    return parts
