"""Agents as files: what was written comes back to the bit, and nothing else comes back."""

import dataclasses
import io
import itertools
import json
import math
import zipfile

import numpy as np
import pytest

import noregret as nr
from live import make, place, played
from noregret.agents import contents, files
from noregret.storage import archive as _sealed


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(path, its bytes, the digest of its contents) of a tabular agent with an open episode and an encoder."""
    coder = nr.Encoder({"age": (0, 90)}, {"sex": ("f", "m")}, missing=("age",))
    available = np.array([[1, 1], [1, 0], [1, 1]], bool)
    problem = nr.Problem(3, 2, 2, coder.context_dim, available=available, weight_bound=1.0, reward_bound=1.0)
    agent = nr.make_agent("psrl", problem, seed=5, centres=np.eye(2, coder.context_dim)).with_encoder(coder)
    for age in (20, 40, None):
        agent.begin_episode({"age": age, "sex": "f"})
        for s, after in ((0, 1), (1, 2)):
            agent.act(s)
            agent.observe(1.0, after)
        agent.end_episode()
    agent.begin_episode({"age": 30, "sex": "m"})
    agent.act(0, action=1)
    agent.observe(float("nan"), 2)
    path = tmp_path_factory.mktemp("files") / "agent.npz"
    agent.save(path)
    return path, path.read_bytes(), everything(agent)


def everything(agent):
    header, arrays = contents.contents(agent)
    return _sealed.digest(json.loads(json.dumps(header)), arrays)


def attempt(path, data, right):
    """'same', or the sentence of the refusal; anything else fails."""
    path.write_bytes(data)
    try:
        agent = nr.load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return str(error)
    assert everything(agent) == right
    return "same"


def test_the_same_comes_back(saved, tmp_path):
    path, data, right = saved
    agent = nr.load(path)
    assert everything(agent) == right
    assert agent._others.tolist() == [True, False]
    assert agent.encoder.encode({"age": 3, "sex": "f"}).shape == (agent.problem.context_dim,)
    agent.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == data


def test_flipped_bytes(saved, tmp_path):
    """Every byte of the file, one at a time in a sample, and several at once: the identical agent or a sentence."""
    _, data, right = saved
    g, results = np.random.default_rng(0), []
    for i in range(600):
        made = bytearray(data)
        for where in g.integers(0, len(data), 1 if i < 500 else 5):
            made[where] ^= 1 << int(g.integers(8))
        results.append(attempt(tmp_path / "a.npz", bytes(made), right))
    assert sum(r == "same" for r in results) < 150  # dates and the like in the zip's own fields
    assert sum("is damaged" in r for r in results) > 300


def test_cut_short_or_grown(saved, tmp_path):
    _, data, right = saved
    g = np.random.default_rng(1)
    for n in [0, 1, 3, 4, 30, len(data) - 1, *g.integers(0, len(data), 60)]:
        assert attempt(tmp_path / "a.npz", data[:n], right) != "same"
    for n in g.integers(0, len(data), 40):
        attempt(tmp_path / "a.npz", data[:n] + data[n + 7 :], right)
        attempt(tmp_path / "a.npz", data[:n] + b"0123456" + data[n:], right)


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {i.filename: z.read(i) for i in z.infolist()}


def zipped(parts, kind=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as z:
        for name, content in parts:
            z.writestr(name, content)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_swapped_missing_and_added_members(saved, tmp_path):
    _, data, right = saved
    parts, path = members(data), tmp_path / "a.npz"
    assert attempt(path, zipped(parts.items()), right) == "same"
    assert attempt(path, zipped(reversed(parts.items())), right) == "same"  # their order says nothing
    names = sorted(parts)
    refused = 0
    for a, b in itertools.pairwise(names):
        swapped = parts | {a: parts[b], b: parts[a]}
        refused += attempt(path, zipped(swapped.items()), right) != "same"
    assert refused > len(names) - 5  # equal contents may change places
    for name in names:
        left = {n: c for n, c in parts.items() if n != name}
        assert attempt(path, zipped(left.items()), right) != "same"
    for name, content in (("more.npy", npy(np.ones(3))), ("../evil.npy", npy(np.ones(3))), ("evil.py", b"import os")):
        assert attempt(path, zipped([*parts.items(), (name, content)]), right) != "same"
    twice = zipped([*parts.items(), (names[0], parts[names[0]])])
    assert "a part is there twice" in attempt(path, twice, right)


def sealed_again(data, change, **arrays):
    """The file with a changed header and arrays, and the checksum that goes with them."""
    header, kept = _opened(data)
    header = change(header) or header
    header.pop("sha256", None)
    kept |= arrays
    header["sha256"] = _sealed.digest(header, kept)
    parts = {"header.npy": npy(np.frombuffer(json.dumps(header).encode(), np.uint8))}
    return zipped([*parts.items(), *((f"{n}.npy", npy(a)) for n, a in kept.items())])


def _opened(data):
    parts = {n.removesuffix(".npy"): np.load(io.BytesIO(c)) for n, c in members(data).items()}
    return json.loads(bytes(parts.pop("header"))), parts


def into(**values):
    def change(header):
        header.update(values)

    return change


def sized(**values):
    def change(header):
        header["problem"].update(values)

    return change


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda d: b"", "is empty"),
        (lambda d: b"not a zip at all", "is not a file saved by noregret"),
        (lambda d: zipped([("a.npy", npy(np.ones(3)))]), "is not a file saved by noregret"),
        (lambda d: zipped([("header.npy", npy(np.ones(3, np.uint8)))]), "is damaged: its parts cannot be read"),
        (lambda d: zipped([("header.npy", npy(np.frombuffer(b'{"a": 1}', np.uint8)))]), "is not a file saved by"),
        (lambda d: d[: len(d) // 2], "was cut short: its table of contents is missing"),
        (lambda d: sealed_again(d, into(noregret=6, version="9.0")), r"has format 6, of a newer version .*\(9\.0\)"),
        (lambda d: sealed_again(d, into(noregret=1)), "has format 1, of an older version"),
        (lambda d: d.replace(b'"seed": 5', b'"seed": 6'), "is damaged"),
        (lambda d: zipped(members(d).items(), zipfile.ZIP_DEFLATED), "a part is compressed"),
        (lambda d: sealed_again(d, into(holds="else")), "holds no agent"),
        (lambda d: sealed_again(d, into(agent="robot")), "cannot be loaded: unknown agent 'robot'"),
        (lambda d: sealed_again(d, lambda h: h.pop("clock") and None), "cannot be loaded: 'clock' is missing"),
        (lambda d: sealed_again(d, sized(n_states=10**6)), "plan.policy has the shape .* the problem's sizes ask for"),
        (lambda d: sealed_again(d, sized(n_actions=10**12)), "would need at least .* of memory"),
        (lambda d: sealed_again(d, into(clock=[3, 999, False, True])), "the clock, the plan or the path is out of"),
        (lambda d: sealed_again(d, into(others=[99])), "cannot be loaded: others must be steps"),
        (lambda d: sealed_again(d, into(encoder={"numbers": {"age": [3, 2]}})), "cannot be loaded: numbers"),
        (lambda d: sealed_again(d, into(options={"shell": "rm"})), "cannot be loaded: .*unexpected keyword"),
        (lambda d: sealed_again(d, into(), **{"plan.policy": np.full((2, 3), 7)}), "the path is out of range"),
        (lambda d: sealed_again(d, into(), **{"state.visits": np.full((2, 3, 2), np.nan)}), "numbers that are none"),
        (lambda d: sealed_again(d, into(), **{"state.visits": np.zeros((2, 3))}), "the wrong shape or type"),
        (lambda d: sealed_again(d, into(), more=np.array(["text"])), "an array is of another type"),
    ],
)  # fmt: skip
def test_refusals(saved, tmp_path, made, message):
    """Each with its own sentence; also where somebody made the checksum fit."""
    path, data, _ = saved
    path = tmp_path / "a.npz"
    path.write_bytes(made(data))
    with pytest.raises(ValueError, match=message):
        nr.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_a_bomb_does_not_go_off(saved, tmp_path):
    """A member that says it is long, and arrays that do: refused before any memory is taken."""
    _, data, _ = saved
    parts = members(data)
    declared = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }"
    declared += b" " * (128 - len(declared) - 1) + b"\n" + b"\0" * 64
    (tmp_path / "a.npz").write_bytes(zipped((parts | {"context.npy": declared}).items()))
    with pytest.raises(ValueError, match="another type, order or length than it says"):
        nr.load(tmp_path / "a.npz")
    bomb = zipped((parts | {"context.npy": b"\0" * 10**7}).items(), zipfile.ZIP_DEFLATED)
    (tmp_path / "a.npz").write_bytes(bomb)
    with pytest.raises(ValueError, match="a part is compressed"):
        nr.load(tmp_path / "a.npz")
    deep = b"[" * 100_000 + b"]" * 100_000
    (tmp_path / "a.npz").write_bytes(zipped([("header.npy", npy(np.frombuffer(deep, np.uint8)))]))
    with pytest.raises(ValueError, match="is damaged: its parts cannot be read"):
        nr.load(tmp_path / "a.npz")


def test_a_pickle_is_not_opened(saved, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "opened"), "w"))

    _, data, _ = saved
    file = io.BytesIO()
    np.save(file, np.array([Evil()], object), allow_pickle=True)
    (tmp_path / "a.npz").write_bytes(zipped((members(data) | {"context.npy": file.getvalue()}).items()))
    with pytest.raises(ValueError, match="another type, order or length than it says"):
        nr.load(tmp_path / "a.npz")
    assert not (tmp_path / "opened").exists()


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        nr.load(tmp_path / "none.npz")
    with pytest.raises(OSError, match="directory"):
        nr.load(tmp_path)


def test_fingerprints(saved):
    path, _, _ = saved
    agent = nr.load(path)
    mark = contents.fingerprint(agent)
    assert mark == contents.fingerprint(files.copy_of(agent))
    agent.act(2)
    agent.observe(1.0, 1)
    assert contents.fingerprint(agent) == mark  # the episode is not learned yet
    agent.end_episode()
    assert contents.fingerprint(agent) != mark
    other = dataclasses.replace(agent.problem, weight_bound=2.0)
    agents = [nr.UniformRandom(p, seed=s) for p, s in ((agent.problem, 0), (agent.problem, 1), (other, 0))]
    assert len({contents.fingerprint(a) for a in agents}) == 3


# What the fuzzer of the loader (fuzz_loader.py) has found -----------------------------------------------------------
@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Bytes of an agent that keeps its data, and of a `Live` with three people open."""
    problem, folder = nr.Problem(3, 2, 2, 2, weight_bound=1.0, reward_bound=1.0), tmp_path_factory.mktemp("stored")
    agent = nr.CertifiedPSRL(problem, sets="stored")
    for after in (1, 2, 0):
        agent.begin_episode([0.6, 0.8])
        agent.act(0)
        agent.observe(1.0, after)
        agent.end_episode()
    agent.save(folder / "agent.npz")
    live = nr.Live(agent, draws=3)
    for who in range(3):
        live.begin(who, [0.6, 0.8])
    live.observe(0, 1.0, live.act(0, 0).state)
    live.save(folder / "live.npz")
    return (folder / "agent.npz").read_bytes(), (folder / "live.npz").read_bytes()


