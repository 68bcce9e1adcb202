"""Worlds with designs: their weights are in them, within bounds; the programme, its rule and its logs; RiverSwim."""

import math

import numpy as np
import pytest

import noregret as nr
from noregret.simulation.catalogue import named_world, world_options


def people(world, n=400, seed=7):
    X = np.empty((n, world.problem.context_dim))
    world.contexts.fill(seed, 0, X)
    return world.problem.contexts(X)


def gains(world, X):
    start = np.asarray(world.initial_state)
    return np.array([start @ (world.optimal(x).values[0] - world.values(world.rule, x)[0]) for x in X])


# Random truths ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_random_truth_is_in_its_design_and_as_long_as_its_bound(blocks):
    design = nr.worlds.random_design(7, 3, features=4, blocks=blocks, bound=2.5, seed=3)
    assert np.bincount(design.block.ravel()).tolist() == [21 // blocks] * blocks
    world = nr.worlds.random_logit(horizon=4, context_dim=5, seed=2, design=design)
    norms, residual = design.fitted(world.slots, world.problem.layout)
    assert np.allclose(norms, 2.5)
    assert residual < 1e-12
    assert (world.problem.n_states, world.problem.n_actions, world.problem.horizon) == (7, 3, 4)
    assert np.allclose(np.linalg.norm(people(world), axis=1), 1.0)
    assert np.allclose(people(world)[:, 0], math.sqrt(0.5))
    assert not np.array_equal(world.slots, nr.worlds.random_logit(context_dim=5, seed=3, design=design).slots)
    again = nr.worlds.random_logit(horizon=4, context_dim=5, seed=2, design=design)
    assert np.array_equal(world.slots, again.slots)
    assert np.array_equal(world.reward_weights, again.reward_weights)


def test_no_row_of_a_random_truth_is_absurdly_long():
    design = nr.worlds.random_design(6, 2, features=3, blocks=2, bound=60.0)
    world = nr.worlds.random_logit(context_dim=3, design=design)
    assert np.allclose([np.linalg.norm(world.slots[design.block == b], axis=-1).max() for b in range(2)], 8.0)


def test_what_moves_no_odds_takes_nothing_from_the_norm():
    tables = {"health": [0.0, 0.5, 1.0]}, {"dose": [0.0, 1.0]}
    design = nr.Design.from_tables(["state.health", "change.health", "action.dose * next.health"], 3.0, *tables)
    world = nr.worlds.random_logit(design=design, context_dim=3)
    assert np.allclose(design.fitted(world.slots, world.problem.layout)[0], 3.0)


@pytest.mark.parametrize("m", [0, 2, 4])
def test_a_random_truth_is_0_outside_the_moderators(m):
    design = nr.worlds.random_design(6, 2, features=3, blocks=2, bound=2.5, seed=1, context_dim=5, moderators=m)
    assert design.moderators.sum(1).tolist() == [1 + m] * 3
    assert design.moderators[:, 0].all()
    world = nr.worlds.random_logit(context_dim=5, seed=2, design=design)
    theta, near = design.nearest(world.slots, world.problem.layout)
    assert np.allclose(near, world.slots)
    assert np.allclose(np.linalg.norm(theta, axis=(1, 2)), 2.5)
    assert not theta[:, ~design.moderators].any()
    assert (np.abs(theta[:, design.moderators]) > 0.0).all()


def test_shared_logit_with_moderators():
    world, alone = (nr.worlds.shared_logit(moderators=2, shared=s) for s in (True, False))
    assert world.problem.blocks.start[0, -1] == 15
    assert np.array_equal(world.slots, alone.slots)
    every = nr.worlds.shared_logit(moderators=5)  # of six entries: all
    assert every.problem.blocks.start[0, -1] == 30
    assert nr.worlds.shared_logit(context_dim=1, moderators=0).problem.blocks.start[0, -1] == 5


def test_rewards_of_a_random_truth_are_0_outside_the_moderators():
    tables = {"level": [0.0, 0.5, 1.0]}, {"cost": [0.0, 1.0]}
    terms = ["1 by one", "state.level by one, age", "action.cost by age, sex"]
    rewards = nr.RewardDesign.from_tables(terms, 3.0, *tables, contexts=["one", "age", "sex", "noise"])
    for seed in range(5):
        world = nr.worlds.random_logit(seed=seed, reward_design=rewards)
        theta, near = rewards.nearest(world.reward_weights[:, :, None], world.problem.layout)
        assert np.allclose(near[:, :, 0], world.reward_weights)
        assert not theta[:, ~rewards.moderators].any()
        assert (np.abs(theta[:, rewards.moderators]) > 0.0).all()
        level = world.reward_weights[..., 0] * math.sqrt(0.5)
        swing = np.linalg.norm(world.reward_weights[..., 1:], axis=-1) * math.sqrt(0.5)
        assert -1e-12 <= (level - swing).min() <= (level + swing).max() <= 1.0 + 1e-12
        assert np.allclose(min((level - swing).min(), (1.0 - level - swing).min()), 0.0)


@pytest.mark.parametrize("bound", [0.5, 3.0])
@pytest.mark.parametrize("d", [1, 4])
def test_rewards_of_a_random_truth_are_in_their_design_and_in_0_1(d, bound):
    g = np.random.default_rng(5)
    features = np.concatenate([np.ones((6, 3, 1)), g.uniform(-1.0, 1.0, (6, 3, 3))], axis=-1)
    rewards = nr.RewardDesign(features, bound, np.repeat(np.arange(2), 3)[:, None] * np.ones((1, 3), int))
    for seed in range(5):
        world = nr.worlds.random_logit(context_dim=d, seed=seed, reward_design=rewards)
        theta = world.reward_weights
        norms, residual = rewards.fitted(theta[:, :, None], world.problem.layout)
        assert residual < 1e-12
        assert (norms <= bound * (1 + 1e-9)).all()
        assert (norms < 3.0).all()
        unit = math.sqrt(0.5) if d > 1 else 1.0  # contexts (1, u)/sqrt 2, the worst u against the other weights
        level, swing = theta[..., 0] * unit, np.linalg.norm(theta[..., 1:], axis=-1) * unit
        assert (level - swing).min() >= -1e-12
        assert (level + swing).max() <= 1 + 1e-12
        if bound == 3.0:  # as much as there is room for
            touched = np.minimum(level - swing, 1.0 - level - swing)
            assert np.allclose([touched[:3].min(), touched[3:].min()], 0.0)


def test_both_designs_at_once_and_none():
    rewards = nr.RewardDesign.from_tables(["1", "state.level"], 2.0, {"level": [0, 1, 2, 3]}, {"cost": [0, 1]})
    design = nr.worlds.random_design(4, 2, features=3)
    world = nr.worlds.random_logit(design=design, reward_design=rewards)
    assert (world.problem.design, world.problem.reward_design) == (design, rewards)
    plain = nr.worlds.random_logit()
    assert plain.problem.design is None
    assert (plain.problem.weight_bound, plain.problem.reward_bound) == (2.0, math.sqrt(2.0))
    assert np.allclose(np.linalg.norm(plain.weights[:, :, :-1], axis=-1), 2.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nr.worlds.random_logit(design="moves"), "design must be a noregret.Design or None"),
        (lambda: nr.worlds.random_logit(reward_design=3), "reward_design must be a noregret.RewardDesign or None"),
        (
            lambda: nr.worlds.random_logit(
                reward_design=nr.RewardDesign(np.array([[[1.0]], [[-1.0]], [[3.0]]]), bound=1.0)
            ),
            "reward_design must have features with which all mean rewards",
        ),
        (lambda: nr.worlds.random_design(2, 2, blocks=5), "blocks must be at most the number of pairs, 4"),
        (lambda: nr.worlds.random_design(moderators=2), "context_dim must be given with moderators"),
        (lambda: nr.worlds.shared_logit(moderators=6), "moderators must be at most context_dim - 1 = 5"),
        (lambda: nr.worlds.programme(moderated=2), "moderated must be True or False"),
        (lambda: nr.worlds.programme(context_dim=15), "context_dim must be at most 14"),
        (lambda: nr.worlds.programme(symptom_levels=5), "symptom_levels must be 2, 3 or 4"),
        (lambda: nr.worlds.programme(misspecification=1.5), "misspecification must be a number from 0 to 1"),
        (lambda: nr.worlds.riverswim_logit(2), "n_states must be an integer of at least 3"),
        (lambda: nr.worlds.riverswim_logit(features="all"), "features must be"),
        (lambda: nr.worlds.riverswim_logit(known_support=False), 'features must be "pairs" where the support'),
        (lambda: nr.worlds.clinic().log(10, 0), "rule must be given"),
        (lambda: nr.worlds.programme().log(10, 0, explore=2.0), "explore must be a number from 0 to 1"),
        (lambda: nr.worlds.programme().log(0, 0), "people must be an integer"),
        (lambda: nr.worlds.programme().log(5, 0, rule=[[0]]), "rule must be actions 0 to 2"),
    ],
)
def test_bad_input_gets_a_sentence(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_the_same_truth_without_a_design():
    for make in (nr.worlds.shared_logit, nr.worlds.programme):
        shared, alone = make(seed=4), make(seed=4, shared=False)
        x = people(shared, 1)[0]
        assert np.array_equal(shared.transitions(x), alone.transitions(x))
        assert np.array_equal(shared.rewards(x), alone.rewards(x))
        assert alone.problem.design is alone.problem.reward_design is None
        longest = np.linalg.norm(alone.slots, axis=-1).max()
        assert alone.problem.weight_bound == pytest.approx(longest)
        assert alone.problem.weight_bound <= shared.problem.weight_bound
        assert (shared.rule is None) == (alone.rule is None)


# The programme ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "parameters", "of_rewards"),
    [
        ({}, 32, 9),
        ({"context_dim": 4}, 17, 6),
        ({"symptom_levels": 3, "seed": 1}, 32, 9),
        ({"context_dim": 1}, 8, 4),
        ({"moderated": False, "seed": 2}, 112, 56),
    ],
)
def test_the_programme_keeps_to_its_designs(options, parameters, of_rewards):
    world = nr.worlds.programme(**options)
    p = world.problem
    norms, residual = p.design.fitted(world.slots, p.layout)
    assert residual < 1e-9
    assert p.design.bound - 0.5 < norms <= p.design.bound
    norms, residual = p.reward_design.fitted(world.reward_weights[:, :, None], p.layout)
    assert residual < 1e-9
    assert p.reward_design.bound - 0.5 < norms <= p.reward_design.bound
    assert p.blocks.size.tolist() == [8]
    assert (p.blocks.start[0, -1], p.reward_blocks.start[0, -1]) == (parameters, of_rewards)
    said = [line for line in p.describe().splitlines() if "parameters" in line]
    assert [line.split(" parameters")[0] for line in said] == [f"next states: {parameters}", f"rewards: {of_rewards}"]
    for rows, bound in ((world.slots, p.weight_bound), (world.reward_weights, p.reward_bound)):
        assert bound - 0.5 < np.linalg.norm(rows, axis=-1).max() <= bound
    assert not world.misspecified


