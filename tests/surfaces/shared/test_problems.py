"""An error that travels as a problem document ends a command as it would have ended it here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.primitives.errors import (
    SourceMalformed,
    SourceUnavailable,
    SourceUnsupported,
    SteelyardError,
    StoreLocked,
    UsageError,
)
from steelyard.surfaces.shared.problems import KINDS, document, document_of, error_of

ERRORS = (
    UsageError("no such dimension\nand a second line"),
    StoreLocked("in use"),
    SourceUnavailable("not now", 2.5),
    SourceUnavailable("not now"),
    SourceUnsupported("unknown form"),
    SourceMalformed("cannot be read", 7, "ex\ud800cerpt"),
)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_comes_back_as_itself(error: SteelyardError) -> None:
    found = json.loads(json.dumps(document_of(error)))
    back = error_of(found, found["status"])
    assert type(back) is type(error)
    assert (str(back), back.exit_code, vars(back)) == (str(error), error.exit_code, vars(error))


def test_a_document_has_the_members_of_rfc_9457() -> None:
    for kind, known in KINDS.items():
        found = document(kind, "why")
        assert found == {
            "type": f"urn:steelyard:problem:{kind}",
            "title": known.title,
            "status": known.status,
            "detail": "why",
        }


@pytest.mark.parametrize(
    ("found", "status", "exit_code"),
    [
        (None, 502, 3),
        ([], 500, 3),
        ({"detail": 7}, 500, 3),
        ({"detail": "x", "type": "urn:steelyard:problem:internal"}, 500, 3),
        ({"detail": "x", "type": "urn:steelyard:problem:busy", "retry_after_seconds": "soon"}, 503, 3),
        ({"detail": "x", "type": "urn:steelyard:problem:malformed", "line": "1"}, 422, 3),
        ({"detail": "x", "type": ["?"]}, 400, 2),
        ({"detail": "x", "type": "about:blank"}, 403, 2),
    ],
)
def test_whatever_a_server_answers_an_error_comes_out(found: Any, status: int, exit_code: int) -> None:
    assert error_of(found, status).exit_code == exit_code
