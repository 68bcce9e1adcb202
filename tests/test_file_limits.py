"""What a short file may cost before it is refused: whatever sizes it declares, little memory and little time."""

import io
import json
import time
import tracemalloc

import numpy as np
import pytest

import noregret as nr
from live import BANDITS, EVERYONE, make, place
from noregret.storage import archive as _sealed

MEMORY, SECONDS = 200 * 2**20, 5.0
# States, actions, horizon, dimension: each beyond reason in turn, and several at once
SIZES = (
    (3, 2, 3, 5_000), (3, 2, 3, 12_000), (2_000, 2, 1, 2), (1, 100_000, 1, 2), (1, 2, 5_000, 2), (1, 10_000, 5_000, 1),
    (60, 60, 60, 60), (200, 2, 20, 20), (30, 30, 100, 4), (2, 400, 2, 200), (1, 2, 2, 2_000), (500, 10, 2, 1),
)  # fmt: skip


def declared(path, sizes):
    """The file with other sizes in its problem, and the arrays that are looked at first to go with them."""
    header, arrays = _sealed.unseal(path)
    header = json.loads(json.dumps(header))
    S, A, H, d = sizes
    header["problem"] |= {"n_states": S, "n_actions": A, "horizon": H, "context_dim": d}
    header["problem"] |= {k: None for k in ("state_names", "action_names", "feature_names", "initial_states")}
    arrays = {k: v for k, v in arrays.items() if not k.startswith("problem.")}
    arrays |= {"plan.policy": np.zeros((H, S), np.int64), "plan.values": np.zeros((H + 1, S)), "context": np.zeros(d)}
    arrays |= {"path.states": np.zeros(H + 1, np.int64), "path.actions": np.zeros(H, np.int64)}
    arrays["path.rewards"] = np.zeros(H)
    file = io.BytesIO()
    kept = {k: v for k, v in header.items() if k not in ("noregret", "version")}
    _sealed.seal(file, kept, arrays)
    return file.getvalue()


@pytest.mark.study(first=6)
@pytest.mark.parametrize("name", [n for n in EVERYONE if not n.endswith("-function")])
def test_sizes_that_a_file_declares(name, tmp_path):
    world = place(name)
    made, path = make(name, world), tmp_path / "agent.npz"
    made.save(path)
    nr.load(path)  # compiles
    for sizes in SIZES:
        if name in BANDITS:
            sizes = (*sizes[:2], 1, sizes[3])
        (tmp_path / "other.npz").write_bytes(declared(path, sizes))
        begun = time.thread_time()
        tracemalloc.start()
        try:
            nr.load(tmp_path / "other.npz")
        except ValueError as error:
            said = str(error)
        else:
            said = ""
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "\n" not in said
        assert peak < MEMORY, (sizes, peak)
        assert time.thread_time() - begun < SECONDS, (sizes, time.thread_time() - begun)