def entry(name, where, value):
    """A change of one entry of an array."""

    def change(arrays):
        made = arrays[name].copy()
        made[where] = value
        return {name: made}

    return change


def first_step_again(arrays):
    """A chain of steps that goes in a circle."""
    last = arrays["state.store.last"]
    pair = tuple(np.argwhere(last >= 0)[0])
    made = arrays["state.store.previous"].copy()
    made.reshape(-1)[0] = last[pair]
    return {"state.store.previous": made}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry("state.sampler.outcomes", (0, 0), 7), "outcomes is not what the problem and the options make it"),
        (entry("state.store.last", (0, 0), 10**6), "last has numbers outside -1 to"),
        (entry("state.store.outcomes", (0, 0), -1), "outcomes has numbers outside 0 to 2"),
        (entry("state.store.visits", (0, 0), 1), "has a chain of another length than it says"),
        (first_step_again, "has a chain that does not end"),
        (entry("state.store.order", 0, 0), "has another newest episode than it says"),
        (entry("state.store.order", 1, -1), "order has numbers outside 0 to"),
        (entry("state.sampler.weights", (0, 0, 0, 0), np.inf), "weights has numbers outside"),
        (entry("state.store.contexts", (0, 0), 1e90), "contexts has numbers outside"),
        (entry("state.audit.bins", (0, 3, 2), -1.0), "state.audit counts less than nothing"),
        (entry("state.audit.worth", 0, -1.0), "state.audit counts less than nothing"),
        (entry("state.means.gram", (0, 0, 0, 0), -1.0), "inverse is not the inverse of a Gram matrix"),
        (entry("state.means.inverse", (0, 0, 0, 0), 1e90), "inverse is not the inverse of a Gram matrix"),
    ],
)
def test_a_false_state(stored, tmp_path, change, message):
    """Places out of range, circles, numbers that are none: refused before a kernel sees them."""
    data, _ = stored
    _, arrays = _opened(data)
    (tmp_path / "a.npz").write_bytes(sealed_again(data, into(), **change(arrays)))
    with pytest.raises(ValueError, match=message):
        nr.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (entry("state.audit.seen", (0, 0, 0), -1.0), "seen has numbers outside 0 to"),
        (entry("state.audit.expected", (0, 0, 0), -1.0), "expected has numbers outside 0 to"),
        (entry("state.audit.rates", (0, 0, 0, 0), 1e9), "rates has numbers outside 0 to"),
        (entry("state.audit.rates", (0, 0, 0, 0), -1e-9), "rates has numbers outside 0 to"),
        (entry("state.audit.squares", (0, 0), -1.0), "squares has numbers outside 0 to"),
    ],
)
def test_a_false_state_of_what_is_bet(tmp_path, change, message):
    world = place("certified-psrl")
    agent = make("certified-psrl", world)
    played(agent, world, range(3))
    agent.save(tmp_path / "a.npz")
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(sealed_again(data, into(), **change(_opened(data)[1])))
    with pytest.raises(ValueError, match=message):
        nr.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        (
            [0, 0, False, False],
            "state.store.contexts is missing or has the wrong shape",
        ),  # the next step closed a circle
        ([-0.0, 1, {}, True], "the clock is not one"),
        (["3", 0, False, False], "the clock is not one"),
        ([2, 2, True, True], "the clock, the plan or the path is out of range"),
    ],
)
def test_a_false_clock(stored, tmp_path, clock, message):
    (tmp_path / "a.npz").write_bytes(sealed_again(stored[0], into(clock=clock)))
    with pytest.raises(ValueError, match=message):
        nr.load(tmp_path / "a.npz")


