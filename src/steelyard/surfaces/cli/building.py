"""``build``: the whole command line over the ports that the application hands in. ``run``: one command, as an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from typing import Any

import typer

from steelyard.primitives.errors import SourceMalformed, SteelyardError, UsageError
from steelyard.primitives.i18n import _, choose
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.agent import add_agent
from steelyard.surfaces.cli.backfilling import add_backfilling
from steelyard.surfaces.cli.capacity import add_capacity
from steelyard.surfaces.cli.collecting import add_collecting
from steelyard.surfaces.cli.contesting import add_contesting
from steelyard.surfaces.cli.doctor import add_doctor
from steelyard.surfaces.cli.imports import add_imports
from steelyard.surfaces.cli.language import check_language
from steelyard.surfaces.cli.money import add_money
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.cli.questions import add_questions
from steelyard.surfaces.cli.reconcile import add_reconcile
from steelyard.surfaces.cli.serving import add_serving
from steelyard.surfaces.cli.settling import add_settling
from steelyard.surfaces.cli.stories import add_stories
from steelyard.surfaces.cli.upkeep import add_upkeep
from steelyard.surfaces.shared.ports import Ports
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line

EXIT_TROUBLE = 3
EXIT_INTERRUPTED = 130

_ClickException: Any = typer.BadParameter.__mro__[2]
"""What typer raises for a command line it cannot read; newer releases carry it within, older ones take it from click."""


def build(ports: Ports) -> typer.Typer:
    """The command line. Nothing heavy is imported until a command asks a port for its object."""
    app = typer.Typer(
        name="steelyard",
        help=_("Weighs a shared GPU estate: who holds what, how much, and whether the books close."),
        epilog=_("Exit codes: 0 done, 2 refused as asked, 3 trouble with a source or the store, 130 interrupted."),
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    add_imports(app, ports)
    add_collecting(app, ports)
    add_backfilling(app, ports)
    add_questions(app, ports)
    add_stories(app, ports)
    add_reconcile(app, ports)
    add_capacity(app, ports)
    add_money(app, ports)
    add_settling(app, ports)
    add_contesting(app, ports)
    add_serving(app, ports)
    add_upkeep(app, ports)
    add_doctor(app, ports)
    add_agent(app, ports)
    epilog = _("Example: {command}").format(command="steelyard version --json")
    app.command("version", help=_("The version of this program."), epilog=epilog)(_version)
    return app


def _version(as_json: options.Json = False) -> None:
    number = installed_version("steelyard")
    put_out(
        as_json, lambda: {"name": "steelyard", "version": number}, lambda *_sizes: [Line("row", f"steelyard {number}")]
    )


def run(ports: Ports, arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what a person did wrong, or the world, is one line on stderr.

    A mistake of ours is not caught: it ends in a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    choose(None)
    try:
        check_language()
        command = typer.main.get_command(build(ports))
        result = command.main(args=arguments, prog_name="steelyard", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SteelyardError as error:
        others = error.others if isinstance(error, (SourceMalformed, UsageError)) else ()
        return _failed(str(error), error.exit_code, others)
    except (KeyboardInterrupt, typer.Abort):
        return _failed(_("interrupted"), EXIT_INTERRUPTED)
    except _ClickException as error:
        if _is_help(error):
            return _helped(error.format_message())
        if error.format_message():
            return _failed(f"{error.format_message()} ({_('see')} {_path(error)} --help)", 2)
        return 2
    except OSError as error:
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", EXIT_TROUBLE)


def _is_help(error: Any) -> bool:
    """Whether a command that needs words was called without any: what is raised then is its help."""
    context = getattr(error, "ctx", None)
    return context is not None and error.format_message() == context.get_help()


def _helped(text: str) -> int:
    if sys.stderr is not None:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in text.splitlines()))
    return 2


def _path(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return str(context.command_path) if context is not None else "steelyard"


def _failed(message: str, code: int, others: Sequence[str] = ()) -> int:
    """One line that says what went wrong, and one for each other mistake of the same file."""
    if sys.stderr is not None:
        sys.stderr.write(f"steelyard: {printable(message)}\n")
        sys.stderr.write("".join(f"steelyard: {printable(other)}\n" for other in others))
    return code
