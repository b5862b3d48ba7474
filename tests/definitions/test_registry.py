from steelyard.definitions.macros import STEMS
from steelyard.definitions.registry import DEFINITIONS, definition


def test_every_definition_has_a_name_a_version_and_one_line() -> None:
    names = [entry.name for entry in DEFINITIONS]
    assert len(set(names)) == len(names)
    assert set(STEMS) <= set(names)
    assert all(entry.version and entry.formula and "\n" not in entry.formula for entry in DEFINITIONS)
    assert definition("share").version == "1"