def test_some_features_matter_for_nobody_unless_all_moderate():
    world = nr.worlds.programme()
    idle = ["female", "employed", "activity", "comorbidity", "rural"]
    assert world.problem.feature_names[-5:] == tuple(idle)
    assert not world.slots[..., -5:].any()
    assert not world.reward_weights[..., -5:].any()
    assert (np.abs(world.slots[..., :-5]).max((0, 1, 2)) > 0.0).all()
    every = nr.worlds.programme(moderated=False)
    assert (np.abs(every.slots).max((0, 1, 2)) > 0.0).all()
    assert every.problem.design.moderators is None


def test_no_week_of_the_programme_is_certain():
    world = nr.worlds.programme()
    likeliest = np.array([world.transitions(x).max(-1) for x in people(world)])
    assert np.median(likeliest) < 0.55
    assert likeliest.max() < 0.9


@pytest.mark.parametrize("d", [1, 4, 14])
@pytest.mark.parametrize("seed", range(4))
def test_mean_rewards_of_the_programme_are_in_0_1_for_everybody(d, seed):
    """Over the whole cube of traits, which has more corners than there are people."""
    world = nr.worlds.programme(context_dim=d, seed=seed, symptom_levels=2 + seed % 3, moderated=seed < 2)
    scaled = world.reward_weights * world.contexts.scale
    swing = np.abs(scaled[..., 1:]).sum(-1)
    assert (scaled[..., 0] - swing).min() >= 0.0
    assert (scaled[..., 0] + swing).max() <= 1.0
    for x in people(world, 50):
        assert 0.0 <= world.rewards(x).min() <= world.rewards(x).max() <= 1.0


