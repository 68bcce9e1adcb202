"""No file and no order of calls makes a kernel leave its arrays, or go in circles in them."""

import json

import numpy as np
import pytest

import noregret as nr
from live import make, place, played, table_of
from noregret.agents.composed import referral
from noregret.storage import archive as _sealed


def resealed(path, change):
    """The file with a changed header, sealed again."""
    header, arrays = _sealed.unseal(path)
    header = json.loads(json.dumps(header))
    change(header, arrays)
    with open(path, "wb") as file:
        _sealed.seal(file, {k: v for k, v in header.items() if k not in ("noregret", "version")}, arrays)


@pytest.fixture
def stored():
    world = nr.worlds.random_logit(3, 2, 3, 2, seed=2)
    agent = nr.CertifiedPSRL(world.problem, sets="stored", seed=3)
    played(agent, world, range(3))
    return agent, world


@pytest.mark.parametrize("clock", [1_000_000, 64, 4, 2])
def test_a_clock_beyond_what_is_stored_is_refused(stored, clock, tmp_path):
    """`end_episode` wrote to a place that the file chose."""
    agent, world = stored
    agent.begin_episode(world.context(3, 3))
    agent.observe(1.0, int(world.problem.layout.outcomes[0, agent.act(0), 0]))
    agent.save(tmp_path / "agent.npz")
    nr.load(tmp_path / "agent.npz").end_episode()
    resealed(tmp_path / "agent.npz", lambda h, a: h.update(clock=[clock, 1, False, True]))
    with pytest.raises(ValueError, match="cannot be loaded: "):
        nr.load(tmp_path / "agent.npz")


@pytest.mark.parametrize("episode", [1_000_000, 5, 64, -1])
def test_a_person_beyond_what_is_stored_is_refused(stored, episode, tmp_path):
    agent, world = stored
    live = nr.Live(agent)
    for who in "ab":
        live.begin(who, world.context(3, 3))
        live.observe(who, 1.0, int(world.problem.layout.outcomes[0, live.act(who, 0).action, 0]))
    live.save(tmp_path / "live.npz")
    nr.Live.load(tmp_path / "live.npz").end("a")

    def change(header, arrays):
        header["people"][0]["episode"] = episode

    resealed(tmp_path / "live.npz", change)
    with pytest.raises(ValueError, match="cannot be loaded: "):
        nr.Live.load(tmp_path / "live.npz")


def test_counts_beyond_what_was_met_are_refused(stored, tmp_path):
    agent, _ = stored
    agent.save(tmp_path / "agent.npz")

    def change(header, arrays):
        arrays["state.transitions.begins"][...] = 10**6

    resealed(tmp_path / "agent.npz", change)
    with pytest.raises(ValueError, match="counts more steps than 3 individuals have taken"):
        nr.load(tmp_path / "agent.npz")


def test_room_for_records_that_could_not_be_made(monkeypatch):
    """Raised before its arrays existed, the room let the next plan write behind them."""
    world = place("referral")
    team = make("referral", world)
    played(team, world, range(2))

    def fails(*args, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(referral.np, "concatenate", fails)
        with pytest.raises(MemoryError):
            team.make_room(1000)
        with pytest.raises(MemoryError):
            team.begin_episode(world.context(3, 2))
    assert team.room == team.state.referred.size == team.state.gap.size == 2
    assert team.episode == 2
    played(team, world, range(2, 5))
    assert team.referred.size == 5


@pytest.mark.parametrize("sets", ["online", "stored"])
def test_an_agent_that_was_taken_over_is_refused_elsewhere(sets):
    """One agent in two hands made a circle in what is stored, and a kernel that never returned."""
    world = place("referral")
    agent = nr.CertifiedPSRL(world.problem, sets=sets)
    team = nr.Referral(agent, table_of(world.problem), 1.0)
    for taken in (lambda: nr.Referral(agent, table_of(world.problem), 2.0), lambda: nr.Live(agent),
                  lambda: nr.Certified(agent), lambda: nr.Referral(nr.LRORL(world.problem), agent, 1.0)):  # fmt: skip
        with pytest.raises(ValueError, match="must be free, this certified-psrl was taken over by a Referral"):
            taken()
    x = world.context(0, 0)
    for verb in (lambda: agent.begin_episode(x), lambda: agent.act(0), lambda: agent.observe(1.0, 0),
                 agent.end_episode):  # fmt: skip
        with pytest.raises(RuntimeError, match="this certified-psrl was taken over by a Referral, which has to be"):
            verb()
    played(team, world, range(3))
    assert agent.episode == team.episode == 3
    assert agent.state is team.state.agent
    live = nr.Live(team)
    with pytest.raises(RuntimeError, match="begin_episode: this referral was taken over by a Live"):
        team.begin_episode(x)
    del live  # nobody has it any more
    team.begin_episode(x)


def test_a_refused_takeover_leaves_the_agent_free():
    world = place("referral")
    agent = nr.LRORL(world.problem)
    with pytest.raises(ValueError, match="threshold"):
        nr.Referral(agent, table_of(world.problem), -1.0)
    agent.begin_episode(world.context(0, 0))


@pytest.mark.parametrize("name", ["psrl", "certified-psrl-stored", "referral", "certified"])
def test_the_clock_cannot_be_set(name):
    agent = make(name, place(name))
    with pytest.raises(AttributeError):
        agent.episode = 7
    assert agent.episode == 0


def test_room_is_made_wherever_something_is_learned(stored):
    """Whoever learns, of whichever individual: the arrays are long enough."""
    agent, world = stored
    mark = np.zeros(4, np.int64)
    agent.learn_steps(200, world.context(3, 9), [0, 1], [0], [1.0], None, mark=mark, told=np.ones(4, np.int64))
    assert agent.room >= 201
    assert mark.tolist() == [1, 1, 1, 1]
