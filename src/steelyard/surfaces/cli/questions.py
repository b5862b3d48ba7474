"""``steelyard q1``, ``q2``, ...: one command per entry of the answers' registry; and ``steelyard ask``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from steelyard.answers.contract import Answer
from steelyard.answers.registry import ANSWERS, Entry
from steelyard.primitives.i18n import _
from steelyard.surfaces.cli import options
from steelyard.surfaces.cli.output import put_out
from steelyard.surfaces.shared.answer_text import render_answer
from steelyard.surfaces.shared.options import conditions_of, instant_of, names_of, window_of
from steelyard.surfaces.shared.phrases import examples, understood
from steelyard.surfaces.shared.ports import Ports, Question
from steelyard.surfaces.shared.printable import printable
from steelyard.surfaces.shared.tables import Line


def add_questions(app: typer.Typer, ports: Ports) -> None:
    """One command per question, and ``ask``."""
    for entry in ANSWERS:
        command = _at_an_instant(entry, ports) if entry.takes == "instant" else _over_a_window(entry, ports)
        dimensions = _("Dimensions: {names}; or any label or annotation key.").format(names=", ".join(entry.dimensions))
        if entry.conditions:
            dimensions = _("Dimensions: {names}; --where also takes {more}, or any label or annotation key.").format(
                names=", ".join(entry.dimensions), more=", ".join(entry.conditions)
            )
        help_text = f"{entry.title()}.\n\n{dimensions}"
        epilog = _("Example: {command}").format(command=entry.example)
        app.command(entry.name, help=help_text, short_help=entry.title(), epilog=epilog)(command)
    help_text = _("A plain question, in English or Chinese. Understood are:") + "\n\n" + "\n\n".join(examples())
    epilog = _("Example: {command}").format(command='steelyard ask "who is on GPU-5e3c1a2b"')
    app.command("ask", help=help_text, short_help=_("A plain question in words"), epilog=epilog)(_ask(ports))


def _at_an_instant(entry: Entry, ports: Ports) -> Callable[..., None]:
    def command(
        at: options.At = None,
        by: options.By = None,
        where: options.Where = None,
        gpu: options.Gpu = None,
        node: options.Node = None,
        pod: options.Pod = None,
        tenant: options.Tenant = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        named = {"gpu": gpu, "node": node, "pod": pod, "tenant": tenant}
        question = Question(
            at=instant_of(at, "--at"),
            by=names_of(by or ()),
            where=conditions_of(where or (), named),
            explain=explain,
        )
        _show(ports.query(data).answer(entry.number, question), as_json, rows)

    return command


def _over_a_window(entry: Entry, ports: Ports) -> Callable[..., None]:
    def command(
        start: options.From = None,
        end: options.To = None,
        by: options.By = None,
        where: options.Where = None,
        gpu: options.Gpu = None,
        node: options.Node = None,
        pod: options.Pod = None,
        tenant: options.Tenant = None,
        rows: options.Rows = None,
        explain: options.Explain = False,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        named = {"gpu": gpu, "node": node, "pod": pod, "tenant": tenant}
        question = Question(
            window=window_of(start, end),
            by=names_of(by or ()),
            where=conditions_of(where or (), named),
            explain=explain,
        )
        _show(ports.query(data).answer(entry.number, question), as_json, rows)

    return command


def _ask(ports: Ports) -> Callable[..., None]:
    def ask(
        words: Annotated[list[str], typer.Argument(metavar="WORDS...", help=_("The question."))],
        rows: options.Rows = None,
        as_json: options.Json = False,
        data: options.Data = options.DATA_DEFAULT,
    ) -> None:
        asked = understood(" ".join(words))
        story, query = asked.story, asked.question
        answer = ports.query(data).answer(asked.number, query) if story is None else ports.stories(data).why(story)
        taken = Line("note", _("understood as: {command}").format(command=printable(asked.command)))
        put_out(
            as_json,
            lambda: {"command": asked.command, "answer": answer.to_json()},
            lambda width, rows_max: [taken, *render_answer(answer, width, rows_max)],
            rows,
        )

    return ask


def _show(answer: Answer, as_json: bool, rows: int | None) -> None:
    put_out(as_json, answer.to_json, lambda width, rows_max: render_answer(answer, width, rows_max), rows)
