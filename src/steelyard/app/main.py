"""The console script ``steelyard``."""

from __future__ import annotations

import sys

from steelyard.app.wiring import ports
from steelyard.surfaces.cli import run


def main() -> None:
    """Run one command and end with its exit code."""
    sys.exit(run(ports()))


if __name__ == "__main__":
    main()
