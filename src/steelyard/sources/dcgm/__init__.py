"""dcgm-exporter: what its rows say of cards and GPU instances, whatever release, sharing mode and scrape configuration printed them."""

from __future__ import annotations

from steelyard.sources.dcgm.fields import field_number
from steelyard.sources.dcgm.read import read_dcgm
from steelyard.sources.dcgm.xid import XID_COUNT

__all__ = ["XID_COUNT", "field_number", "read_dcgm"]
