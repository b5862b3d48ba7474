"""What a command sends to a server is what the server's route reads."""

from __future__ import annotations

import pytest

from steelyard.answers.fits import FitsSpec
from steelyard.answers.fragmentation import FragmentationSpec
from steelyard.answers.right_sizing import RightSizingSpec
from steelyard.primitives.instant import DAY_US, Window
from steelyard.surfaces.http_api.capacity import FitsParameters, FragmentationParameters, RightSizingParameters
from steelyard.surfaces.shared.capacity_ports import CapacitySpec, capacity_parameters
from steelyard.surfaces.shared.options import instant_of


@pytest.mark.parametrize(
    "spec",
    [
        FitsSpec(),
        FitsSpec(2, 8_000, 30, 8.5, None, "A100", "east", 5 * DAY_US, True),
        FitsSpec(mig="2g.20gb", tenant="never sent"),
        FragmentationSpec(),
        FragmentationSpec(5 * DAY_US, 7, "east", "n1", "T4", True),
        RightSizingSpec(),
        RightSizingSpec(Window(DAY_US, 2 * DAY_US), "east", "team-a", True, "never sent"),
    ],
)
def test_a_question_survives_its_way_to_the_server(spec: CapacitySpec) -> None:
    sent = dict(capacity_parameters(spec))
    assert "never sent" not in sent.values()
    read: CapacitySpec
    if isinstance(spec, FitsSpec):
        fits = FitsParameters.model_validate(sent)
        read = FitsSpec(at=instant_of(fits.at, "at"), **fits.model_dump(exclude={"at"}), tenant=spec.tenant)
    elif isinstance(spec, FragmentationSpec):
        of = FragmentationParameters.model_validate(sent)
        read = FragmentationSpec(at=instant_of(of.at, "at"), **of.model_dump(exclude={"at"}))
    else:
        right = RightSizingParameters.model_validate(sent)
        read = RightSizingSpec(right.window(), right.cluster, right.namespace, right.explain, spec.tenant)
    assert read == spec