def person(i, **values):
    def change(header):
        header["people"][i].update(values)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (person(0, episode=4), "somebody is there twice, or was learned from already"),
        (person(0, episode=1), "somebody is there twice, or was learned from already"),
        (person(0, who=[1]), "who must be an integer or text"),
        (person(0, episode=6), "0 is individual 6, and 6 have begun"),
        (person(0, episode=True), "episode of 0 cannot be True"),
        (person(0, who=2**70), "who must be an integer of 64 bits"),
        (person(0, who="a" * 1000), "who must be text of at most 200 characters"),
        (person(0, who=1), "a key is there twice"),
        (person(0, until=-1), "until of 0 cannot be -1"),
        (person(0, has_draws=False), r"people\.drawn must be int16 of shape \(2, 3, 2, 3\)"),
        (person(0, certificate=math.inf), "certificate of 0 cannot be inf"),
        (into(people=[{}]), "people are not as Live writes them"),
        (
            into(live={"draws": 3, "order": 3, "audit": True, "rows": False}),
            r"a\.npz cannot be loaded: order must be one of",
        ),
        (into(live={"draws": 2, "order": "end", "audit": True, "rows": False}), r"people\.drawn must be int16"),
    ],
)
def test_false_people(stored, tmp_path, change, message):
    (tmp_path / "a.npz").write_bytes(sealed_again(stored[1], change))
    with pytest.raises(ValueError, match=message):
        nr.Live.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("drawn", lambda a: a.astype(np.int64), r"people\.drawn must be int16 of shape \(3, 3, 2, 3\)"),
        ("drawn", lambda a: a[:, :2], r"people\.drawn must be int16"),
        ("drawn", lambda a: a + np.int16(2), "the drawn plans of 0 take actions that are none"),
        ("drawn", lambda a: a - np.int16(3), "the drawn plans of 0 take actions that are none"),
        ("policy", lambda a: a + 2, "policy must be actions 0 to 1"),
        ("upper", lambda a: a * np.nan, "the plan of 0 is not one"),
        ("context", lambda a: a * 9, "context has norm"),
        ("lengths", lambda a: a + 5, "the path of 0 is not one"),
        ("lengths", lambda a: a - 1, "the path of 1 is not one"),
        ("states", lambda a: a + 7, "state must be a state number from 0 to 2"),
        ("actions", lambda a: a + 7, "action must be an action number from 0 to 1"),
        ("rewards", lambda a: a + 7, "reward must be a number from 0 to 1"),
    ],
)
def test_false_numbers_of_people(stored, tmp_path, name, change, message):
    """Drawn plans and paths that no Live writes: refused before a kernel sees them."""
    _, arrays = _opened(stored[1])
    made = {f"people.{name}": change(arrays[f"people.{name}"])}
    (tmp_path / "a.npz").write_bytes(sealed_again(stored[1], into(), **made))
    with pytest.raises(ValueError, match=message):
        nr.Live.load(tmp_path / "a.npz")


def test_a_plan_that_is_not_available(saved, tmp_path):
    """Action 1 may not be taken in state 1."""
    (tmp_path / "a.npz").write_bytes(sealed_again(saved[1], into(), **{"plan.policy": np.ones((2, 3), int)}))
    with pytest.raises(ValueError, match="the plan takes an action that is not available"):
        nr.load(tmp_path / "a.npz")
