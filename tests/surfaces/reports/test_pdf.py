"""PDF statements: what the pages say, no missing glyph, hostile names as data, the same bytes each time."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pypdfium2
import pytest

from steelyard.primitives.errors import UsageError
from steelyard.settlement.statement import Statement
from steelyard.surfaces.reports import fonts
from steelyard.surfaces.reports.extra import report_library
from steelyard.surfaces.reports.page_content import LINES_MAX, TEXT_MAX, breakable
from steelyard.surfaces.reports.pdf import statement_pdf
from steelyard.surfaces.reports.wording import Language
from tests.conftest import REPOSITORY
from tests.settlement.statements import every_kind, line, many, statement

EXPECTED = Path(__file__).parent / "expected"
DIGEST = "ab" * 32
CHINESE = statement(
    [line("0001", pod="推理服务-一", team="搜索部", project="排序", description="大模型推理，四分之一张卡"), *every_kind()[1:]],
    tenant="搜索业务组", notes=("有一张卡没有价格。",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def font() -> None:
    try:
        fonts.choose_font()
    except UsageError as error:
        pytest.skip(str(error))


def pages(content: bytes) -> list[str]:
    document = pypdfium2.PdfDocument(content)
    return [page.get_textpage().get_text_range().replace("\r\n", "\n").replace("\u200b", "") for page in document]


def text_of(whole: Statement, language: Language = "en") -> str:
    return "\n".join(pages(statement_pdf(whole, language, DIGEST)))


def pictures(content: bytes, scale: float = 4) -> dict[str, set[bytes]]:
    """Each Chinese character of a document -> what its boxes look like, cut to the ink so that the same glyph is the same picture."""
    found: dict[str, set[bytes]] = defaultdict(set)
    for page in pypdfium2.PdfDocument(content):
        image = page.render(scale=scale, grayscale=True).to_numpy() < 128
        height = page.get_height()
        text = page.get_textpage()
        for number in range(text.count_chars()):
            character = text.get_text_range(number, 1)
            if not "\u4e00" <= character <= "\u9fff":
                continue
            left, bottom, right, top = text.get_charbox(number)
            box = image[
                int((height - top) * scale) : int((height - bottom) * scale) + 1,
                int(left * scale) : int(right * scale) + 1,
            ]
            found[character].add(f"{box.shape}".encode() + box.tobytes())
    return found


def boxes(found: dict[str, set[bytes]]) -> set[str]:
    """Characters without ink, or that look exactly as another one does: what a missing glyph's box would."""
    looks: dict[bytes, set[str]] = defaultdict(set)
    for character, each in found.items():
        for picture in each:
            looks[picture].add(character)
    return {
        character for picture, alike in looks.items() if len(alike) > 1 or b"\x01" not in picture for character in alike
    }


def test_a_chinese_statement_rasterised_has_no_missing_glyph() -> None:
    found = pictures(statement_pdf(CHINESE, "zh", DIGEST))
    assert set("搜索业务组推理服务四分之一张卡排序") <= set(found)
    assert boxes(found) == set()


def test_a_statement_in_both_languages_rasterised_has_no_missing_glyph() -> None:
    found = pictures(statement_pdf(CHINESE, "both", DIGEST))
    assert len(found) > 100
    assert boxes(found) == set()


def test_the_check_sees_boxes_where_a_font_lacks_the_glyphs() -> None:
    typst = report_library("typst")
    source = '#set text(font: "Libertinus Serif", fallback: false)\n账单计费租户汇总'
    content = typst.compile(source.encode(), ignore_system_fonts=True, format="pdf")
    found = pictures(content)
    assert not found or boxes(found) == set(found)


def test_a_font_without_chinese_or_an_empty_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"fonts-wqy-microhei.*font_folder"):
        statement_pdf(statement(), "zh", DIGEST, font_folder=tmp_path)
    latin = Path("/usr/share/fonts/truetype/dejavu")
    if latin.is_dir():
        with pytest.raises(UsageError, match="needs a font with Chinese"):
            statement_pdf(statement(), "en", DIGEST, font_folder=latin)


def test_a_configured_folder_is_where_the_font_is_taken_from(tmp_path: Path) -> None:
    chosen = fonts.choose_font()
    shutil.copy(chosen.path, tmp_path)
    assert fonts.choose_font(tmp_path).path.parent == tmp_path
    assert statement_pdf(statement(), "zh", DIGEST, font_folder=tmp_path).startswith(b"%PDF")


