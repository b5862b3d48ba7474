"""``steelyard fragmentation``, ``fits`` and ``rightsize``: what of the estate can be used, and by whom it could be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from steelyard.answers import fits, fragmentation, right_sizing
from steelyard.definitions.fragmentation import TYPICAL_DAYS
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.capacity_ports import CapacitySpec
from steelyard.surfaces.shared.options import instant_of, window_of
from steelyard.surfaces.shared.ports import Ports

_FRAGMENTATION: Final = "steelyard fragmentation · steelyard fragmentation --days 7 --model A100 --json"
_FITS: Final = "steelyard fits --gpu 2 --gpumem 8000 --cores 30 --cpu 8 · steelyard fits --mig 2g.20gb · steelyard fits --gpu 8 --model H100 --json"
_RIGHTSIZE: Final = (
    "steelyard rightsize · steelyard rightsize --from 2026-11-23T00:00:00Z --to 2026-11-30T00:00:00Z --namespace team-a"
)
_Cluster = Annotated[str | None, typer.Option("--cluster", metavar="NAME", help=_("In which cluster."))]
_Model = Annotated[str | None, typer.Option("--model", metavar="WORDS", help=_("Cards of this model alone."))]


def add_capacity(app: typer.Typer, ports: Ports) -> None:
    """The three commands."""
    told = _(
        "Weighs what is free by the typical requests of the days before: what none of them can use is trapped. By memory, compute and MIG places, "
        "and as the FGD paper measures it."
    )
    app.command(
        "fragmentation",
        help=f"{fragmentation.title()}.\n\n{told}",
        short_help=_("Free share that no typical request can use"),
        epilog=_("Examples: {commands}").format(commands=_FRAGMENTATION),
    )(_fragmentation(ports))
    told = _(
        "The nodes and cards on which a request could be placed at once; where there is none, the smallest move that makes room."
    )
    app.command(
        "fits",
        help=f"{fits.title()}.\n\n{told}",
        short_help=_("Where a request fits now, or what would have to move"),
        epilog=_("Examples: {commands}").format(commands=_FITS),
    )(_fits(ports))
    told = _(
        "Granted against the P99 of what was needed and 20 %, as a patch to apply; unknown where too little was seen."
    )
    app.command(
        "rightsize",
        help=f"{right_sizing.title()}.\n\n{told}",
        short_help=_("Granted against needed, as a patch"),
        epilog=_("Examples: {commands}").format(commands=_RIGHTSIZE),
    )(_rightsize(ports))


def _fragmentation(ports: Ports) -> Callable[..., None]:
    def command(
        at: options.At = None,
        days: Annotated[
            int, typer.Option("--days", metavar="N", help=_("Typical are the requests of so many days before."))
        ] = TYPICAL_DAYS,
        cluster: _Cluster = None,
        node: options.Node = None,
        model: _Model = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        spec = fragmentation.FragmentationSpec(
            instant_of(at, "--at"), days, _text(cluster), _text(node), _text(model), explain
        )
        _show(ports, data, spec, as_json, rows)

    return command


def _fits(ports: Ports) -> Callable[..., None]:
    def command(
        gpus: Annotated[int, typer.Option("--gpu", metavar="N", help=_("How many cards, instances or slots."))] = 1,
        gpumem: Annotated[
            int | None, typer.Option("--gpumem", metavar="MIB", help=_("Memory of each; default: whole cards."))
        ] = None,
        cores: Annotated[
            int | None, typer.Option("--cores", metavar="PERCENT", help=_("Compute of each, in percent of a card."))
        ] = None,
        cpu: Annotated[
            float | None, typer.Option("--cpu", metavar="CORES", help=_("CPU of the whole request."))
        ] = None,
        mig: Annotated[
            str | None, typer.Option("--mig", metavar="PROFILE", help=_("Instances of this profile, such as 1g.10gb."))
        ] = None,
        model: _Model = None,
        cluster: _Cluster = None,
        at: options.At = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        spec = fits.FitsSpec(
            gpus, gpumem, cores, cpu, _text(mig), _text(model), _text(cluster), instant_of(at, "--at"), explain
        )
        _show(ports, data, spec, as_json, rows)

    return command


def _rightsize(ports: Ports) -> Callable[..., None]:
    def command(
        start: Annotated[
            str | None, typer.Option("--from", metavar="TIME", help=_("Start of the window; default: seven days."))
        ] = None,
        end: options.To = None,
        cluster: _Cluster = None,
        namespace: Annotated[
            str | None, typer.Option("--namespace", metavar="NAME", help=_("Workloads of one namespace."))
        ] = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        spec = right_sizing.RightSizingSpec(window_of(start, end), _text(cluster), _text(namespace), explain)
        _show(ports, data, spec, as_json, rows)

    return command


def _text(typed: str | None) -> str | None:
    return None if typed is None else typed.encode("utf-8", "replace").decode()


def _show(ports: Ports, data: options.Data, spec: CapacitySpec, as_json: bool, rows: int | None) -> None:
    found = ports.capacity(data).capacity(spec)
    put_out(as_json, found.to_json, lambda width, rows_max: render_answer(found, width, rows_max), rows)
