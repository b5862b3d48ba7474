"""Physical memory of a card by its model name, for sources that show a scaled figure or none.

Readers of sharing layers call it where a register gives schedulable memory (HAMi multiplies it by a factor that the register
does not carry). The trick to know: a name is cut into tokens, a row of ``gpu_models.csv`` matches when all its tokens occur, and
the first matching row wins, so ``NVIDIA-NVIDIA A100-SXM4-40GB``, ``NVIDIA-A100-PCIE-40GB`` and ``A100 40GB`` are one model while
``L4``, ``L40S`` and ``H20``, ``H200`` stay apart.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib.resources import files
from typing import Final

from steelyard.primitives.unknown import Unknown

VERSION: Final = "1"
FORMULA: Final = "physical memory of a model as nvidia-smi reports it (drivers from R510 on)"

_SEPARATOR: Final = re.compile(r"[\s_/-]+")
_VIRTUAL: Final = re.compile(r"\d{1,3}[abcq]\Z")
_NAME_CHARACTERS_MAX: Final = 200


def model_tokens(model: str) -> frozenset[str]:
    """The lower-case words of a model name, split at blanks, dashes, slashes and underscores; at most 200 characters are read."""
    return frozenset(token for token in _SEPARATOR.split(model[:_NAME_CHARACTERS_MAX].casefold()) if token)


def memory_mib_of(model: str) -> int | Unknown:
    """Physical memory in MiB of a card of this model, as ``nvidia-smi --query-gpu=memory.total`` prints it.

    Unknown where the model is not listed, where its name alone fits several sizes (``A100``), and for a virtual GPU profile
    (``A40-8Q``), whose name starts with that of a card that it is not.
    """
    tokens = model_tokens(model)
    if any(_VIRTUAL.match(token) for token in tokens):
        return Unknown(f"{model[:60]!r} names a virtual GPU profile, not a card")
    for required, memory_mib in _rows("gpu_models.csv", "memory_mib"):
        if required <= tokens:
            if memory_mib is None:
                break
            return memory_mib
    return Unknown(f"the physical memory of model {model[:60]!r} is not listed")


def power_limit_watts_of(model: str) -> int | Unknown:
    """The power limit that a card of this model leaves the factory with, by its data sheet. Unknown where the name does not decide it."""
    tokens = model_tokens(model)
    if any(_VIRTUAL.match(token) for token in tokens):
        return Unknown(f"{model[:60]!r} names a virtual GPU profile, not a card")
    watts = next((watts for required, watts in _rows("gpu_power.csv", "power_limit_watts") if required <= tokens), None)
    return Unknown(f"the power limit of model {model[:60]!r} is not listed") if watts is None else watts


@cache
def _rows(file: str, column: str) -> tuple[tuple[frozenset[str], int | None], ...]:
    text = (files(__package__) / file).read_text(encoding="utf-8")
    return tuple(
        (frozenset(row["tokens"].split()), int(row[column]) if row[column] else None)
        for row in csv.DictReader(text.splitlines())
    )
