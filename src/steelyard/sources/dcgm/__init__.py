"""dcgm-exporter: what its rows say of cards and GPU instances, whatever release, sharing mode and scrape configuration printed them."""

from __future__ import annotations

from steelyard.sources.dcgm.fields import XID_COUNT, averaged_names, exported_names, field_names, field_number
from steelyard.sources.dcgm.read import read_dcgm

__all__ = ["XID_COUNT", "averaged_names", "exported_names", "field_names", "field_number", "read_dcgm"]