def test_people_are_a_mixture_with_traits_that_go_together():
    world = nr.worlds.programme()
    X = people(world, 4000) / world.contexts.scale
    assert np.abs(X).max() <= 1.0
    assert np.allclose(X[:, 0], 1.0)
    assert np.linalg.norm(people(world), axis=1).max() <= 1.0
    at = world.problem.feature_names.index
    for name in ("smartphone", "lives_alone", "female", "rural", "comorbidity"):
        assert set(np.unique(X[:, at(name)])) == {-1.0, 1.0}
    together = np.corrcoef(X[:, 1:].T)
    assert together[at("age") - 1, at("smartphone") - 1] < -0.4
    assert together[at("age") - 1, at("comorbidity") - 1] > 0.25
    # 0.3 of the people, 0.994 of whom say so, and 0.006 of the others; four standard errors are 0.03
    assert abs((X[:, at("rural")] > 0).mean() - 0.3) < 0.03
    fewer = nr.worlds.programme(context_dim=4)
    assert fewer.problem.feature_names == world.problem.feature_names[:4]
    assert np.allclose(people(fewer, 4000) / fewer.contexts.scale, X[:, :4])  # the same people, less known of them


@pytest.mark.parametrize("options", [{}, {"context_dim": 4}, {"seed": 3}, {"symptom_levels": 3}, {"moderated": False}])
def test_the_rule_can_be_improved_on_and_people_differ(options):
    world = nr.worlds.programme(**options)
    X = people(world)
    gain = gains(world, X)
    assert gain.min() >= -1e-12
    assert 0.3 < gain.mean() < 1.0
    assert np.quantile(gain, 0.9) > 0.8 > 0.15 > np.quantile(gain, 0.1)
    low = world.problem.state("low, severe")
    best = np.bincount([world.optimal(x).policy[0, low] for x in X], minlength=3) / len(X)
    assert best[1:].min() > 0.3  # messages for some, calls for others
    high = world.problem.state("high, severe")
    assert np.mean([world.optimal(x).policy[0, high] == 0 for x in X]) > 0.05