def test_the_same_statement_gives_the_same_bytes_in_another_process() -> None:
    here = hashlib.sha256(statement_pdf(statement(), "zh", DIGEST)).hexdigest()
    program = (
        "import hashlib; from tests.settlement.statements import statement;"
        "from steelyard.surfaces.reports.pdf import statement_pdf;"
        f"print(hashlib.sha256(statement_pdf(statement(), 'zh', '{DIGEST}')).hexdigest())"
    )
    environment = {**os.environ, "STEELYARD_LANG": "zh", "TZ": "America/New_York", "PYTHONHASHSEED": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == here


def test_the_date_of_the_file_is_the_instant_of_the_close() -> None:
    document = pypdfium2.PdfDocument(statement_pdf(statement(), "en", DIGEST))
    assert document.get_metadata_value("CreationDate").startswith("D:20261203023000")


def test_what_the_pages_say() -> None:
    """The text of every page, as a reader would copy it."""
    written = "\f\n".join(pages(statement_pdf(statement(), "en", DIGEST))) + "\n"
    path = EXPECTED / "statement_pdf.txt"
    if os.environ.get("STEELYARD_RENEW"):
        path.write_text(written, encoding="utf-8")
    assert written == path.read_text(encoding="utf-8")


def test_every_page_has_the_number_the_page_and_the_hash() -> None:
    found = pages(statement_pdf(statement(), "en", DIGEST))
    for number, page in enumerate(found, start=1):
        assert f"S-2026-11-0001 Page {number} / {len(found)} {DIGEST[:16]}" in page
    assert DIGEST in found[-1]


def test_marks_stand_at_estimated_unpriced_and_provisional_lines() -> None:
    text = text_of(statement([*every_kind(), line("0009", provisional=True)]))
    assert "CN¥7.20\nestimated" in text
    assert "no price\nno price names this" in text
    assert "CN¥54.00\nprovisional" in text
    assert "Lines without a price, not in the total 1" in text
    assert "S-2026-10-0007/0003 late facts of 2026-10 facts came late -CN¥2.25" in text


@pytest.mark.parametrize(("state", "says"), [("draft", "DRAFT"), ("shadow", "SHADOW"), ("closed", None)])
def test_what_is_not_to_be_paid_says_so(state: str, says: str | None) -> None:
    text = text_of(statement(state=state))
    assert (says is not None and says in text) or ("DRAFT" not in text and "SHADOW" not in text)


HOSTILE = (
    '#panic("x")', "*bold* _it_ `raw` $x^2$ @ref <label>", "// comment", "/* open", "\\u{41}", 'quote " and \' end',
    "line\nend\r\ttab", "\u202eevil\u202c", "\x1b[31m", "😀 family 👪", "عربى עברית", "]#(1)[", "}}", "\x00",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_set_as_it_is_written(name: str) -> None:
    whole = statement([line("0001", pod=name, team=name, model=name)], tenant=name, notes=(name,))
    text = text_of(whole)
    shown = fonts.choose_font().covered(name)
    assert shown.split(" ")[0] in text.replace("\n", "") or shown.split(" ")[0] in text
    assert "Definitions" in text


def test_a_very_long_name_is_cut_and_leaves_the_amount_where_it_is() -> None:
    text = text_of(statement([line("0001", pod="x" * 10_000, team="y" * 10_000)]))
    assert "CN¥54.00" in text
    assert "…" in text
    assert "x" * (TEXT_MAX + 1) not in text.replace("\n", "")


def test_a_long_run_may_break_and_a_short_one_does_not() -> None:
    assert breakable("search/infer-1 on a card") == "search/infer-1 on a card"
    assert breakable("x" * 30).replace("\u200b", "") == "x" * 30
    assert "\u200b" in breakable("x" * 30)


def test_lines_beyond_the_bound_are_counted_and_summed_on_the_page() -> None:
    whole = many(LINES_MAX + 7)
    text = text_of(whole)
    left = sum(each.amount_micro or 0 for each in whole.lines[LINES_MAX:])
    assert f"7 more lines, CN¥{left / 10**6:.2f} together, stand in statement.csv" in text


def test_a_negative_total_below_one_keeps_its_sign() -> None:
    assert "-0.250000 CNY" in text_of(statement([line("1", amount_micro=-250_000)]))
    assert "-1.250000 CNY" in text_of(statement([line("1", amount_micro=-1_250_000)]))


def test_an_empty_statement_is_a_statement() -> None:
    assert "CN¥0.00" in text_of(statement([], daily=(), versions={}, notes=()))


def test_yen_have_no_decimals_and_dollars_two() -> None:
    assert "¥54\n" in text_of(statement([line("1")], currency="JPY"))
    assert "$54.00" in text_of(statement([line("1")], currency="USD"))
