"""Values nobody should pass, everywhere: a call works, or says in one sentence which argument is wrong; it never ends
in another exception, a warning, a hang or a heap of memory, and a call that was refused has changed nothing."""

import decimal
import fractions
import functools
import inspect
import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import noregret as nr
from fuzzing import attempt, garbage, limited, numbers, sentence
from live import SMALL, place

pytestmark = pytest.mark.deep


def common(examples):
    """Settings: nothing random, nothing kept."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


BOUNDS = {"weight_bound": 1.0, "reward_bound": 1.0}


def problem(**more):
    return nr.Problem(3, 2, 2, 2, **BOUNDS | more)


P, W, THETA = problem(), np.zeros((3, 2, 3, 2)), np.zeros((3, 2, 2))
UNIFORM, X = np.full((3, 2, 3), 1 / 3), [0.6, 0.8]
LOGIT = {"link": nr.MultinomialLogit(), "n_outcomes": 3, "context_dim": 2, "weight_bound": 1.0}
SIZES = {"n_states": 2, "n_actions": 2, "horizon": 2, "context_dim": 2}


def parameters(function):
    """Names of the arguments of a function."""
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds]


# What is made --------------------------------------------------------------------------------------------------------
# name -> (what is called, arguments that are right, words that stand for an argument in its sentence). Agents and
# worlds are made by the test that needs them (`lambda: {...}`), so that collecting tests compiles nothing.
MADE = {
    "Problem": (nr.Problem, {"n_states": 3, "n_actions": 2, "horizon": 2, "context_dim": 2, **BOUNDS}, []),
    "Link": (nr.Link, {"gradient": lambda z, count: None, "alpha": 1.0, "beta": 1.0}, []),
    "World": (nr.World, {"problem": P, "weights": W, "reward_weights": THETA}, []),
    "Sphere": (nr.contexts.Sphere, {"dim": 2}, []),
    "Simplex": (nr.contexts.Simplex, {"dim": 2}, []),
    "Table": (nr.contexts.Table, {"rows": [X]}, []),
    "Cycle": (nr.contexts.Cycle, {"dim": 2}, []),
    "Adversary": (lambda dim, f: nr.contexts.Adversary(dim, f), {"dim": 2, "f": lambda *a: X}, ["function"]),
    "InTurn": (nr.worlds.InTurn, {"states": [0, 1]}, []),
    "StartsByContext": (nr.worlds.StartsByContext, {"function": lambda x: 0}, []),
    "tilt": (nr.worlds.tilt, {"P": UNIFORM, "features": [[0.0], [1.0], [2.0]]}, ["shape"]),
    "random_logit": (nr.worlds.random_logit, SIZES, []),
    "random_linear": (nr.worlds.random_linear, SIZES, ["weight_bound"]),
    "sparse_logit": (nr.worlds.sparse_logit, {"n_states": 2, "context_dim": 4}, []),
    "hard_logit": (nr.worlds.hard_logit, {}, ["weight_bound"]),
    "hard_linear": (nr.worlds.hard_linear, {}, ["weight_bound"]),
    "bandit_logistic": (nr.worlds.bandit_logistic, {}, []),
    "clinic": (nr.worlds.clinic, {}, []),
    "programme": (nr.worlds.programme, {}, []),
    "shared_logit": (nr.worlds.shared_logit, {}, []),
    "random_design": (nr.worlds.random_design, {"n_states": 3, "n_actions": 2}, []),
    "riverswim_logit": (nr.worlds.riverswim_logit, {}, []),
    "make_world": (lambda name: nr.worlds.make_world(name), {"name": "clinic"}, ["world"]),
    "group_norm": (nr.worlds.group_norm, {"weights": W}, []),
    "Encoder": (nr.Encoder, {"numbers": {"age": (0, 9)}, "categories": {"sex": ("f", "m")}}, []),
    "Encoder.fit": (nr.Encoder.fit, {"table": {"age": [1, 2], "sex": ["f", "m"]}, "numbers": ["age"]}, []),
    "OnlineNewton": (nr.estimators.OnlineNewton, LOGIT, []),
    "Conversion": (nr.estimators.Conversion, LOGIT, []),
    "MeanReward": (nr.estimators.MeanReward, {"context_dim": 2}, []),
    "LikelihoodRatioSet": (
        nr.estimators.LikelihoodRatioSet, {"n_outcomes": 3, "context_dim": 2, "weight_bound": 1.0}, [],
    ),
    "MixtureSet": (nr.estimators.MixtureSet, {"n_outcomes": 3, "context_dim": 2, "weight_bound": 1.0}, []),
    "RewardSet": (nr.estimators.RewardSet, {"context_dim": 2}, []),
    "SignUnionSet": (nr.estimators.SignUnionSet, {"n_outcomes": 3, "context_dim": 2}, ["weight_bound"]),
    "Certified": (nr.Certified, lambda: {"agent": nr.UniformRandom(P)}, []),
    "Referral": (
        nr.Referral, lambda: {"agent": nr.LRORL(P), "expert": np.zeros((2, 3), int), "threshold": 1.0}, [],
    ),
    "Conservative": (nr.Conservative, lambda: {"agent": nr.LRORL(P), "baseline": np.zeros((2, 3), int)}, []),
    "Live": (nr.Live, lambda: {"agent": nr.UniformRandom(P)}, []),
    "FixedPolicy": (nr.agents.FixedPolicy, {"problem": P, "policy": np.zeros((2, 3), int)}, []),
    "kmeans": (nr.agents.kmeans, {"contexts": [X, [0.8, 0.6]], "n_cells": 1}, []),
    "claims": (nr.claims, {"problem": P, "episodes": 10}, []),
    "make_agent": (lambda name, problem: nr.make_agent(name, problem), {"name": "glm-orl", "problem": P}, ["agent"]),
    "read_log": (nr.read_log, {"source": {}, "problem": P}, ["columns"]),
    "simulate": (
        nr.simulate,
        lambda: {"agent": nr.UniformRandom(P), "world": nr.worlds.random_logit(3, 2, 2, 2), "episodes": 3},
        ["points", "function"],
    ),
    "blind_optimum": (nr.worlds.blind_optimum, lambda: {"world": nr.worlds.clinic(1)}, []),
}  # fmt: skip


@functools.cache
def kept_arguments(target):
    valid = MADE[target][1]
    return valid() if callable(valid) else valid


def right_arguments(target):
    """Made once, but for agents that the one that is made takes over."""
    return MADE[target][1]() if target in ("Certified", "Referral", "Conservative") else kept_arguments(target)


@functools.cache
def world_and_options(name):
    """(a world the agent `name` is for, options that are right, the names of all options)."""
    world = place(name)
    valid = {"weights": world.weights, "reward_weights": world.reward_weights} if name == "oracle" else {}
    return world, valid | SMALL.get(name, {}), parameters(nr.agents.registry.agent_class(name))[1:]


def spoiled(data, valid, names, values=garbage, most=2):
    """(`valid` with one or two arguments replaced, which)."""
    wrong = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=min(most, len(names)), unique=True))
    return valid | {name: data.draw(values) for name in wrong}, wrong


@pytest.mark.study(first=18)
@pytest.mark.parametrize("target", MADE)
@common(40)
@given(data=st.data())
def test_constructors(target, data):
    function, _, also = MADE[target]
    names = parameters(function)
    options, wrong = spoiled(data, right_arguments(target), names)
    attempt(lambda: function(**options), names=[*wrong, *also])


def one_episode(agent, world):
    """An episode with it: numbers are finite, actions possible."""
    person = world.individual(0)
    plan = agent.begin_episode(person.context)
    assert np.isfinite(plan.values).all(), plan.values
    for _ in range(world.problem.horizon):
        agent.observe(*person.step(agent.act(person.state)))
    agent.end_episode()
    assert np.isfinite(agent.begin_episode(person.context).values).all()


@pytest.mark.study(first=2)
@pytest.mark.parametrize("name", nr.agents.names())
@common(25)
@given(data=st.data())
def test_options_of_agents(name, data):
    """What is accepted works."""
    world, valid, names = world_and_options(name)
    options, wrong = spoiled(data, valid, names)
    made = attempt(lambda: nr.make_agent(name, world.problem, **options), names=[*wrong, "memory"])
    if made is not None:
        attempt(one_episode, made, world, names=wrong)


# Formulas -----------------------------------------------------------------------------------------------------------
SIZE = nr.theory.likelihood_bounds.size_of_pair(3, context_dim=2, weight_bound=2.0, context_bound=1.0)
TYPICAL = {
    "horizon": 3, "n_states": 3, "n_actions": 2, "n_outcomes": 3, "context_dim": 2, "dim": 2, "episodes": 100,
    "episode": 3, "samples": 50, "n_pairs": 6, "copies": 2, "rounds": 5, "delta": 0.05, "epsilon": 0.5, "log": 3.0,
    "growth": nr.theory.bounds.Growth(2.0, 3.0), "p": np.array([0.2, 0.3, 0.5]), "slack": 0.25, "c": 1.5, "up": 0.2,
    "down": 0.3, "eps": 0.1, "alpha": 0.5, "sets": 2, "size": SIZE, "sizes": [(SIZE, 2)], "near": 0.1,
    "run": nr.theory.likelihood_bounds.Run(3, 100.0),
}  # fmt: skip


def formulas():
    for module in map(nr.theory.__dict__.get, nr.theory.__all__):
        for name, function in vars(module).items():
            home = getattr(function, "__module__", None) or ""
            if inspect.isfunction(function) and home.startswith("noregret.theory") and name[0] != "_":
                valid = {p: TYPICAL.get(p, 1.0) for p in parameters(function)}
                yield f"{module.__name__.split('.')[-1]}.{name}", (function, valid)


FORMULAS = dict(formulas())


def test_every_formula_has_a_value():
    assert len(FORMULAS) > 60
    for name, (function, valid) in FORMULAS.items():
        assert np.isfinite(np.asarray(function(**valid), float)).all(), name


@pytest.mark.parametrize("name", FORMULAS)
@common(15)
@given(data=st.data())
def test_formulas(name, data):
    function, valid = FORMULAS[name]
    options, wrong = spoiled(data, valid, list(valid))
    attempt(lambda: function(**options), names=wrong)


# What has a state ---------------------------------------------------------------------------------------------------
def arrays_in(value):
    """Bytes of every array and number below an object of ours, in order."""
    if isinstance(value, np.ndarray):
        return [value.tobytes()]
    if isinstance(value, tuple | list):
        return [b for part in value for b in arrays_in(part)]
    if isinstance(value, dict):
        return [b for key, part in value.items() for b in [repr(key), *arrays_in(part)]]
    if type(value).__module__.startswith("noregret") and hasattr(value, "__dict__"):
        skipped = (
            "work",
            "_work",
            "_drawn",
            "_slots",
            "_slot_replan",
            "_heads",
            "_judge",
            "lock",
            "_local",
            "_sets",
            "problem",
        )
        return [b for k, part in vars(value).items() if k not in skipped for b in arrays_in(part)]
    return [repr(value)] if isinstance(value, int | float | str | bool | None) else []


def some_world():
    return nr.worlds.random_logit(3, 2, 2, 2, seed=1)


def begun():
    agent = nr.CertifiedPSRL(some_world().problem)
    agent.begin_episode(some_world().context(0, 0))
    return agent


def acted():
    agent = begun()
    agent.act(0)
    return agent


def opened():
    live = nr.Live(nr.CertifiedPSRL(some_world().problem), draws=3)
    live.begin("a", some_world().context(0, 0))
    live.begin(2, some_world().context(0, 1))
    live.act("a", 0)
    live.observe("a", math.nan, 1)
    live.act(2, 0)
    return live


def env():
    made = nr.gym.Env(nr.worlds.clinic(), unavailable="raise")
    made.reset(seed=1)
    return made


def person():
    return some_world().individual(0)


ROW = {"who": ["a"], "reward": [0.5], "next_state": [1], "step": [0]}
LOG = {"episode": [0], "step": [0], "state": [0], "action": [0], "reward": [1.0], "next_state": [1], "x0": [0.6],
       "x1": [0.8]}  # fmt: skip
DECISION = {"who": "a", "episode": 0, "step": 0, "context": [0.6, 0.8], "state": 0, "action": 0, "advice": 0,
            "by_other": False, "probability": None, "draws": None, "error": None, "certificate": None, "referred": None,
            "agent": "glm-orl", "options": {}, "seed": 0, "version": "0", "fingerprint": ""}  # fmt: skip
# name -> (what makes the object, the method, arguments that are right, words that stand for an argument)
CALLS = {
    "begin_episode": (lambda: nr.CertifiedPSRL(some_world().problem), "begin_episode", {"x": X}, ["context", "row"]),
    "act": (begun, "act", {"state": 0}, []),
    "observe": (acted, "observe", {"reward": 1.0, "next_state": 1}, []),
    "action_probabilities": (begun, "action_probabilities", {"state": 0, "draws": 2}, []),
    "learn_from": (lambda: nr.CertifiedPSRL(some_world().problem), "learn_from", {"log": None}, []),
    "certify": (begun, "certify", {"x": X, "policy": np.zeros((2, 3), int)}, ["context"]),
    "fresh": (begun, "fresh", {"seed": 1}, []),
    "with_encoder": (begun, "with_encoder", {"encoder": None}, []),
    "Live.begin": (opened, "begin", {"who": "b", "x": X}, ["context", "row"]),
    "Live.act": (opened, "act", {"who": "a", "state": 1, "time": None}, ["state"]),
    "Live.observe": (opened, "observe", {"who": 2, "reward": 0.0, "next_state": 1, "step": 0}, ["nothing was done"]),
    "Live.reward": (opened, "reward", {"who": "a", "step": 0, "value": 1.0}, ["reward", "step"]),
    "Live.observe_all": (opened, "observe_all", {"table": ROW}, ["row"]),
    "Live.end": (opened, "end", {"who": "a", "wait": 1}, []),
    "Live.close": (opened, "close", {"who": "a"}, ["close"]),
    "Live.abandon": (opened, "abandon", {"who": "a"}, []),
    "World.optimal": (some_world, "optimal", {"x": X}, ["context", "mean reward"]),
    "World.values": (some_world, "values", {"policy": np.zeros((2, 3), int), "x": X}, ["context", "mean reward"]),
    "World.value": (some_world, "value", {"policy": np.zeros((2, 3), int), "x": X}, ["context", "mean reward"]),
    "World.context": (some_world, "context", {"seed": 0, "episode": 0}, []),
    "World.start": (some_world, "start", {"seed": 0, "episode": 0}, []),
    "World.individual": (some_world, "individual", {"episode": 0, "seed": 0}, []),
    "Individual.step": (person, "step", {"action": 0}, []),
    "Env.reset": (env, "reset", {"seed": 1, "options": {"episode": 2}}, []),
    "Env.step": (env, "step", {"action": 1}, []),
    "Encoder.encode": (lambda: nr.Encoder({"age": (0, 9)}, {"sex": ("f", "m")}), "encode",
                       {"row": {"age": 3, "sex": "f"}}, [],),
    "Encoder.encode_all": (lambda: nr.Encoder({"age": (0, 9)}), "encode_all", {"table": {"age": [3]}}, ["row"]),
    "Encoder.from_dict": (lambda: nr.Encoder, "from_dict", {"made": {}}, ["encoder"]),
    "Decision.from_dict": (lambda: nr.Decision, "from_dict", {"made": DECISION}, ["decision"]),
    "OnlineNewton.update": (lambda: nr.estimators.OnlineNewton(**LOGIT), "update", {"x": X, "outcome": 0}, []),
    "OnlineNewton.l1_width": (lambda: nr.estimators.OnlineNewton(**LOGIT), "l1_width", {"x": X}, []),
    "Conversion.update": (lambda: nr.estimators.Conversion(**LOGIT), "update", {"x": X, "outcome": 0}, []),
    "LikelihoodRatioSet.update": (lambda: nr.estimators.LikelihoodRatioSet(3, 2, 1.0), "update", {"x": X, "outcome": 0},
                                  []),
    "LikelihoodRatioSet.contains": (lambda: nr.estimators.LikelihoodRatioSet(3, 2, 1.0), "contains",
                                    {"weights": np.zeros((3, 2))}, []),
    "MixtureSet.update": (lambda: nr.estimators.MixtureSet(3, 2, 1.0), "update", {"x": X, "outcome": 0}, []),
    "MixtureSet.contains": (lambda: nr.estimators.MixtureSet(3, 2, 1.0), "contains", {"W": np.zeros((3, 2))}, []),
    "MeanReward.update": (lambda: nr.estimators.MeanReward(2), "update", {"x": X, "reward": 1.0}, []),
    "RewardSet.update": (lambda: nr.estimators.RewardSet(2), "update", {"x": X, "reward": 1.0}, []),
    "RewardSet.interval": (lambda: nr.estimators.RewardSet(2), "interval", {"x": X}, []),
    "SignUnionSet.update": (lambda: nr.estimators.SignUnionSet(3, 2), "update", {"x": [0.5, 0.5], "outcome": 0}, []),
}  # fmt: skip


def call(name, options, words):
    make, method, _, also = CALLS[name]
    subject = make()
    before = arrays_in(subject)
    function = getattr(subject, method)
    made = attempt(lambda: (function(**options),), names=[*words, *also], out_of_order=True)
    if made is None:
        assert arrays_in(subject) == before, f"{name} was refused and changed something"


@pytest.mark.study(first=3)
@pytest.mark.parametrize("name", CALLS)
@common(20)
@given(data=st.data())
def test_calls(name, data):
    make, method, valid, _ = CALLS[name]
    options, wrong = spoiled(data, valid, parameters(getattr(make(), method)))
    call(name, options, wrong)


@pytest.mark.long
@common(300)
@given(data=st.data())
def test_logs(data):
    """A log with garbage in its cells: read whole or refused, with its row."""
    table = {name: list(values) * 2 for name, values in LOG.items()} | {"episode": [0, 1], "arrival": [0, 1]}
    for _ in range(data.draw(st.integers(1, 3))):
        table[data.draw(st.sampled_from(list(table)))][data.draw(st.integers(0, 1))] = data.draw(garbage)
    agent = nr.GLMORL(P)
    log = attempt(nr.read_log, table, P, names=["row", "source"])
    if log is not None:
        assert agent.learn_from(log) == len(log)
        assert np.isfinite(agent.begin_episode(X).values).all()


# The four verbs in any order ----------------------------------------------------------------------------------------
class Verbs(RuleBasedStateMachine):
    """An agent that is called in any order with anything, beside a model of the protocol and a twin that is told what
    was accepted only: both must end with the same state."""

    name = "certified-psrl"
    states = st.one_of(garbage, st.integers(0, 2))

    def __init__(self):
        super().__init__()
        self.world = place(self.name)
        self.agent, self.twin = (nr.make_agent(self.name, self.world.problem, seed=3) for _ in range(2))
        self.open, self.step, self.asked, self.state = False, 0, False, None

    def tried(self, verb, allowed, *args, words=()):
        """Call it: a verb that is out of order is a RuntimeError, and what is refused changes nothing."""
        before, plan, refused = arrays_in(self.agent), self.agent.policy, None
        with limited(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*promises nothing any more")  # a reward that no bound allows
            try:
                made = getattr(self.agent, verb)(*args)
            except (ValueError, RuntimeError) as error:
                refused = error
        if refused is not None:
            sentence(refused, [verb, *words])
            assert isinstance(refused, RuntimeError) == (not allowed), refused
            assert arrays_in(self.agent) == before
            assert np.array_equal(self.agent.policy, plan)
            return False
        assert allowed, f"{verb} was accepted out of order"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*promises nothing any more")
            twin = getattr(self.twin, verb)(*args)
        if verb == "act":
            assert made == twin
        if verb == "begin_episode":
            assert np.array_equal(made.policy, twin.policy)
            assert np.isfinite(made.values).all()
        return True

    @rule(x=st.one_of(garbage, st.sampled_from([[0.6, 0.8], [0.0, 0.0], [-1.0, 0.0]])))
    def begin(self, x):
        if self.tried("begin_episode", not self.open, x, words=["context"]):
            self.open, self.step, self.asked, self.state = True, 0, False, None

    @rule(state=states, action=st.one_of(st.none(), st.integers(0, 1), garbage))
    def act(self, state, action):
        allowed = self.open and self.step < self.world.problem.horizon
        if self.tried("act", allowed, state, action, words=["state", "action"]):
            self.asked, self.state = True, int(state)

    @precondition(lambda self: self.open)
    @rule()
    def act_where_it_is(self):
        state = 0 if self.step == 0 else self.state
        if self.tried("act", self.step < self.world.problem.horizon, state):
            self.asked, self.state = True, state

    @rule(
        reward=st.one_of(garbage, st.sampled_from([0.0, 1.0, 0.5, math.nan])),
        after=st.one_of(garbage, st.integers(0, 2)),
    )
    def observe(self, reward, after):
        if self.tried("observe", self.asked, reward, after, words=["reward", "next_state"]):
            self.step, self.asked, self.state = self.step + 1, False, int(after)

    @rule()
    def end(self):
        if self.tried("end_episode", self.open):
            self.open = self.asked = False

    @precondition(lambda self: self.open)
    @rule(
        state=st.one_of(garbage, st.integers(0, 2)), draws=st.one_of(numbers.filter(lambda n: n != 10**6), st.just(2))
    )
    def ask(self, state, draws):
        """A reading: whatever comes of it, nothing changes."""
        before = arrays_in(self.agent)
        attempt(self.agent.action_probabilities, state, draws, names=["state", "draws", "steps"], out_of_order=True)
        assert arrays_in(self.agent) == before

    def teardown(self):
        assert arrays_in(self.agent) == arrays_in(self.twin)
        assert nr.agents.contents.fingerprint(self.agent) == nr.agents.contents.fingerprint(self.twin)


class PausingVerbs(Verbs):
    name = "cece"


for _machine in (Verbs, PausingVerbs):
    _machine.TestCase.settings = settings(common(40), stateful_step_count=40)
TestVerbs, TestPausingVerbs = Verbs.TestCase, PausingVerbs.TestCase


# Files --------------------------------------------------------------------------------------------------------------
STUDY = """name = "s"
episodes = 10
seeds = 2
[[worlds]]
name = "clinic"
[[agents]]
name = "glm-orl"
delta = 0.1
"""


@pytest.mark.long
@common(250)
@given(data=st.data())
def test_study_files(tmp_path_factory, data):
    """TOML with pieces replaced, cut out or put elsewhere: a study or a sentence for each mistake, with its place."""
    lines = STUDY.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        i, kind = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, 3))
        if kind == 0:
            lines[i] = ""
        elif kind == 1:
            lines.insert(i, lines[data.draw(st.integers(0, len(lines) - 1))])
        elif kind == 2:
            lines[i] = lines[i].split("=")[0] + "= " + data.draw(st.sampled_from(TOML))
        else:
            lines[i] = data.draw(st.text(max_size=20))
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_text("\n".join(lines), "utf-8", "replace")
    with limited():
        try:
            nr.studies.load(path)
        except ValueError as error:
            said = str(error).splitlines()
    if "said" in locals():
        for one in said:  # one line for each thing that is wrong
            assert one.startswith(str(path)), one
            assert len(one) < 800, one


TOML = ["nan", "inf", "-1", "0", "1e400", "9" * 30, '""', '"x"', "true", "[]", "[1, [2]]", "[true]", "{}",
        "{ from = 1, to = 3, by = 1 }", "{ from = 1, to = nan, by = 1 }", "{ from = 1, to = 1e300, by = 1e-300 }",
        "{ from = 0.1, to = 1e308, times = 1.0000001 }", "{ from = 1, to = 9, steps = 99999999999 }", "1979-05-27",
        '["glm-orl", "lr-orl"]', "{ name = 3 }", "999999999", "[1, 2, 3]"]  # fmt: skip


@common(150)
@given(data=st.data(), suffix=st.sampled_from([".npz", ".csv", ".parquet"]))
def test_files_of_nobody(tmp_path_factory, data, suffix):
    """Bytes, with and without the first ones of a real file."""
    path = tmp_path_factory.getbasetemp() / f"fuzzed{suffix}"
    head = data.draw(st.sampled_from([b"", b"PK\x03\x04", b"PAR1", b"who,episode\n1,2\n", b"episode,step\n0,0\n"]))
    path.write_bytes(head + data.draw(st.binary(max_size=200)))
    attempt(nr.load, path, names=[str(path)])
    attempt(nr.Live.load, path, names=[str(path)])
    attempt(nr.read_decisions, path, names=[str(path)])
    attempt(nr.read_log, path, P, names=["source"])


@pytest.mark.long
@common(150)
@given(data=st.data())
def test_decisions_in_a_table(tmp_path_factory, data):
    """A table of decisions with a column replaced or lost."""
    import pyarrow as pa
    import pyarrow.parquet

    path = tmp_path_factory.getbasetemp() / "decisions.parquet"
    nr.write_decisions([nr.Decision.from_dict(DECISION)], path)
    table = pyarrow.parquet.read_table(path)
    column = data.draw(st.sampled_from(table.column_names))
    value = data.draw(st.sampled_from([None, "x", "[]", "{", "3", 7, -1, 2.5, True, b"\0", "9" * 5000]))
    table = table.drop_columns([column])
    if data.draw(st.booleans()):
        table = table.append_column(column, pa.array([value]))
    pyarrow.parquet.write_table(table, path)
    for made in attempt(nr.read_decisions, path, names=[str(path)]) or []:
        str(made)
        attempt(made.replay, nr.UniformRandom(P), names=["replay"])


# Found here, each by name ---------------------------------------------------------------------------------------------
def live_env(**options):
    made = nr.gym.Env(nr.worlds.clinic())
    return made.reset(**options) if options else (made.reset(), made.step(np.zeros(0)))


def masked():
    return np.ma.masked_array([0.6, 0.8], [True, False])


FOUND = {
    "an integer of 400 digits": (lambda: problem(context_bound=10**400), "context_bound must be a positive number"),
    "a number too small to square": (lambda: problem(weight_bound=1e-310), "weight_bound must be at least 1e-300"),
    "a bound too small to compare": (lambda: problem(weight_bound=1e-50), "weight_bound must be from 1e-12 to 1e"),
    "a complex number": (lambda: nr.GLMORL(P, delta=np.complex128(1j)), "delta must be a number between 0 and 1"),
    "text for a number": (lambda: nr.GLMORL(P, delta="0.5"), "delta must be a number between 0 and 1, got '0.5'"),
    "several lines in a sentence": (lambda: nr.Problem(np.ones((2, 2)), 2, 2, 2), r"got array\(\[\[1., 1.\], \[1"),
    "a ragged mask": (lambda: problem(available=[[1, 2], [3]]), "available must be an array"),
    "a ragged support": (lambda: problem(support=[1, [2]]), "support must be an array"),
    "an array for a word": (lambda: problem(rewards=np.ones(2)), "rewards must be one of 'linear', 'logistic'"),
    "a number for names": (lambda: problem(state_names=3), "state_names must be a sequence of 3 names"),
    "names without end": (lambda: problem(state_names=map(str, itertools.count())), "state_names must have 3"),
    "starts without end": (lambda: problem(initial_states=itertools.repeat(0)), "initial_states must be a sequence"),
    "a context with a masked entry": (lambda: nr.GLMORL(P).begin_episode(masked()), "context must be 2 numbers"),
    "a context of text": (lambda: nr.GLMORL(P).begin_episode(["0.6", "0.8"]), "context must be 2 numbers"),
    "a reward of text": (lambda: acted().observe("1", 1), "reward must be a number from 0 to 1"),
    "no problem": (lambda: nr.agents.FixedPolicy(None, []), "problem must be a noregret.Problem"),
    "no world": (lambda: nr.worlds.blind_optimum(3), "world must be a noregret.World"),
    "ragged contexts of a world": (lambda: nr.World(P, W, THETA, [[1, 2], [3]]), "contexts must be rows of numbers"),
    "a ragged start": (lambda: nr.World(P, W, THETA, [[1, 0]], [1, [2]]), "initial_state must be an array of numbers"),
    "states in no dimension": (lambda: nr.worlds.InTurn(np.array(1)), "states must be a sequence of states"),
    "no weight bound": (lambda: nr.worlds.random_logit(weight_bound=None), "weight_bound must be a positive number"),
    "a seed below 0": (lambda: some_world().context(-1, 0), "seed must be an integer of at least 0"),
    "seeds without end": (
        lambda: nr.simulate(nr.UniformRandom(P), some_world(), 3, itertools.count()), "seeds must be at most 1,000,000",
    ),
    "progress that cannot be called": (
        lambda: nr.simulate(nr.UniformRandom(P), some_world(), 3, progress=3), "progress must be a function",
    ),
    "draws for hours": (lambda: begun().action_probabilities(0, 10**9), "draws must be at most 1,000,000"),
    "a barrier that rounding hides": (lambda: nr.agents.OMGCMDP(P, gamma=1e18), "gamma must be at most 1e"),
    "numbers that are no mapping": (lambda: nr.Encoder(numbers=3), "numbers must be a mapping or None"),
    "a decision of nothing": (lambda: nr.Decision.from_dict({}), "decision must have the entries"),
    "an episode that is a list": (lambda: nr.read_log(LOG | {"episode": [[1]]}, P), "row 0: episode must be a number"),
    "a cell of 400 digits": (lambda: nr.read_log(LOG | {"x0": [10**400]}, P), "row 0: x0 must be a number"),
    "a seed Gymnasium refuses": (lambda: live_env(seed=-1), "seed must be an integer of at least 0"),
    "options that are none": (lambda: live_env(seed=1, options=3), "options must be a mapping or None"),
    "an empty action": (lambda: live_env(), "action must be an integer of at least 0"),
    "a formula that went on for ever": (lambda: nr.theory.pac.kwik_samples(2, 0.1, 1e308), "norm must be at least"),
    "a bisection that did not end": (lambda: nr.theory.pac.kwik_samples(2.5, 1e-90), "context_dim must be an integer"),
    "a division by zero": (lambda: nr.theory.lower.gap(0, 1, 1, 1, 1), "gap has no value at episodes = 0, copies = 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    make, message = FOUND[name]
    with limited(), pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_found_and_taken():
    """Numbers of other kinds that are numbers: taken as such."""
    world = nr.worlds.tilt(UNIFORM, [[0.0], [1.0], [2.0]], intercept=fractions.Fraction(1, 2))
    assert world.context(0, 0)[0] == 0.5
    assert nr.agents.LRORL(P, delta=decimal.Decimal("0.25")).options["delta"] == 0.25
    assert nr.theory.pac.kwik_samples(2, 1e-60) > 1e100  # ends, though whole numbers there are far apart


def test_sizes_that_cannot_fit():
    """A sentence about memory, before any of it is taken."""
    for make in (
        lambda: nr.Problem(10**9, 2, 2, 2, **BOUNDS), lambda: nr.Problem(2, 2, 10**13, 2, **BOUNDS),
        lambda: nr.Problem(2, 2, 2, 10**12, **BOUNDS),
        lambda: nr.worlds.random_logit(10**7), lambda: nr.GLMORL(nr.Problem(2, 2, 2, 10**7, **BOUNDS)),
        lambda: nr.LRORL(nr.Problem(300, 10, 2, 100, **BOUNDS)), lambda: nr.agents.LSVIUCB(P, memory=10**13),
        lambda: nr.estimators.OnlineNewton(nr.MultinomialLogit(), 10**12, 2, 1.0), lambda: nr.contexts.Cycle(10**8),
        lambda: nr.simulate(nr.UniformRandom(P), some_world(), 10**14),
    ):  # fmt: skip
        with limited(), pytest.raises(ValueError, match=r"would need at least .* GiB of memory, there are"):
            make()
