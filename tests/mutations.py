"""Files that somebody wrote on purpose: real ones, changed, with the checksum that goes with the change."""

import atexit
import copy
import io
import json
import math
import shutil
import tempfile
from pathlib import Path

import numpy as np

import noregret as nr
from live import EVERYONE, make, place, played
from noregret.storage import archive as _sealed

FOLDER = Path(tempfile.mkdtemp(prefix="noregret-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
VALUES = (
    None, True, False, 0, 1, 2, 3, -1, 7, 2**31, 2**62, 2**63, 10**30, 0.5, -0.0, 1e300, math.nan, math.inf, "",
    "logit", "linear",
    "logistic", "stored", "online", "kron", "agent", [], [0], [[1, 2], [3]], {}, {"a": 1}, "x" * 3000,
    {"name": "psrl"}, [None], -(2**63),
)  # fmt: skip


class Source:
    """Choices from a random generator, under the names that libFuzzer's provider has for them."""

    def __init__(self, g):
        self.g = g

    def ConsumeIntInRange(self, low, high):
        return int(self.g.integers(low, high + 1))

    def ConsumeBool(self):
        return bool(self.g.integers(2))

    def PickValueInList(self, values):
        return values[int(self.g.integers(len(values)))]


def opened(data):
    """(header, arrays) of a file's bytes."""
    path = FOLDER / "seed.npz"
    path.write_bytes(data)
    return _sealed.unseal(path)


def seeds(names=EVERYONE):
    """(bytes, what loads them) of these agents' files, after some episodes, in the middle of one; of several open
    individuals; of an agent with an encoder."""
    for name in names:
        if name.endswith("-function"):  # its expert is code
            continue
        world = place(name)
        agent = make(name, world)
        played(agent, world, range(6), g=np.random.default_rng(0))
        agent.begin_episode(world.context(3, 6))
        agent.act(0)
        agent.observe(1.0, int(world.problem.layout.outcomes[0, agent.act(0), 0]))
        agent.save(FOLDER / "made.npz")
        yield (FOLDER / "made.npz").read_bytes(), nr.load
    world = place("psrl")
    live = nr.Live(nr.agents.PSRL(world.problem), draws=2)
    for k in range(3):
        live.begin(k, world.context(3, k))
        live.observe(k, 1.0, live.act(k, 0).state)
    live.save(FOLDER / "made.npz")
    yield (FOLDER / "made.npz").read_bytes(), nr.Live.load
    encoder = nr.Encoder({"age": (0, 9)}, {"sex": ("f", "m")}, missing=("age",))
    agent = nr.UniformRandom(
        nr.Problem(
            3, 2, 2, encoder.context_dim, context_bound=encoder.context_bound, weight_bound=1.0, reward_bound=1.0
        )
    )
    agent.encoder = encoder
    agent.save(FOLDER / "made.npz")
    yield (FOLDER / "made.npz").read_bytes(), nr.load


def changed_json(node, source, depth=0):
    """The same with one thing changed somewhere below."""
    inside = isinstance(node, dict | list) and len(node) > 0 and depth < 6 and source.ConsumeIntInRange(0, 7) > 0
    if not inside:
        return source.PickValueInList(list(VALUES))
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = source.PickValueInList(keys)
    made = copy.copy(node)
    kind = source.ConsumeIntInRange(0, 9)
    if kind == 0:
        del made[key]
    elif kind == 1 and isinstance(made, dict):
        made[source.PickValueInList(keys)] = made[key]
    else:
        made[key] = changed_json(made[key], source, depth + 1)
    return made


def changed_array(array, source):
    """The same with entries, type or shape changed."""
    kind = source.ConsumeIntInRange(0, 7)
    made = array.copy()
    if kind == 0:
        return made.astype(source.PickValueInList(["<f4", "<i4", "|u1", "|b1", "<i8", "<f8", "<u8"]))
    if kind == 1:
        return made.reshape(-1)
    if kind == 2:
        return made[: source.ConsumeIntInRange(0, max(len(made) - 1, 0))] if made.ndim else made
    if made.size:
        whole = (-1, 0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 2**31, 2**62, -(2**63))
        plain = (0.0, 1.0, -1.0, 0.5, 1e-300, 1e-30, 1e15, 1e100, 1e300, math.inf, -math.inf, math.nan)
        value = source.PickValueInList(list(plain if made.dtype.kind == "f" else whole))
        if made.dtype.kind == "b":
            value = bool(value)
        elif made.dtype.kind in "iu":
            value = min(max(value, int(np.iinfo(made.dtype).min)), int(np.iinfo(made.dtype).max))
        flat = made.reshape(-1)
        if kind == 3:
            flat[:] = value
        else:
            for _ in range(source.ConsumeIntInRange(1, 4)):
                flat[source.ConsumeIntInRange(0, flat.size - 1)] = value
    return made


def changed(source, files):
    """(bytes of a file, what loads it), from one of `files`, (bytes, header, arrays, what loads it) each."""
    data, header, arrays, load = files[source.ConsumeIntInRange(0, len(files) - 1)]
    if source.ConsumeIntInRange(0, 15) == 0:  # as it lies on the disk, checksum and all
        made = bytearray(data)
        for _ in range(source.ConsumeIntInRange(1, 4)):
            made[source.ConsumeIntInRange(0, len(made) - 1)] = source.ConsumeIntInRange(0, 255)
        return bytes(made), load
    header, arrays = copy.deepcopy(header), dict(arrays)
    for _ in range(source.ConsumeIntInRange(1, 3)):
        if source.ConsumeBool():
            header = changed_json(header, source)
            if not isinstance(header, dict):
                header = {"holds": "agent"}
        else:
            name = source.PickValueInList(sorted(arrays))
            if source.ConsumeIntInRange(0, 9) == 0:
                arrays[source.PickValueInList([*sorted(arrays), "option.centres", "problem.support"])] = arrays[name]
            elif source.ConsumeIntInRange(0, 19) == 0:
                del arrays[name]
            else:
                arrays[name] = changed_array(arrays[name], source)
            if not arrays:
                break
    file = io.BytesIO()
    json.dumps(header)
    _sealed.seal(file, {k: v for k, v in header.items() if k not in ("noregret", "version")}, arrays)
    return file.getvalue(), load


def used(agent):
    """Go on with it: verbs work, numbers are finite."""
    p = agent.problem
    if agent.is_open:
        agent.end_episode()
    agent.encoder = None
    for first in (1.0, 0.3):
        x = np.zeros(p.context_dim)
        x[0] = first * min(1.0, p.context_bound)
        x = x if p.link.name == "logit" else np.full(p.context_dim, 1.0 / p.context_dim)
        plan = agent.begin_episode(p.context(x))
        assert np.isfinite(plan.values).all(), plan.values
        state = int(p.starts[0])
        for _ in range(p.horizon):
            action = agent.act(state)
            assert p.layout.available[state, action]
            state = int(p.layout.outcomes[state, action, 0])
            agent.observe(1.0, state)
        agent.end_episode()
    assert np.isfinite(agent.begin_episode(p.context(x)).values).all()
