"""PCI addresses in one spelling: eight hexadecimal digits of domain, bus, device and function, upper case.

Every source spells them its own way: ``00000000:3B:00.0`` (nvidia-smi), ``0000:3b:00`` (kernel log, no function), ``3b:00.0``
(lspci). Facts carry only the first form, so that an address joins across sources.
"""

from __future__ import annotations

import re
from typing import Final

_ADDRESS: Final = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?\Z", re.IGNORECASE
)


def normalise_pci(text: str) -> str:
    """The address as ``00000000:3B:00.0``; a missing domain or function is 0. Raises ValueError where the text is no PCI address."""
    match = _ADDRESS.match(text.strip()) if len(text) <= 64 else None
    if match is None:
        raise ValueError(f"expected a PCI address such as 00000000:3B:00.0; found {text[:60]!r}")
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:08X}:{bus:02X}:{device:02X}.{function:X}"


def pci_or_none(text: str | None) -> str | None:
    """The address in its one spelling, or None where there is none or it cannot be read."""
    if text is None:
        return None
    try:
        return normalise_pci(text)
    except ValueError:
        return None
