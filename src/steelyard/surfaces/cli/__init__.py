"""The command line: a thin skin over the answers and the ports."""

from steelyard.surfaces.cli.building import build, run

__all__ = ["build", "run"]
