"""The table ``[documents]``: what a site says of its statements becomes the style they are written in."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.app.settings import load_settings
from steelyard.primitives.errors import UsageError
from steelyard.surfaces.reports.document_set import DiskFolder, DocumentStyle
from tests.settlement.statements import statement

TOML = """
[documents]
csv_bom = true
languages = ["zh"]
font_folder = "/srv/fonts"

[documents.seller]
issuer = "ACME Finance"
region_id = "dc-1"

[documents.profiles.sap]
by = ["cost_centre"]
delimiter = ";"
decimal_comma = true
columns = [{ name = "KOSTL", source = "cost_centre" }, { name = "WRBTR", source = "amount", digits = 2 }]
"""


def style(folder: Path, toml: str) -> DocumentStyle:
    (folder / "steelyard.toml").write_text(toml, encoding="utf-8")
    return load_settings(folder).documents.documents().style


def test_what_the_settings_say_is_the_style(tmp_path: Path) -> None:
    found = style(tmp_path, TOML)
    assert (found.csv_bom, list(found.languages), found.font_folder) == (True, ["zh"], Path("/srv/fonts"))
    assert (found.focus_terms.issuer, found.focus_terms.region_id) == ("ACME Finance", "dc-1")
    assert [profile.name for profile in found.profiles] == ["sap"]


def test_without_settings_the_style_is_the_stock_one(tmp_path: Path) -> None:
    assert style(tmp_path, "") == DocumentStyle(languages=("en", "zh", "both"))


def test_a_profile_becomes_a_file_beside_the_statement(tmp_path: Path) -> None:
    (tmp_path / "steelyard.toml").write_text(TOML, encoding="utf-8")
    names = load_settings(tmp_path).documents.documents().write(statement(), DiskFolder(tmp_path / "out"), ["csv"])
    assert list(names) == ["statement.csv", "erp-sap.csv", "manifest.json"]
    assert (tmp_path / "out" / "erp-sap.csv").read_bytes() == b"KOSTL;WRBTR\r\n4711;176,44\r\n"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ('[documents]\nlanguages = ["fr"]', "languages"),
        ("[documents]\nlanguages = []", "languages"),
        ("[documents.profiles.p]\ncolumns = []", "columns"),
        ('[documents.profiles.p]\ncolumns = [{ name = "a", source = "wages" }]', "there is no source wages"),
        ('[documents.profiles.p]\ncolumns = [{ name = "a" }]', "expected source or value"),
        ('[documents.profiles.p]\ndate_format = "%n%Q"\ncolumns = [{ name = "a", value = "" }]', "date_format"),
        ('[documents.profiles."../x"]\ncolumns = [{ name = "a", value = "" }]', "profiles"),
        ('[documents.profiles.p]\ndelimiter = "ab"\ncolumns = [{ name = "a", value = "" }]', "delimiter"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        style(tmp_path, toml)
