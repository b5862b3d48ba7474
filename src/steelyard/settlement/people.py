"""Who is who, where two people are asked for: names that differ by case, by spaces or by how a letter is written are one person's."""

from __future__ import annotations

import unicodedata


def plain_name(name: str) -> str:
    """The name as it is compared: compatibility forms, case and spaces made alike, what is not printed left out."""
    written = unicodedata.normalize("NFKC", name).casefold()
    return " ".join("".join(each for each in written if unicodedata.category(each) != "Cf").split())


def is_same_person(one: str, other: str) -> bool:
    """Whether both names are one person's."""
    return plain_name(one) == plain_name(other)
