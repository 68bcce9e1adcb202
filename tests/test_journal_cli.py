"""`noregret journal`: what it prints, and what it refuses in a sentence."""

import pytest
from typer.testing import CliRunner

import noregret as nr
from noregret.cli import app
from noregret.journal.database import server_of
from noregret.journal.event import Entry

T = "2026-11-17T09:30:00.000000Z"


@pytest.fixture
def filled(url):
    for name, people in (("school", ["Ms B", 7]), ("shop", ["a"])):
        with nr.Journal(url, name) as journal:
            journal.write([Entry(kind, T, who, {}) for who in people for kind in ("begin", "end")])
    return url


def said(*told, status=0):
    """What a command prints; sentences are raised, as the program itself catches them."""
    result = CliRunner().invoke(app, ["journal", *told])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.output


def test_programmes_and_verify(filled):
    with nr.Journal(filled, "school") as journal:
        chain = journal.chain.hex()
    listed = said("programmes", filled).split("\n")
    assert [line.split()[:6] for line in listed[1:2]] == [["school", chain, "4", "2", "0", "0"]]
    assert listed[2].startswith("shop")
    assert "4 events, 0 of them erased" in said("verify", filled, "--programme", "school", "--known", f"4:{chain}")
    assert "1 not as they were" in said("verify", filled, "--programme", "shop", "--known", f"2:{chain}", status=1)
    connection = server_of(filled).connect()
    connection.execute("UPDATE journal_events SET kind = 'note' WHERE programme = 'shop' AND number = 1")
    connection.close()
    assert "event 1 does not follow" in said("verify", filled, "--programme", "shop", status=1)
    assert "as they were written" in said("verify", filled, "--programme", "shop", "--start", "2")


def test_erase_and_export(filled, tmp_path):
    school = ("--programme", "school")
    assert CliRunner().invoke(app, ["journal", "erase", filled, "7", "--integer", *school], input="n\n").exit_code == 1
    assert "2 events of 7 erased; event 4 says so" in said("erase", filled, "7", "--integer", "--yes", *school)
    assert "5 events, 2 of them erased" in said("verify", filled, *school)
    shown = said("export", filled, *school, "--out", str(tmp_path / "out"))
    for name in ("events", "decisions", "outcomes", "people"):
        assert name in shown
        assert (tmp_path / "out" / f"{name}.parquet").exists()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (["verify", "URL"], "programme must be named, the database has 2: school, shop"),
        (["verify", "URL", "--programme", "none"], "programme must be one of school, shop"),
        (["verify", "URL", "--programme", "shop", "--known", "3"], "known must be EVENTS:CHAIN"),
        (["erase", "URL", "x", "--programme", "shop", "--yes"], "no event of 'x'"),
        (["erase", "URL", "x", "--programme", "shop", "--yes", "--integer"], "who must be an integer"),
        (["programmes", "/nowhere/at/all.db"], "no such file"),
    ],
)
def test_sentences(filled, told, sentence):
    with pytest.raises(ValueError, match=sentence):
        said(*[filled if part == "URL" else part for part in told])


def test_nothing_is_erased_beside_a_writer(filled, capsys):
    with nr.Journal(filled, "shop") as journal:
        assert journal.lock()
        with pytest.raises(SystemExit):
            app(["journal", "erase", filled, "a", "--programme", "shop", "--yes"])
    assert "noregret: somebody else writes the journal of shop" in capsys.readouterr().err
