"""Benchmark runs and criteria become verdicts. Empty until its issue is worked."""
