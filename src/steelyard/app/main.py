"""The console script ``steelyard``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run one command and end with its exit code. The node agent is called before anything of the command line is loaded."""
    if sys.argv[1:2] == ["agent"]:
        from steelyard.app.agent.command import main as agent

        sys.exit(agent(sys.argv[2:]))
    from steelyard.app.wiring import ports
    from steelyard.surfaces.cli import run

    sys.exit(run(ports()))


if __name__ == "__main__":
    main()