def test_who_is_out_seldom_returns():
    world = nr.worlds.programme()
    out = np.array([name.startswith("out") for name in world.problem.state_names])
    back = np.mean([world.transitions(x)[out][:, :, ~out].sum(-1) for x in people(world, 200)], axis=0)
    assert back.max() < 0.15
    assert (back[:, 0] < back[:, 1:].min(1)).all()  # left alone, even fewer


@pytest.mark.parametrize("moderated", [True, False])
def test_the_dial_says_how_far_the_truth_leaves_the_design(moderated):
    right = nr.worlds.programme(context_dim=4, seed=1, moderated=moderated)
    design, layout, X = right.problem.design, right.problem.layout, people(right)
    used = np.arange(layout.outcomes.shape[2]) < layout.count[..., None]
    distances = [design.fitted(right.slots, layout)[1]]
    for dial in (0.1, 0.5, 1.0):
        world = nr.worlds.programme(context_dim=4, seed=1, misspecification=dial, moderated=moderated)
        assert world.misspecified
        assert world.problem.design == design
        distances.append(design.fitted(world.slots, layout)[1])
        moved = (world.slots - right.slots) @ X.T  # log-odds, by person
        moved -= moved.sum(2, keepdims=True) / layout.count[..., None, None]
        assert math.sqrt((moved**2).mean(where=used[..., None])) == pytest.approx(dial, rel=0.05)
        for x in X[:20]:
            assert np.allclose(world.transitions(x).sum(-1), 1.0)
    assert distances[0] < 1e-9
    assert np.allclose(np.array(distances[1:]) / distances[-1], [0.1, 0.5, 1.0])
    theta, _ = design.nearest(world.slots, layout)  # what the design says of the truth is what it said
    assert np.allclose(theta, design.nearest(right.slots, layout)[0])
    alone = nr.worlds.programme(context_dim=4, seed=1, misspecification=1.0, moderated=moderated, shared=False)
    assert np.array_equal(alone.slots, world.slots)
    assert not alone.misspecified


def test_the_same_seed_is_the_same_programme():
    first, again, other = (nr.worlds.programme(seed=s, misspecification=0.5) for s in (0, 0, 1))
    assert np.array_equal(first.slots, again.slots)
    assert np.array_equal(first.reward_weights, again.reward_weights)
    assert not np.array_equal(first.slots, other.slots)
    assert np.array_equal(people(first), people(other))  # who comes is the run's seed


# Logs ---------------------------------------------------------------------------------------------------------------
def test_a_log_has_the_luck_of_its_individuals():
    world = nr.worlds.programme(context_dim=4)
    log = world.log(people=30, seed=5)
    for k, episode in enumerate(log):
        person = world.individual(k, seed=5)
        assert np.array_equal(episode.context, person.context)
        assert episode.key == k
        for h, action in enumerate(episode.actions):
            assert episode.states[h] == person.state
            assert (episode.rewards[h], episode.states[h + 1]) == person.step(int(action))
    again = world.log(people=10, seed=5)
    assert all(np.array_equal(a.states, b.states) for a, b in zip(log, again, strict=False))
    assert not all(np.array_equal(a.states, b.states) for a, b in zip(world.log(10, 6), again, strict=True))


