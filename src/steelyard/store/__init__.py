"""The store: one embedded DuckDB file that takes facts, runs models and migrates. The only package that imports an engine."""

from steelyard.store.appending import AppendResult
from steelyard.store.store import Store

__all__ = ["AppendResult", "Store"]
