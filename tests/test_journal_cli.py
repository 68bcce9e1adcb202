"""`noregret journal`: what it prints, and what it refuses in a sentence."""

import pytest
from typer.testing import CliRunner

import noregret as nr
from noregret.agents.contents import fingerprint
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
    assert CliRunner().invoke(app, ["journal", "erase", filled, "7", *school], input="n\n").exit_code == 1
    assert "2 events of 7 erased; event 4 says so" in said("erase", filled, "7", "--yes", *school)
    assert "5 events, 2 of them erased" in said("verify", filled, *school)
    shown = said("export", filled, *school, "--out", str(tmp_path / "out"))
    for name in ("events", "decisions", "outcomes", "people"):
        assert name in shown
        assert (tmp_path / "out" / f"{name}.parquet").exists()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (["verify", "URL"], "has several, school, shop: name one"),
        (["verify", "URL", "--programme", "none"], r"has no 'none' \(it has: school, shop\)"),
        (["verify", "URL", "--programme", "shop", "--known", "3"], "known must be EVENTS:CHAIN"),
        (["erase", "URL", "x", "--programme", "shop", "--yes"], "no event of 'x'"),
        (["programmes", "/nowhere/at/all.db"], "no such file"),
    ],
)
def test_sentences(filled, told, sentence):
    with pytest.raises(ValueError, match=sentence):
        said(*[filled if part == "URL" else part for part in told])


def test_erasing_folds_the_agent_first(url):
    """A snapshot without the person is made before the others are dropped; the agent goes on from it."""
    world = nr.worlds.clinic()
    with nr.Journal(url, "clinic") as journal:
        live = nr.Live(nr.UniformRandom(world.problem), journal=journal)
        for k, who in enumerate(("Mr A", "Ms B")):
            live.begin(who, world.context(seed=0, episode=k))
            live.act(who, 2)
            live.observe(who, 0.5, 1, step=0)
            live.end(who)
        before = fingerprint(live.agent)
    assert "erased" in said("erase", url, "Mr A", "--yes")
    with nr.Journal(url, "clinic") as journal:
        assert journal.of("Mr A") == []
        assert len(journal.of("Ms B")) == 4
        assert journal.verify().ok
        live = nr.Live.resume(journal)
        assert live.agent.episode == 2
        assert fingerprint(live.agent) == before


def test_nothing_is_erased_beside_a_writer(filled, capsys):
    with nr.Journal(filled, "shop") as journal:
        assert journal.lock()
        with pytest.raises(SystemExit):
            app(["journal", "erase", filled, "a", "--programme", "shop", "--yes"])
    assert "noregret: somebody else writes the journal of shop" in capsys.readouterr().err
