"""Files and verbs, at random, with every index of every kernel checked.

    make test-bounds                                               a part of it
    NUMBA_BOUNDSCHECK=1 python tests/fuzz_memory.py --files 100000 --verbs 100000

A file is refused with one sentence, or makes an agent that can be used; a verb works, or says what is wrong. No index
leaves its array (an IndexError here is a write into somebody else's memory elsewhere), nothing hangs, nothing takes
more than 200 MB or 5 seconds. Compiled code with checks has a cache of its own (NUMBA_CACHE_DIR)."""

import argparse
import math
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from numba import config
from numba.core import event

sys.path.insert(0, str(Path(__file__).parent))
import noregret as nr
from live import EVERYONE, make, place, steps_of, table_of
from mutations import FOLDER, Source, changed, opened, seeds, used

MEMORY, SECONDS = 200 * 2**20, 5.0


class Compiled(event.Listener):
    """Whether something was compiled meanwhile: that takes time and memory once, and is nobody's attack."""

    seen = False

    def on_start(self, event):
        self.seen = True

    def on_end(self, event):
        pass


def largest():
    """Bytes that the process has had at most."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


HIGH = [0]  # the same, when something was compiled last


def measured(call):
    """What it returns, if it takes no more memory and time than it may."""
    compiled, begun = Compiled(), time.thread_time()
    try:
        with event.install_listener("numba:compile", compiled):
            return call()
    finally:
        spent = time.thread_time() - begun
        if compiled.seen or not HIGH[0]:
            HIGH[0] = largest()
        else:
            assert largest() - HIGH[0] < MEMORY, f"{largest() - HIGH[0]:,} bytes"
            assert spent < SECONDS, f"{spent:.1f} s"


def load_and_use(content, load):
    path = FOLDER / "fuzzed.npz"
    path.write_bytes(content)
    try:
        made = measured(lambda: load(path))
    except ValueError as error:
        said = str(error)
        assert "\n" not in said, said
        assert said.startswith(str(path)), said
        return False
    if isinstance(made, nr.Live):
        for who in (*made.open, *made.waiting):
            made.close(who) if who in made.waiting else made.end(who)
        made = made.agent
        made._keeper = None
    try:
        measured(lambda: used(made))
    except ValueError as error:  # numbers that fit somebody and not somebody else: a kernel says so
        if "positive definite" not in str(error):
            raise
    return True


class Verbs:
    """Calls on one agent, or on one `Live`, that may or may not make sense."""

    def __init__(self, name, g):
        self.g, self.world = g, place(name)
        self.agent, self.live = make(name, self.world), None
        columns, _ = steps_of(self.world, 2)
        self.log = nr.read_log(columns | {"arrival": columns["episode"]}, self.world.problem)
        self.ask = getattr(self.agent, "_ask", None)

    def pick(self, values):
        return values[int(self.g.integers(len(values)))]

    def state(self):
        return int(self.g.integers(-1, self.world.problem.n_states + 1))

    def x(self):
        return self.world.context(int(self.g.integers(50)), int(self.g.integers(50)))

    def reward(self):
        return self.pick([0.0, 1.0, math.nan, 1.0, 2.0])

    def likely(self, agent):
        """The state the agent is in, mostly."""
        return int(agent._path.states[agent._step]) if self.g.random() < 0.8 and agent._step else self.state()

    def on_agent(self):
        a, p = self.agent, self.world.problem
        part = next(iter(a._made_of().values()), a)
        return [
            lambda: a.begin_episode(self.x()), lambda: a.begin_episode(self.x()), lambda: a.act(self.likely(a)),
            lambda: a.act(self.likely(a)), lambda: a.act(self.likely(a), action=int(self.g.integers(3))),
            lambda: a.observe(self.reward(), self.state()), lambda: a.observe(self.reward(), self.state()),
            lambda: a.end_episode(), lambda: a.end_episode(), lambda: a.learn_from(self.log),
            lambda: a.make_room(int(self.g.integers(-3, 70))), lambda: a.certify(self.x(), table_of(p)),
            lambda: a.action_probabilities(self.state(), draws=3), lambda: setattr(a, "episode", 10**6),
            lambda: part.begin_episode(self.x()), lambda: part.end_episode(), lambda: nr.Referral(part, a, 1.0),
            lambda: nr.Certified(part), self.reloaded, lambda: nr.Live(a, draws=2) and None, lambda: a.refuted,
        ]  # fmt: skip

    def reloaded(self):
        self.agent.save(FOLDER / "verbs.npz")
        self.agent = nr.load(FOLDER / "verbs.npz", expert=self.ask)

    def on_live(self):
        v, who = self.live, int(self.g.integers(4))
        step = self.pick([None, 0, 1, 2, 9])
        table = {"who": [0, 1], "reward": [1.0, None], "next_state": [self.state(), 0], "step": [0, 1]}
        return [
            lambda: v.begin(who, self.x()), lambda: v.begin(who, self.x()), lambda: v.act(who, self.state()),
            lambda: v.act(who, self.state()), lambda: v.observe(who, self.reward(), self.state(), step=step),
            lambda: v.observe(who, self.reward(), self.state()), lambda: v.reward(who, step, 1.0),
            lambda: v.observe_all(table), lambda: v.end(who), lambda: v.end(who), lambda: v.end(who, wait=1),
            lambda: v.abandon(who), lambda: v.close(who), lambda: v.agent.begin_episode(self.x()),
            lambda: v.agent.end_episode(), lambda: v.agent.learn_from(self.log), self.live_reloaded,
        ]  # fmt: skip

    def live_reloaded(self):
        self.live.save(FOLDER / "live.npz")
        self.live = nr.Live.load(FOLDER / "live.npz", expert=self.ask)

    def run(self, calls):
        if self.g.random() < 0.4 and not self.agent.pause:
            self.live = nr.Live(self.agent, draws=int(self.g.integers(0, 3)), order=self.pick(["begin", "end"]))
        for _ in range(calls):
            call = self.pick(self.on_agent() if self.live is None else self.on_live())
            try:
                measured(call)
            except (ValueError, RuntimeError, AttributeError) as error:
                said, odd = str(error), isinstance(error, NotImplementedError | AttributeError)
            else:
                said, odd = "", False
            assert "\n" not in said, said
            assert not odd or "episode" in said or "certify" in said, said


def main():
    told = argparse.ArgumentParser()
    told.add_argument("--files", type=int, default=0)
    told.add_argument("--verbs", type=int, default=0)
    told.add_argument("--seed", type=int, default=0)
    told.add_argument("--agents", default=",".join(EVERYONE))
    o = told.parse_args()
    print(f"bounds are {'' if config.BOUNDSCHECK else 'NOT '}checked, seed {o.seed}")
    warnings.simplefilter("ignore")  # refutations
    names, taken = o.agents.split(","), 0
    for name in names:  # compile everything, outside of what is measured
        agent, world = make(name, place(name)), place(name)
        for k in range(2):
            agent.begin_episode(world.context(0, k))
            agent.observe(1.0, int(world.problem.layout.outcomes[0, agent.act(0), 0]))
            agent.end_episode()
    if o.files:
        files = [(data, *opened(data), load) for data, load in seeds(names)]
        for data, _, _, load in files:
            load_and_use(data, load)
        for i in range(o.files):
            source = Source(np.random.default_rng((o.seed, 1, i)))
            try:
                taken += load_and_use(*changed(source, files))
            except BaseException:
                print(f"file {i} of seed {o.seed} is kept in {FOLDER}")
                raise
        print(f"{o.files} files: {taken} taken, the others refused")
    for i in range(o.verbs):
        try:
            g = np.random.default_rng((o.seed, 2, i))
            Verbs(names[i % len(names)], g).run(int(g.integers(3, 20)))
        except BaseException:
            print(f"sequence {i} of seed {o.seed}, {names[i % len(names)]}")
            raise
    if o.verbs:
        print(f"{o.verbs} sequences of verbs")


if __name__ == "__main__":
    main()
