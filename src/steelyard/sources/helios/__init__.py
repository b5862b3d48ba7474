"""The Helios traces (Hu et al., SC 2021): what each tenant of a shared cluster may use, uses, waits for and leaves idle, minute by minute."""

from steelyard.sources.helios.read import DAY_COLUMN, MINUTE_COLUMNS, is_day_header, read_helios

__all__ = ["DAY_COLUMN", "MINUTE_COLUMNS", "is_day_header", "read_helios"]
