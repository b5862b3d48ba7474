from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.primitives.errors import SourceMalformed
from steelyard.sources.shared.vgpu_register import VOLCANO_5, VOLCANO_6, parse_csv_register, parse_json_register

G = "GPU-11111111-0000-4000-8000-000000000001"
VOLCANO = {"volcano5": VOLCANO_5, "volcano6": VOLCANO_6}


def test_layouts_are_told_apart_by_their_number_of_fields() -> None:
    (seven,), _ = parse_csv_register(f"{G},10,15360,100,NVIDIA-Tesla T4,1,true:")
    assert (seven.encoding, seven.index, seven.mode, seven.numa, seven.healthy) == ("csv7", None, None, 1, True)
    (nine,), _ = parse_csv_register(f"{G},10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,1,false,3,mig:")
    assert (nine.encoding, nine.index, nine.mode, nine.healthy) == ("csv9", 3, "mig", False)
    (five,), _ = parse_csv_register(f"{G},10,32768,NVIDIA-Tesla V100,true:", VOLCANO)
    assert (five.encoding, five.kind, five.cores, five.mode, five.healthy) == (
        "volcano5",
        "NVIDIA-Tesla V100",
        None,
        None,
        True,
    )
    (six,), _ = parse_csv_register(f"{G},10,32768,NVIDIA-Tesla V100,0,mig:", VOLCANO)
    assert (six.encoding, six.mode, six.healthy, six.numa) == ("volcano6", "mig", False, None)


@pytest.mark.parametrize(
    "text",
    [
        f"{G},10,15360,100,T4,0,true:{G}2,10,15360,100,T4,0:",
        f"{G},10,15360,100,T4,0,true,0:",
        "not a uuid,10,15360,100,T4,0,true:",
        "x" * 1_048_577,
        "a,b:" * 2_000,
    ],
)
def test_another_number_of_fields_refuses_the_whole_node(text: str) -> None:
    with pytest.raises(SourceMalformed):
        parse_csv_register(text)


def test_a_field_that_cannot_be_read_is_unknown_and_named() -> None:
    (card,), problems = parse_csv_register(f"{G},ten,15360,-5,T4,-1,maybe:")
    assert (card.slots_count, card.cores, card.numa, card.healthy, card.memory_mib) == (None, None, None, None, 15360)
    assert [code for code, _ in problems] == ["register_field_unreadable"] * 3


def test_json_omits_zero_values() -> None:
    (card,), problems = parse_json_register(
        f'[{{"id":"{G}","count":10,"devmem":46068,"devcore":100,"type":"NVIDIA L40S"}}]'
    )
    assert (card.encoding, card.index, card.numa, card.healthy, card.mode) == ("json", 0, 0, False, None)
    assert problems == []


def test_json_keeps_the_mig_profiles_as_written() -> None:
    (card,), _ = parse_json_register(f'[{{"id":"{G}","migProfiles":[{{"name":"2g.10gb","core":29}}],"health":true}}]')
    assert (card.encoding, card.mig_profiles) == ("json+migProfiles", '[{"name":"2g.10gb","core":29}]')


@pytest.mark.parametrize(
    "text",
    [
        "[",
        '{"id":"x"}',
        "[" * 5_000,
        "[NaN]",
        '["\ud800"]',
        "[" + ",".join(["1"] * 1_025) + "]",
        "[]" + " " * 1_048_576,
    ],
)
def test_json_that_is_no_list_of_cards_is_refused(text: str) -> None:
    with pytest.raises(SourceMalformed):
        parse_json_register(text)


@pytest.mark.parametrize(
    "entry",
    ["1", "null", "{}", '{"id":7}', '{"id":""}', '{"id":"a b"}'],
)
def test_a_json_entry_without_a_readable_id_is_named_and_the_others_are_kept(entry: str) -> None:
    cards, problems = parse_json_register(f'[{entry},{{"id":"{G}"}}]')
    assert [card.uuid for card in cards] == [G]
    assert [code for code, _ in problems] == ["register_malformed"]


def test_wrong_json_types_are_unknown_and_named() -> None:
    text = f'[{{"id":"{G}","count":"ten","devmem":true,"devcore":1.5,"numa":null,"health":1,"index":{10**30},"type":[],"migProfiles":{{}}}}]'
    (card,), problems = parse_json_register(text)
    assert (card.slots_count, card.memory_mib, card.cores, card.numa) == (None, None, None, None)
    assert (card.healthy, card.index, card.kind, card.mig_profiles) == (None, None, None, None)
    assert [code for code, _ in problems] == ["register_field_unreadable"] * 8


def test_deep_profiles_are_refused_without_recursion() -> None:
    deep = "[" * 600 + "]" * 600
    (card,), problems = parse_json_register(f'[{{"id":"{G}","migProfiles":{deep}}}]')
    assert card.mig_profiles is None
    assert [code for code, _ in problems] == ["register_field_unreadable"]


def test_a_card_that_stands_there_twice_is_one_card() -> None:
    cards, problems = parse_csv_register(f"{G},10,1,100,T4,0,true:{G},5,2,100,T4,0,true:")
    assert [(card.uuid, card.slots_count) for card in cards] == [(G, 10)]
    assert [code for code, _ in problems] == ["register_duplicate_device"]


@given(st.text(alphabet='GPU-1,:[]{}"idtrue \ud800', max_size=80))
def test_any_text_yields_cards_or_a_refusal(text: str) -> None:
    for parse in (parse_csv_register, parse_json_register):
        try:
            cards, _ = parse(text)
        except SourceMalformed:
            continue
        assert all(card.uuid for card in cards)
