"""A question answered over an open store: the same for a command that opened the file itself and for the server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from steelyard.answers.contract import Answer
from steelyard.answers.fits import FitsSpec, fits
from steelyard.answers.fragmentation import FragmentationSpec
from steelyard.answers.fragmentation import answer as fragmentation
from steelyard.answers.reconcile import ReconcileSpec
from steelyard.answers.reconcile import answer as reconciled
from steelyard.answers.registry import entry
from steelyard.answers.right_sizing import answer as right_sizing
from steelyard.answers.story import StorySpec, story
from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.store import Store
from steelyard.surfaces.shared.capacity_ports import CapacitySpec
from steelyard.surfaces.shared.ports import Question, ReconcileRequest, StoryRequest

_LEDGER_TABLES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('ledger', 'dim')"


def check_question(number: int, question: Question) -> None:
    """Raises UsageError for a question that is not built, and for one that takes no instant (or no window)."""
    asked = entry(number)
    if asked.takes == "instant" and question.window is not None:
        raise UsageError(_("{name} takes an instant, not a window").format(name=asked.name))
    if asked.takes != "instant" and question.at is not None:
        raise UsageError(_("{name} takes a window, not an instant").format(name=asked.name))


def answer_over(store: Store, directory: Path, number: int, question: Question) -> Answer:
    """The answer to Q``number``. Raises UsageError as ``check_question``, for a dimension that does not exist and where nothing was posted."""
    check_question(number, question)
    asked = entry(number)
    when = {"at": question.at} if asked.takes == "instant" else {"window": question.window}
    spec = asked.spec(
        **when,
        by=tuple(question.by),
        where=dict(question.where),
        explain=question.explain,
        confined=question.confined,
    )
    check_posted(store, directory)
    return asked.function(store, spec)


def story_over(store: Store, directory: Path, request: StoryRequest) -> Answer:
    """The story of a request. Raises UsageError as ``answers.story`` does, and where nothing was posted."""
    check_posted(store, directory, "preemption", "outcome")
    return story(store, StorySpec(**{name: getattr(request, name) for name in StoryRequest.__slots__}))


def capacity_over(store: Store, directory: Path, spec: CapacitySpec) -> Answer:
    """The answer to a question about room. Raises UsageError as the answer's own function does, and where nothing was posted."""
    check_posted(store, directory, "request_class")
    if isinstance(spec, FragmentationSpec):
        return fragmentation(store, spec)
    return fits(store, spec) if isinstance(spec, FitsSpec) else right_sizing(store, spec)


def reconcile_over(store: Store, directory: Path, request: ReconcileRequest) -> Answer:
    """What was requested to what the device reports, side by side. Raises UsageError as ``answers.reconcile`` does, and where nothing was posted."""
    check_posted(store, directory, "deviation_asked")
    return reconciled(store, ReconcileSpec(**{name: getattr(request, name) for name in ReconcileRequest.__slots__}))


def check_posted(store: Store, directory: Path, *dimensions: str) -> None:
    """Raises UsageError where the ledgers, or the dimensions that are named, are not there yet, not all of them, or older than the facts."""
    from steelyard.ledgers.registry import LEDGERS

    if store.has_unposted():
        raise UsageError(_("an import was cut off before its posting: run `steelyard import` again"))
    tables = {name for (name,) in store.rows(_LEDGER_TABLES)}
    if "posting_run" not in tables:
        raise UsageError(
            _("nothing was posted in {directory} yet: run `steelyard import` with files of the estate first").format(
                directory=directory
            )
        )
    if missing := sorted({*(ledger.name for ledger in LEDGERS), "known_span", "declared_class", *dimensions} - tables):
        raise UsageError(
            _("{directory} was posted by an older version without {ledgers}: run `steelyard import` once more").format(
                directory=directory, ledgers=", ".join(missing)
            )
        )
