"""How what a shared model service costs is split to its callers, and to prefill and decode: by tokens, weighted by what they ask of a card.

Statements and Q9 call these. A prompt token weighs 1; one that was read from a cache less, one that is decoded more, since decoding goes
token by token. The trick to know: weights and amounts are integers, and what flooring leaves goes to the largest remainders, so the parts sum to
the whole whatever the weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.primitives.errors import InvariantError
from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = (
    "weight = (prompt - cached) x 1 + cached x its weight + completion x its weight; "
    "parts = amount x weight / sum of weights, largest remainder"
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


def weighted_tokens(
    prompt_tokens: int | None,
    cached_tokens: int | None,
    completion_tokens: int | None,
    weights: TokenWeights = TokenWeights(),
) -> WeightedTokens | Unknown:
    """The weight of tokens. Cached ones that are not told count as none, more of them than the prompt has as all of it. Unknown where the prompt or
    the completion is not told: a caller whose tokens are partly known is not billed for a part."""
    if prompt_tokens is None or completion_tokens is None:
        return Unknown("the tokens of the prompt or of the completion are not told")
    cached = min(max(cached_tokens or 0, 0), prompt_tokens)
    prefill = (prompt_tokens - cached) * PROMPT_PPM + cached * weights.cached_ppm
    return WeightedTokens(prefill, completion_tokens * weights.decode_ppm)


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