def test_logs_have_the_right_frequencies():
    """Sums of indicators less their probabilities: each within sqrt(T ln(2 m/1e-6)/2), T its number of steps and m the
    number of sums, but for a chance of 1e-6 in all (Azuma and Hoeffding; a fixed seed)."""
    world = nr.worlds.programme(context_dim=4)
    p, log = world.problem, world.log(people=1500, seed=11, explore=0.25)
    chances, sums = world.log_chances(0.25), np.zeros(p.n_states + 1 + p.n_states * p.n_actions)
    assert np.allclose(chances.sum(-1), 1.0)
    steps = np.zeros_like(sums)
    after, reward, taken = np.split(np.arange(sums.size), [p.n_states, p.n_states + 1])
    for episode in log:
        P, r = world.transitions(episode.context), world.rewards(episode.context)
        for h, (s, a) in enumerate(zip(episode.states[:-1], episode.actions, strict=True)):
            sums[after] += (np.arange(p.n_states) == episode.states[h + 1]) - P[s, a]
            sums[reward] += episode.rewards[h] - r[s, a]
            at = taken[s * p.n_actions : (s + 1) * p.n_actions]
            sums[at] += (np.arange(p.n_actions) == a) - chances[h, s]
            steps[at] += 1
    steps[: p.n_states + 1] = log.steps
    assert steps.min() > 200
    assert (np.abs(sums) <= np.sqrt(0.5 * steps * math.log(2 * sums.size / 1e-6))).all()


def test_a_log_keeps_to_the_rule_and_to_what_is_available():
    clinic = nr.worlds.clinic()
    may = clinic.problem.layout.available
    rule = np.broadcast_to(may.argmax(1), (clinic.problem.horizon, 4))
    for episode in clinic.log(50, 0, explore=0.0, rule=rule):
        assert np.array_equal(episode.actions, rule[np.arange(6), episode.states[:-1]])
    seen = np.zeros(may.shape, int)
    for episode in clinic.log(300, 0, explore=1.0, rule=rule):
        np.add.at(seen, (episode.states[:-1], episode.actions), 1)
    assert np.array_equal(seen > 0, may)
    uniform = may / may.sum(1, keepdims=True)
    assert np.allclose(clinic.log_chances(1.0, rule), uniform)
    assert np.allclose(clinic.log_chances(0.0, rule)[0], np.eye(3)[may.argmax(1)])


def test_agents_learn_from_a_log():
    world = nr.worlds.programme(context_dim=4, shared=False)
    agent = nr.make_agent("psrl-glm", world.problem)
    assert agent.learn_from(world.log(40, seed=1)) == 40


# RiverSwim ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("features", ["moves", "pairs"])
def test_riverswim_has_the_published_chances_and_rewards(features):
    S = 8
    world = nr.worlds.riverswim_logit(S, 24, features=features)
    wanted = np.zeros((S, 2, S))
    wanted[0, 0, 0] = 1.0
    wanted[0, 1, :2] = 0.4, 0.6
    wanted[-1, 1, -2:] = 0.4, 0.6
    for s in range(1, S):
        wanted[s, 0, s - 1] = 1.0
    for s in range(1, S - 1):
        wanted[s, 1, s - 1 : s + 2] = 0.05, 0.6, 0.35
    assert np.allclose(world.transitions([1.0]), wanted, atol=1e-14)
    assert np.array_equal(world.problem.support, wanted > 0.0)
    rewards = np.zeros((S, 2))
    rewards[0, 0], rewards[-1, 1] = 0.005, 1.0
    assert np.array_equal(world.rewards([1.0]), rewards)
    p = world.problem
    norms, residual = p.design.fitted(world.slots, p.layout)
    assert residual < 1e-12
    assert norms <= p.design.bound
    assert p.blocks.size.tolist() == [4 if features == "moves" else 2 * S - 2]


