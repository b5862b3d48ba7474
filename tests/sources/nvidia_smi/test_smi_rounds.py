"""Rounds of ``nvidia-smi -l``: how far apart they lie is declared by the import, never guessed from the text."""

from __future__ import annotations

import pytest

from steelyard.facts.source_status import SourceStatus
from steelyard.primitives.instant import MINUTE_US
from steelyard.sources.nvidia_smi import read_smi
from steelyard.sources.shared.context import ReadContext

ROUNDS = (
    "timestamp, uuid, memory.used [MiB]\n"
    "2026/09/01 00:00:00.000, GPU-aaaaaaaa-0000-4000-8000-000000000001, 5 MiB\n"
    "2026/09/01 00:10:00.000, GPU-aaaaaaaa-0000-4000-8000-000000000001, 9 MiB\n"
)
LIST = "GPU 0: NVIDIA L40S (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n"


@pytest.mark.parametrize(
    ("form", "text", "declared", "gap"),
    [
        ("smi_query_gpu", ROUNDS, 10 * MINUTE_US, 10 * MINUTE_US),
        ("smi_query_gpu", ROUNDS, None, None),
        ("smi_list", LIST, 10 * MINUTE_US, None),
    ],
)
def test_the_declared_interval_stands_on_the_status_of_dated_rounds(
    form: str, text: str, declared: int | None, gap: int | None
):
    facts = read_smi(form, text, ReadContext(node="n1", expected_interval_us=declared))
    assert [fact.gap_max_us for fact in facts if isinstance(fact, SourceStatus)] == [gap]
