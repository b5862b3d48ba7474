"""Commands about declared money meet the server of the directory and say what they would have said without it."""

from __future__ import annotations

from pathlib import Path

from tests.app.served_directory import serving, steelyard

BOOK = "side,model,currency,price,per\ncharge,H100,USD,{price},hour\n"
TREE = "by,match,department\nnamespace,team-a,research\n"
RATES = "base_currency,quote_currency,rate,valid_from\nUSD,CNY,7.1,2026-01-01\n"
AT = ("--at", "2026-03-01T00:00:00Z")
SHOWN = (
    ("prices", "list", *AT), ("prices", "list", *AT, "--json"), ("prices", "diff"), ("prices", "unpriced"), ("prices", "list", "--book", "none"),
    ("tenancy", "show", *AT), ("tenancy", "check"), ("rates", "list", *AT), ("prices", "diff", "1", "7"),
)  # fmt: skip


def test_a_served_directory_declares_and_shows_as_the_file_itself_does(tmp_path: Path) -> None:
    for name, text in (
        ("1.csv", BOOK.format(price="2.50")),
        ("2.csv", BOOK.format(price="2.75")),
        ("bad.csv", BOOK.format(price="1e400")),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "tree.csv").write_text(TREE, encoding="utf-8")
    (tmp_path / "rates.csv").write_text(RATES, encoding="utf-8")
    data = tmp_path / "data"
    assert steelyard("prices", "import", "1.csv", "--data", data, cwd=tmp_path).returncode == 0
    with serving(data) as server:
        for words in (
            ("prices", "import", "2.csv", "--reason", "dearer"),
            ("tenancy", "import", "tree.csv"),
            ("rates", "import", "rates.csv"),
        ):
            assert steelyard(*words, "--data", data, cwd=tmp_path).returncode == 0
        again = steelyard("prices", "import", "2.csv", "--data", data, cwd=tmp_path)
        assert b"version 2, 1 line holds already" in again.stdout
        bad = steelyard("prices", "import", "bad.csv", "--data", data, cwd=tmp_path)
        assert (bad.returncode, b"bad.csv: nothing was taken, 1 mistake: line 2: price" in bad.stderr) == (3, True)
        served = [steelyard(*words, "--data", data, cwd=tmp_path) for words in SHOWN]
        assert server.end()[0] == 0
    own = [steelyard(*words, "--data", data, cwd=tmp_path) for words in SHOWN]
    for words, over, alone in zip(SHOWN, served, own, strict=True):
        assert (over.returncode, over.stdout, over.stderr) == (alone.returncode, alone.stdout, alone.stderr), words
    assert b"2.75" in own[0].stdout and b"dearer" in own[0].stdout
    assert own[4].returncode == 2
