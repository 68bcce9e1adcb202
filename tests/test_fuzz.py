"""Values nobody should pass, everywhere: a call works, or says in one sentence which argument is wrong; it never ends
in another exception, a warning, a hang or a heap of memory, and a call that was refused has changed nothing."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import noregret as nr
from fuzzing import attempt, garbage
from live import SMALL, place


def common(examples):
    """Settings: nothing random, nothing kept."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def problem(**more):
    return nr.Problem(3, 2, 2, 2, **more)


P, W, THETA = problem(), np.zeros((3, 2, 3, 2)), np.zeros((3, 2, 2))
UNIFORM, X = np.full((3, 2, 3), 1 / 3), [0.6, 0.8]
LOGIT = {"link": nr.MultinomialLogit(), "n_outcomes": 3, "context_dim": 2}
SIZES = {"n_states": 2, "n_actions": 2, "horizon": 2, "context_dim": 2}


def parameters(function):
    """Names of the arguments of a function."""
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds]


# What is made --------------------------------------------------------------------------------------------------------
# name -> (what is called, arguments that are right, words that stand for an argument in its sentence)
MADE = {
    "Problem": (nr.Problem, {"n_states": 3, "n_actions": 2, "horizon": 2, "context_dim": 2}, []),
    "Link": (nr.Link, {"gradient": lambda z, count: None, "alpha": 1.0, "beta": 1.0}, []),
    "World": (nr.World, {"problem": P, "weights": W, "reward_weights": THETA}, []),
    "Sphere": (nr.contexts.Sphere, {"dim": 2}, []),
    "Simplex": (nr.contexts.Simplex, {"dim": 2}, []),
    "Table": (nr.contexts.Table, {"rows": [X]}, []),
    "Cycle": (nr.contexts.Cycle, {"dim": 2}, []),
    "Adversary": (lambda dim, f: nr.contexts.Adversary(dim, f), {"dim": 2, "f": lambda *a: X}, ["function"]),
    "InTurn": (nr.worlds.InTurn, {"states": [0, 1]}, []),
    "tilt": (nr.worlds.tilt, {"P": UNIFORM, "features": [[0.0], [1.0], [2.0]]}, ["shape"]),
    "random_logit": (nr.worlds.random_logit, SIZES, []),
    "random_linear": (nr.worlds.random_linear, SIZES, ["weight_bound"]),
    "sparse_logit": (nr.worlds.sparse_logit, {"n_states": 2, "context_dim": 4}, []),
    "hard_logit": (nr.worlds.hard_logit, {}, ["weight_bound"]),
    "hard_linear": (nr.worlds.hard_linear, {}, ["weight_bound"]),
    "bandit_logistic": (nr.worlds.bandit_logistic, {}, []),
    "clinic": (nr.worlds.clinic, {}, []),
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
    "Certified": (nr.Certified, {"agent": nr.UniformRandom(P)}, []),
    "Referral": (nr.Referral, {"agent": nr.LRORL(P), "expert": np.zeros((2, 3), int), "threshold": 1.0}, []),
    "Live": (nr.Live, {"agent": nr.UniformRandom(P)}, []),
    "FixedPolicy": (nr.agents.FixedPolicy, {"problem": P, "policy": np.zeros((2, 3), int)}, []),
    "kmeans": (nr.agents.kmeans, {"contexts": [X, [0.8, 0.6]], "n_cells": 1}, []),
    "claims": (nr.claims, {"problem": P, "episodes": 10}, []),
    "make_agent": (lambda name, problem: nr.make_agent(name, problem), {"name": "glm-orl", "problem": P}, ["agent"]),
    "read_log": (nr.read_log, {"source": {}, "problem": P}, ["columns"]),
    "simulate": (nr.simulate, {"agent": nr.UniformRandom(P), "world": nr.worlds.random_logit(3, 2, 2, 2), "episodes": 3},
                 ["points", "function"]),
    "blind_optimum": (nr.worlds.blind_optimum, {"world": nr.worlds.clinic(1)}, []),
}  # fmt: skip


