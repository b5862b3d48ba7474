"""PCI addresses have one spelling."""

from __future__ import annotations

import pytest

from steelyard.sources.shared.pci import normalise_pci, pci_or_none


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "00000000:3B:00.0"),
        ("0000:3b:00", "00000000:3B:00.0"),
        ("PCI:0009:01:00.1", "00000009:01:00.1"),
        ("3b:00.0", "00000000:3B:00.0"),
        ("000:BA:80.0", "00000000:BA:80.0"),
        (" 0000:10:1c ", "00000000:10:1C.0"),
    ],
)
def test_every_spelling_becomes_one(text: str, address: str) -> None:
    assert normalise_pci(text) == address
    assert normalise_pci(address) == address


@pytest.mark.parametrize("text", ["", "3b", "gg:00.0", "0000:3b:00.00", "0:0:0:0", "x" * 1_000, "٣b:00.0"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PCI address"):
        normalise_pci(text)
    assert pci_or_none(text) is None
    assert pci_or_none(None) is None
