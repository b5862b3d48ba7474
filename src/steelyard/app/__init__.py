"""Composition root: the console script, settings, wiring of readers to the store."""
