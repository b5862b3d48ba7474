"""Query parameters as the routes take them, and as the questions and requests that they mean.

A parameter that a route does not know is refused: a mistyped ``form=`` must not silently mean all time.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from steelyard.primitives.errors import UsageError
from steelyard.primitives.i18n import _
from steelyard.primitives.instant import DAY_US, Window
from steelyard.surfaces.shared.options import conditions_of, instant_of, names_of
from steelyard.surfaces.shared.ports import ImportRequest, Question, StoryRequest

PAGE_ROWS_MAX: Final = 1_000
_ITEMS_MAX: Final = 64
_CURSOR_CHARACTERS_MAX: Final = 4_096

Text = Annotated[str, Field(max_length=2_000)]


class AnswerParameters(BaseModel):
    """What a question is asked with."""

    model_config = ConfigDict(extra="forbid")

    at: Text | None = Field(None, description="The instant, RFC 3339; default: the last that is known.")
    start: Text | None = Field(None, alias="from", description="Start of the window; default: all known time.")
    end: Text | None = Field(None, alias="to", description="End of the window, not within it.")
    by: list[Text] = Field([], max_length=_ITEMS_MAX, description="Dimensions to group by; commas or repeated.")
    where: list[Text] = Field([], max_length=_ITEMS_MAX, description="dimension=value, repeated; all must be met.")
    explain: bool = Field(False, description="Add definitions and the SQL as it ran.")

    def question(self) -> Question:
        """The question. Raises UsageError for what is no time, half a window, or no condition."""
        start, end = instant_of(self.start, "from"), instant_of(self.end, "to")
        if (start is None) != (end is None):
            raise UsageError(_("from and to go together: both, or neither for all known time"))
        window = None
        if start is not None and end is not None:
            if end <= start:
                raise UsageError(
                    _("to must be later than from: found {start} and {end}").format(start=self.start, end=self.end)
                )
            window = Window(start, end)
        return Question(
            at=instant_of(self.at, "at"),
            window=window,
            by=names_of(self.by),
            where=conditions_of(self.where, {}),
            explain=self.explain,
        )


class StoryParameters(BaseModel):
    """Whose story is asked for."""

    model_config = ConfigDict(extra="forbid")

    kind: Text | None = Field(None, description="pod, job or workload; default: any.")
    cluster: Annotated[str, Field(max_length=253)] | None = Field(None, description="Which cluster; default: any.")
    at: Text | None = Field(None, description="As of when, RFC 3339; default: the last that is known.")
    explain: bool = Field(False, description="Add definitions and the SQL as it ran.")

    def request(self, name: str, tenant: str | None) -> StoryRequest:
        """The request. Raises UsageError for what is no time."""
        return StoryRequest(name, self.kind, self.cluster, instant_of(self.at, "at"), self.explain, tenant)


class NamedStoryParameters(StoryParameters):
    """The same, with the name among the parameters: a name may hold any character."""

    name: Text = Field(description="namespace/name, a name alone where it is unique, or a uid.")


class PageParameters(BaseModel):
    """Which page of a listing."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(100, ge=1, le=PAGE_ROWS_MAX, description="Rows of a page.")
    cursor: str | None = Field(
        None,
        max_length=_CURSOR_CHARACTERS_MAX,
        description="`next_cursor` of the page before; default: from the start.",
    )

    def after(self) -> tuple[str | int, ...] | None:
        """The key that the page before ended with. Raises UsageError for a cursor that no page gave out."""
        if self.cursor is None:
            return None
        try:
            padded = self.cursor.encode("ascii") + b"=" * (-len(self.cursor) % 4)
            found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (binascii.Error, ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not all(type(part) in (str, int) for part in found):
            raise UsageError(_("cursor: expected the next_cursor of a page before this one"))
        return tuple(found)


def cursor_of(key: Sequence[str | int] | None) -> str | None:
    """The opaque cursor that stands for a key."""
    if key is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode("ascii")).rstrip(b"=").decode("ascii")


class ImportParameters(BaseModel):
    """What an import is told beside its files."""

    model_config = ConfigDict(extra="forbid")

    kind: Text | None = Field(None, description="The kind of all files; default: detected.")
    as_of: Text | None = Field(
        None, description="The instant of the snapshot, RFC 3339; default: the latest stamp in it."
    )
    cluster: Annotated[str, Field(max_length=253)] = Field("default", description="Which cluster it is.")
    node: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="Which node, where the files do not say."
    )
    epoch: Text | None = Field(None, description="Which instant a trace calls 0.")
    expected_interval_us: int | None = Field(None, ge=0, le=3_660 * DAY_US, description="Listings come this often.")
    all_namespaces: bool = Field(False, description="Every listing of pods is of the whole cluster.")
    name: Annotated[str, Field(max_length=1_000)] = Field(
        "upload", description="What findings call the file, where the body is one file as it is."
    )

    def request(self) -> ImportRequest:
        """The request, without files. Raises UsageError for what is no time."""
        return ImportRequest(
            paths=(),
            kind=self.kind,
            as_of=instant_of(self.as_of, "as_of"),
            cluster=self.cluster,
            node=self.node,
            epoch=instant_of(self.epoch, "epoch"),
            expected_interval_us=self.expected_interval_us,
            all_namespaces=self.all_namespaces,
        )


class TokenRequest(BaseModel):
    """A token to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200, description="What it is for.")
    role: str = Field(max_length=20, description="viewer, operator, finance or admin.")
    tenant: str | None = Field(None, min_length=1, max_length=253, description="A viewer's tenant.")
