"""Hostile text ends in findings, in bounds; it never raises, never fetches and never invents."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.facts.device import Device
from steelyard.facts.finding import Finding
from steelyard.facts.process_sample import ProcessSample
from steelyard.sources.nvidia_smi import FORMS, sniff
from steelyard.sources.shared.context import ReadSettings
from tests.sources.nvidia_smi.smi_texts import (
    CARD_A,
    DMON_TIMED,
    LIST,
    OLD_TABLE,
    PMON,
    QUERY,
    QUERY_GPU,
    TABLE,
    XML_CARD,
    cards,
    codes,
    of,
    read,
    xml,
)

TEXTS = {
    "smi_list": LIST, "smi_query_gpu": QUERY_GPU, "smi_table": TABLE + OLD_TABLE, "smi_q": QUERY, "smi_pmon": PMON, "smi_dmon": DMON_TIMED,
    "smi_xml": xml(XML_CARD.format(uuid=CARD_A)), "smi_compute_apps": f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{CARD_A}, 1, x, 2 MiB\n",
}  # fmt: skip


def assert_storable(facts: list[object]) -> None:
    """Every fact encodes as JSON without NUL and surrogates, and no amount is negative or beyond a BIGINT."""
    for fact in facts:
        encoded = msgspec.json.encode(fact)
        assert b"\\u0000" not in encoded
        for name in fact.__struct_fields__:  # type: ignore[attr-defined]
            value = getattr(fact, name)
            assert not isinstance(value, int) or abs(value) < 2**63


@given(form=st.sampled_from(sorted(FORMS)), text=st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_in_any_form_ends_in_facts_or_findings(form: str, text: str) -> None:
    assert_storable(read(form, text))


@given(form=st.sampled_from(sorted(TEXTS)), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_text_never_raises(form: str, data: st.DataObject) -> None:
    text = TEXTS[form]
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, min(len(text), at + 60)))
    patch = data.draw(
        st.text(max_size=12)
        | st.sampled_from(["N/A", "\x00", "\ud800", "99999999999999999999", "GPU is lost", "-", "|", "<", "&x;", "NaN"])
    )
    assert_storable(read(form, text[:at] + patch + text[to:], cards()))


@given(payload=st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_sniff_takes_any_bytes(payload: bytes) -> None:
    assert sniff(payload) is None or sniff(payload) in FORMS


@pytest.mark.parametrize(
    "attack",
    [
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "x">]><nvidia_smi_log>&a;</nvidia_smi_log>',
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY f SYSTEM "file:///etc/hostname">]><nvidia_smi_log>&f;</nvidia_smi_log>',
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY % p SYSTEM "http://127.0.0.1:1/x"> %p;]><nvidia_smi_log/>',
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log>&undefined;</nvidia_smi_log>',
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ELEMENT gpu ANY>]><nvidia_smi_log></nvidia_smi_log>',
        "<nvidia_smi_log>" + "<a>" * 5_000,
        "<nvidia_smi_log><gpu>" + "<a/>" * 250_000 + "</gpu></nvidia_smi_log>",
        "<nvidia_smi_log><timestamp>" + "9" * 100_000 + "</timestamp></nvidia_smi_log>",
        "<nvidia_smi_log><gpu",
        "<other/>",
    ],
)  # fmt: skip
def test_xml_that_no_driver_writes_is_refused(attack: str) -> None:
    facts = read("smi_xml", attack)
    assert codes(facts) == ["source_malformed"]
    assert of(Device, facts) == []


def test_a_broken_document_keeps_the_cards_before_the_break() -> None:
    text = xml(XML_CARD.format(uuid=CARD_A), "<gpu id='x'><uuid>oops</gpu>")
    facts = read("smi_xml", text)
    assert [d.device_uuid for d in of(Device, facts)] == [CARD_A]
    finding = next(f for f in of(Finding, facts) if f.code == "source_malformed")
    assert finding.line is not None
    assert "oops" in text.splitlines()[finding.line - 1]


@pytest.mark.parametrize(
    "form", sorted(FORMS - {"smi_topo", "smi_nvlink", "smi_retired_pages", "smi_xml", "smi_capture", "smi_q"})
)
def test_a_line_beyond_the_limit_is_refused(form: str) -> None:
    facts = read(form, "# gpu pid\n" + "x" * 5_000 + "\n", settings=ReadSettings(line_bytes_max=1_000))
    finding = next(f for f in of(Finding, facts) if "longer than 1000" in f.message)
    assert finding.line == 2
    assert len(finding.excerpt or "") <= 200


def test_findings_are_bounded_and_the_rest_is_counted() -> None:
    facts = read("smi_list", "junk\n" * 5_000)
    assert len(of(Finding, facts)) == 201
    assert '"count":5000' in of(Finding, facts)[-1].evidence


def test_rows_without_a_time_are_bounded_in_number() -> None:
    rows = "".join(f"    0 {pid} C 1 1 x\n" for pid in range(1, 3_001))
    facts = read("smi_pmon", "# gpu pid type sm mem command\n" + rows, cards())
    assert len(of(ProcessSample, facts)) == 3_000


CONFUSING = (
    "|" + " " * 4_000,
    "|   0  " + "a " * 1_500 + "|",
    "GPU 0: " + " (UUID: " * 50,
    "# gpu " + "pid " * 3_000,
    "," * 60_000,
    "[" * 8_000,
    "0," * 4_000,
)


@pytest.mark.parametrize("line", CONFUSING)
@pytest.mark.parametrize("form", sorted(FORMS - {"smi_xml"}))
def test_lines_made_to_confuse_a_pattern_are_read_in_bounds(form: str, line: str) -> None:
    assert_storable(read(form, (line + "\n") * 20, cards()))
