"""The embedded DuckDB store: append facts, run models, migrate. The only importer of an engine."""