def agents_made():
    """The constructor of every agent by name, with a problem it is for."""
    for name in nr.agents.names():
        world = place(name)
        valid = {"weights": world.weights, "reward_weights": world.reward_weights} if name == "oracle" else {}
        options = parameters(nr.agents.agent_class(name))[1:]
        yield name, (world, valid | SMALL.get(name, {}), options)


AGENTS = dict(agents_made())


def spoiled(data, valid, names, values=garbage, most=2):
    """(`valid` with one or two arguments replaced, which)."""
    wrong = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=min(most, len(names)), unique=True))
    return valid | {name: data.draw(values) for name in wrong}, wrong


@pytest.mark.parametrize("target", MADE)
@common(40)
@given(data=st.data())
def test_constructors(target, data):
    function, valid, also = MADE[target]
    names = parameters(function)
    options, wrong = spoiled(data, valid, names)
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


@pytest.mark.parametrize("name", AGENTS)
@common(25)
@given(data=st.data())
def test_options_of_agents(name, data):
    """What is accepted works."""
    world, valid, names = AGENTS[name]
    options, wrong = spoiled(data, valid, names)
    made = attempt(lambda: nr.make_agent(name, world.problem, **options), names=[*wrong, "memory"])
    if made is not None:
        attempt(one_episode, made, world, names=wrong)


# Formulas -------------------------------------------------------------------------------------------------------------
TYPICAL = {
    "horizon": 3, "n_states": 3, "n_actions": 2, "n_outcomes": 3, "context_dim": 2, "dim": 2, "episodes": 100,
    "episode": 3, "samples": 50, "n_pairs": 6, "copies": 2, "rounds": 5, "delta": 0.05, "epsilon": 0.5, "log": 3.0,
    "growth": nr.theory.bounds.Growth(2.0, 3.0), "p": np.array([0.2, 0.3, 0.5]), "slack": 0.25, "c": 1.5, "up": 0.2,
    "down": 0.3, "eps": 0.1, "alpha": 0.5,
}  # fmt: skip


def formulas():
    for module in map(nr.theory.__dict__.get, nr.theory.__all__):
        for name, function in vars(module).items():
            if inspect.isfunction(function) and function.__module__ == module.__name__ and name[0] != "_":
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


# What has a state ------------------------------------------------------------------------------------------------------
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
            "_direct",
            "_direct_replan",
            "_judge",
            "_lock",
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
    "Live.act": (opened, "act", {"who": "a", "state": 1}, []),
    "Live.observe": (opened, "observe", {"who": 2, "reward": 0.0, "next_state": 1}, ["nothing was done"]),
    "Live.reward": (opened, "reward", {"who": "a", "step": 0, "value": 1.0}, ["reward"]),
    "Live.observe_all": (opened, "observe_all", {"table": ROW}, ["row"]),
    "Live.end": (opened, "end", {"who": "a"}, []),
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
    "Encoder.encode": (lambda: nr.Encoder({"age": (0, 9)}, {"sex": ("f", "m")}), "encode", {"row": {"age": 3, "sex": "f"}}, []),
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


@pytest.mark.parametrize("name", CALLS)
@common(20)
@given(data=st.data())
def test_calls(name, data):
    make, method, valid, _ = CALLS[name]
    options, wrong = spoiled(data, valid, parameters(getattr(make(), method)))
    call(name, options, wrong)


@common(300)
@given(data=st.data())
def test_logs(data):
    """A log with garbage in its cells: read whole or refused, with its row."""
    table = {name: list(values) * 2 for name, values in LOG.items()} | {"episode": [0, 1]}
    for _ in range(data.draw(st.integers(1, 3))):
        table[data.draw(st.sampled_from(list(table)))][data.draw(st.integers(0, 1))] = data.draw(garbage)
    agent = nr.GLMORL(P)
    log = attempt(nr.read_log, table, P, names=["row", "source"])
    if log is not None:
        assert agent.learn_from(log) == len(log)
        assert np.isfinite(agent.begin_episode(X).values).all()
