"""The options that several commands share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from steelyard.primitives.i18n import _

DATA_DEFAULT: Final = Path("steelyard-data")
DEMO_DATA_DEFAULT: Final = Path("demo-data")

Data: TypeAlias = Annotated[
    Path, typer.Option("--data", envvar="STEELYARD_DATA", metavar="DIR", help=_("The data directory."))
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help=_("JSON instead of text."))]
Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help=_("Also print the definitions, the SQL as it ran and the sources."))
]
Rows: TypeAlias = Annotated[
    int | None,
    typer.Option("--rows", min=0, metavar="N", help=_("Rows of a table to show; 0 = all (terminal: 40, pipe: all).")),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help=_("The instant, such as 2026-11-30T02:00:00Z; default: the last known.")),
]
From: TypeAlias = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help=_("Start of the window; default: all known time."))
]
To: TypeAlias = Annotated[str | None, typer.Option("--to", metavar="TIME", help=_("End of the window, not within it."))]
By: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="DIM[,DIM]", help=_("Group by dimensions, label or annotation keys.")),
]
Where: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="DIM=VALUE", help=_("Keep what meets the condition; may be repeated.")),
]
Gpu: TypeAlias = Annotated[
    str | None,
    typer.Option("--gpu", metavar="UUID", help=_("One card: UUID, its first 8 characters or more, or NODE/INDEX.")),
]
Node: TypeAlias = Annotated[str | None, typer.Option("--node", metavar="NAME", help=_("One node."))]
Pod: TypeAlias = Annotated[str | None, typer.Option("--pod", metavar="[NAMESPACE/]POD", help=_("One pod."))]
Tenant: TypeAlias = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help=_("One tenant."))]