@pytest.mark.parametrize(("S", "H"), [(4, 12), (6, 20), (8, 24)])
def test_in_riverswim_it_is_best_to_swim_right(S, H):
    world = nr.worlds.riverswim_logit(S, H)
    best = world.optimal([1.0])
    assert (best.policy[: H - 2 * S + 5 - S // 2] == 1).all()  # while the other end can be reached
    assert 0.0 <= best.values[0, 0] - world.value(np.ones((H, S), int), [1.0]) < 0.002
    assert best.values[0, 0] == pytest.approx({4: 2.6627, 6: 3.3973, 8: 2.6226}[S], abs=1e-4)
    assert world.value(np.zeros((H, S), int), [1.0]) == pytest.approx(0.005 * H)


@pytest.mark.parametrize("features", ["moves", "pairs"])
def test_riverswim_by_steps_is_the_same_river(features):
    """A state is a place at a step: chances, rewards and values of step h are the river's, every step has a block."""
    S, H = 4, 5
    one = nr.worlds.riverswim_logit(S, H, features=features)
    world = nr.worlds.riverswim_logit(S, H, features=features, per_step=True)
    p, P, best, wanted = world.problem, world.transitions([1.0]), world.optimal([1.0]), one.optimal([1.0])
    assert (p.n_states, p.layout.outcomes.shape[2], p.initial_states) == (H * S, 3, (0,))
    assert p.blocks.size.tolist() == [4 if features == "moves" else 2 * S - 2] * H
    for h in range(H):
        here, after = slice(h * S, h * S + S), min(h + 1, H - 1) * S
        assert np.allclose(P[here, :, after : after + S], one.transitions([1.0]), atol=1e-14)
        assert np.array_equal(world.rewards([1.0])[here], one.rewards([1.0]))
        assert np.allclose(best.values[h, here], wanted.values[h])
        assert np.array_equal(p.blocks.block[here], np.full((S, 2), h))
    norms, residual = p.design.fitted(world.slots, p.layout)
    assert residual < 1e-12
    assert (norms <= p.design.bound).all()


@pytest.mark.parametrize("per_step", [False, True])
def test_riverswim_untold_is_nearly_the_same_river(per_step):
    """Every place may follow, as far as the learner knows; what cannot has a millionth of the chance, and the values
    differ by no more than that can cost. Bounds hold."""
    S, H = 4, 12
    told = nr.worlds.riverswim_logit(S, H)
    for shared in (True, False):
        world = nr.worlds.riverswim_logit(S, H, features="pairs", shared=shared, per_step=per_step, known_support=False)
        p, P = world.problem, world.transitions([1.0])
        places = H if per_step else 1
        assert p.layout.count.tolist() == [[S, S]] * (places * S)
        after = slice(S, 2 * S) if per_step else slice(0, S)
        assert np.allclose(P[:S, :, after], told.transitions([1.0]), atol=1e-5)
        assert P[:S, :, after].min() > 1e-7
        assert world.optimal([1.0]).values[0, 0] == pytest.approx(told.optimal([1.0]).values[0, 0], abs=1e-4)
        assert np.ptp(world.slots[:S], axis=2).max() <= p.weight_bound
        if shared:
            norms, residual = p.design.fitted(world.slots, p.layout)
            assert residual < 1e-12
            assert (norms <= p.design.bound).all()
            assert p.blocks.size.tolist() == [2 * S * (S - 1)] * places


def test_riverswim_by_its_options():
    unknown = nr.worlds.riverswim_logit(known_rewards=False)
    assert unknown.problem.known_rewards is None
    assert np.array_equal(unknown.rewards([1.0]), nr.worlds.riverswim_logit().rewards([1.0]))
    alone = nr.worlds.riverswim_logit(shared=False)
    assert alone.problem.design is None
    assert np.allclose(alone.slots, nr.worlds.riverswim_logit().slots)
    many = nr.worlds.riverswim_logit(4, 6, known_rewards=False, shared=False, per_step=True)
    assert (many.problem.design, many.problem.known_rewards, many.problem.n_states) == (None, None, 24)


# By name ------------------------------------------------------------------------------------------------------------
def test_worlds_with_designs_have_names_and_options():
    assert {"programme", "shared-logit", "riverswim-logit"} <= set(nr.worlds.names())
    assert named_world("programme", {"context_dim": 4, "shared": False}).problem.context_dim == 4
    assert named_world("shared-logit", {}).problem.design is not None
    assert named_world("riverswim-logit", {"n_states": 4, "horizon": 12}).problem.n_states == 4
    options = world_options("random-logit", {})
    assert sorted(options) == ["context_dim", "horizon", "n_actions", "n_states", "seed", "weight_bound"]  # as before
