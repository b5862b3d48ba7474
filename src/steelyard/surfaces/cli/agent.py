"""``steelyard agent`` among the other commands, so that the help lists it: its words go to the agent as they stand.

The console script calls the agent before any of this is loaded; whoever gets here pays for the command line's libraries too.
"""

from __future__ import annotations

import typer

from steelyard.primitives.i18n import _
from steelyard.surfaces.shared.ports import Ports


def add_agent(app: typer.Typer, ports: Ports) -> None:
    """The command. Its options are the agent's own (``steelyard agent --help``)."""
    text = _("The node agent: delivers what the driver, the kernel and the kubelet of this node know")
    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}

    def agent(context: typer.Context) -> int:
        return ports.agent(list(context.args))

    app.command("agent", help=text, short_help=text, add_help_option=False, context_settings=settings)(agent)
