"""``steelyard doctor``: what is missing, and how to have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import SECOND_US
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.doctor_ports import LEVELS, DoctorReport, Level
from steelyard.surfaces.shared.doctor_text import render_doctor, up_to
from steelyard.surfaces.shared.options import duration_of
from steelyard.surfaces.shared.ports import Ports

EXIT_WARNING: Final = 1
EXIT_BROKEN: Final = 3
DEADLINE_US_MIN: Final = SECOND_US // 10
DEADLINE_US_MAX: Final = 300 * SECOND_US

_HELP: Final = _(
    "Examines the configured sources and the data directory: the level that is reached (L0 files, L1 metrics, L2 agents and audit), which questions "
    "can be answered, what is missing, and the lines to paste. Nothing is stored."
)
_EXITS: Final = _(
    "Exit 0: all that is configured is well. 1: something tells less than it should, or the level of --level is not reached. 3: something "
    "configured does not work. What is merely missing is no error."
)
_EPILOG: Final = _("Examples: {commands}")


def add_doctor(app: typer.Typer, ports: Ports) -> None:
    """The command."""
    epilog = _EPILOG.format(
        commands="steelyard doctor · steelyard doctor --level L1 --json · steelyard doctor --deadline 60s"
    )
    app.command(
        "doctor", help=f"{_HELP}\n\n{_EXITS}", short_help=_("What is missing, and how to have it"), epilog=epilog
    )(_doctor(ports))


def exit_code(report: DoctorReport, level: Level | None) -> int:
    """3: something configured is broken; 1: a warning, or the wanted level is not reached; 0: neither."""
    if any(each.severity == "broken" for each in report.symptoms):
        return EXIT_BROKEN
    short = level is not None and (report.level is None or LEVELS.index(report.level) < LEVELS.index(level))
    return EXIT_WARNING if short or any(each.severity == "warning" for each in report.symptoms) else 0


def _doctor(ports: Ports) -> Callable[..., None]:
    def doctor(
        level: Annotated[
            str | None,
            typer.Option(
                "--level", metavar="L0|L1|L2", help=_("Only up to this level; exit 1 where it is not reached.")
            ),
        ] = None,
        deadline: Annotated[
            str, typer.Option("--deadline", metavar="TIME", help=_("How long each source may take, all at once."))
        ] = "10s",
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        wanted = _level(level)
        found = ports.doctor(data).examine(_deadline_us(deadline))
        report = found if wanted is None else up_to(found, wanted)
        put_out(as_json, report.to_json, lambda width, rows_max: render_doctor(report, width, rows_max), rows)
        raise typer.Exit(exit_code(report, wanted))

    return doctor


def _level(text: str | None) -> Level | None:
    for level in LEVELS:
        if text is not None and text.upper() == level:
            return level
    if text is not None:
        raise UsageError(_("--level: expected L0, L1 or L2, found {text}").format(text=repr(text[:40])))
    return None


def _deadline_us(text: str) -> int:
    found = duration_of(text, "--deadline")
    if found is None or not DEADLINE_US_MIN <= found <= DEADLINE_US_MAX:
        raise UsageError(_("--deadline: expected 0.1s to 300s, found {text}").format(text=repr(text[:40])))
    return found
