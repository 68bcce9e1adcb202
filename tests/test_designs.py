"""Designs: which weights pairs have in common, what of them can be told apart, and what follows for the bounds."""

import numpy as np
import pytest

import noregret as nr
from noregret.problem.layout import full_layout

HEALTH = {"health": [0.0, 0.5, 1.0], "place": ["home", "ward", "ward"]}
DOSE = {"dose": [0.0, 1.0], "kind": ["none", "drug"]}


def test_a_term_is_the_product_of_its_factors():
    terms = ["change.health", "action.dose * fall.health", "next.place * action.kind", "stay", "rise.health"]
    design = nr.Design.from_tables(terms, 1.0, HEALTH, DOSE)
    health, dose = np.array(HEALTH["health"]), np.array(DOSE["dose"])
    change = health[None, None, :] - health[:, None, None] + 0.0 * dose[None, :, None]
    assert design.names[:3] == ("change.health", "action.dose * fall.health", "next.place=home * action.kind=none")
    assert np.array_equal(design.features[..., 0], change)
    assert np.array_equal(design.features[..., 1], dose[None, :, None] * np.maximum(-change, 0.0))
    at = design.names.index("next.place=ward * action.kind=drug")
    ward, drug = np.array(HEALTH["place"]) == "ward", np.array(DOSE["kind"]) == "drug"
    assert np.array_equal(design.features[..., at] > 0, np.broadcast_to(ward & drug[:, None], (3, 2, 3)))
    assert np.array_equal(design.features[:, 1, :, design.names.index("stay")], np.eye(3))
    assert np.array_equal(design.features[..., design.names.index("rise.health")], np.maximum(change, 0.0))


def test_pairs_that_agree_in_the_named_factors_are_one_block():
    design = nr.Design.from_tables(["next"], 1.0, HEALTH, DOSE, blocks=["state.place", "action"])
    assert design.block.tolist() == [[0, 1], [2, 3], [2, 3]]
    assert design.block_names[0] == "state.place home, action 0"
    assert nr.Design.from_tables(["next"], 1.0, HEALTH, DOSE).n_blocks == 1


def test_moderators_are_the_entries_of_the_context_that_a_feature_goes_with():
    names = ("intercept", "age", "sex")
    terms = ["change.health by intercept", "action.dose * change.health by age, sex", "stay", "state.health by age"]
    design = nr.Design.from_tables(terms, 2.0, HEALTH, DOSE, contexts=names)
    assert design.moderators.tolist() == [[True, False, False], [False, True, True], [True] * 3, [False, True, False]]
    assert "6 parameters in 1 block" in design.describe()  # state.health moves no odds
    problem = nr.Problem(3, 2, 4, 3, design=design, reward_bound=1.0)
    assert problem.blocks.start.tolist() == [[0, 1, 3, 6]]
    assert problem.blocks.column.tolist() == [[0, 1, 2, 0, 1, 2]]
    theta = np.where(design.moderators, 0.3, 0.0)
    W, zero = design.weights(theta), np.zeros((3, 2, 3))
    assert nr.World(problem, W, zero, contexts=[[0.5, 0.5, 0.5]]).problem is problem
    with pytest.raises(ValueError, match="theta must be 0 where"):
        design.weights(np.full((4, 3), 0.3))
    wrong = nr.Design.from_tables(["change.health"], 2.0, HEALTH, DOSE).weights(np.full((1, 3), 0.5))
    with pytest.raises(ValueError, match="those of the problem's design"):  # age may not move it
        nr.World(problem, wrong, zero, contexts=[[0.5, 0.5, 0.5]])
    with pytest.raises(ValueError, match="moderators must be about context_dim = 4"):
        nr.Problem(3, 2, 4, 4, design=design, reward_bound=1.0)


def test_what_moves_all_next_states_alike_is_dropped():
    terms = ["state.health", "change.health", "next.health", "action.dose", "next.place"]
    design = nr.Design.from_tables(terms, 2.0, HEALTH, DOSE)  # change and next.health differ by a constant
    made = design.identified(full_layout(np.ones((3, 2), bool)), 1)
    assert made.size.tolist() == [2]  # health of the next state, and its place
    assert "2 features x 5" in design.describe(5)
    assert "4 of 6 dropped" in design.describe(5)
    assert np.array_equal(made.features[:, :, -1], np.zeros((3, 2, 2)))


def test_a_problem_describes_its_designs_with_its_own_support():
    states, actions = {"level": [0.0, 1.0, 2.0]}, {"dose": [0.0, 1.0]}
    design = nr.Design.from_tables(["change.level", "rise.level"], 2.0, states, actions)
    psi = nr.RewardDesign.from_tables(["1", "state.level"], 2.0, states, actions)
    upwards = np.broadcast_to(np.triu(np.ones((3, 3), bool))[:, None], (3, 2, 3))
    assert design.describe(4).startswith("8 parameters in 1 block; 48 if")
    told = nr.Problem(3, 2, 4, 4, design=design, reward_design=psi, support=upwards).describe()
    assert told.startswith("next states: 4 parameters in 1 block; 24 if")  # levels only rise: the two are one
    assert "\nrewards: 8 parameters in 1 block; 24 if" in told
    plain = nr.Problem(3, 2, 4, 4, weight_bound=1.0, known_rewards=np.zeros((3, 2, 4)), reward_bound=1.0).describe()
    assert plain == "next states: 48 parameters, every pair has its own\nrewards: known"


@pytest.mark.parametrize("masked", [False, True])
def test_identified_features_keep_every_distance_and_no_norm_grows(masked):
    g = np.random.default_rng(3)
    S, A, q, d = 4, 3, 7, 3
    features = g.standard_normal((S, A, S, q))
    features[..., -1] = features[..., 0] - features[..., 1]  # a direction that is not there
    design = nr.Design(features, [2.0, 3.0], g.integers(0, 2, (S, A)) * 0 + np.arange(A)[None] % 2)
    support = g.random((S, A, S)) < 0.6 if masked else None
    if masked:
        support[..., 0] = True
    problem = nr.Problem(S, A, 3, d, design=design, reward_bound=1.0, support=support)
    layout, made = problem.layout, problem.blocks
    theta = g.standard_normal((2, q, d))
    W = problem.to_slots(np.einsum("sajq,saqd->sajd", features, theta[design.block]))
    for b in range(2):
        mine = (design.block == b) & layout.available
        seen = made.features[mine]
        full = problem.to_slots(features)[mine]
        for pair, rows, count in zip(seen, full, layout.count[mine], strict=True):
            differences = rows[:count] - rows[count - 1]
            assert np.allclose(pair[:count] @ pair[:count].T, differences @ differences.T)
            assert not pair[count:].any()
        # the same logits, up to a constant, from a theta that is no longer
        rows = seen.reshape(-1, seen.shape[-1])
        wanted = (W - np.take_along_axis(W, (layout.count - 1)[..., None, None], 2))[mine]
        wanted = np.where((np.arange(W.shape[2]) < layout.count[mine][:, None])[..., None], wanted, 0.0)
        small = np.linalg.lstsq(rows, wanted.reshape(-1, d), rcond=None)[0]
        assert np.allclose(rows @ small, wanted.reshape(-1, d))
        assert np.linalg.norm(small) <= np.linalg.norm(theta[b]) * (1 + 1e-9)
        assert not made.features[mine][..., made.size[b] :].any()


def test_a_design_implies_the_bound_on_rows_and_the_smaller_counts():
    design = nr.Design.per_action(3, 2, 1.5)
    problem = nr.Problem(3, 2, 4, 2, design=design, reward_bound=1.0)
    g = np.random.default_rng(0)
    longest = 0.0
    for _ in range(200):
        theta = g.standard_normal((2, 4, 2))
        theta *= 1.5 / np.linalg.norm(theta, axis=(1, 2), keepdims=True)
        W = design.weights(theta)
        longest = max(longest, float(np.linalg.norm(W - W[:, :, -1:], axis=-1).max()))
    assert 0.7 * problem.weight_bound < longest <= problem.weight_bound
    assert nr.Problem(3, 2, 4, 2, design=design, reward_bound=1.0, weight_bound=1.0).weight_bound == 1.0


def test_worlds_keep_to_their_design_unless_told():
    design = nr.Design.per_action(3, 2, 2.0)
    rewards = nr.RewardDesign.from_tables(["1", "action.dose"], 1.5, HEALTH, DOSE)
    problem = nr.Problem(3, 2, 4, 1, design=design, reward_design=rewards)
    theta = np.random.default_rng(1).standard_normal((2, 4, 1)) * 0.4
    W, r = design.weights(theta), rewards.weights([[[0.5], [0.2]]])
    world = nr.World(problem, W, r, contexts=[[1.0]])
    assert np.allclose(world.rewards([1.0]), [[0.5, 0.7]] * 3)
    wrong = W.copy()
    wrong[0, 0, 0] += 0.1
    with pytest.raises(ValueError, match="weights must be those of the problem's design"):
        nr.World(problem, wrong, r, contexts=[[1.0]])
    assert nr.World(problem, wrong, r, contexts=[[1.0]], misspecified=True).misspecified
    with pytest.raises(ValueError, match=r"need a theta of norm 3.* above the bound 2|above weight_bound"):
        nr.World(problem, W * (3.0 / np.linalg.norm(theta[0])), r, contexts=[[1.0]])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nr.Design(np.zeros((2, 2, 3, 1)), 1.0), "features must have shape"),
        (lambda: nr.Design(np.full((2, 2, 2, 1), np.nan), 1.0), "features must be finite"),
        (lambda: nr.Design(np.ones((2, 2, 2, 1)), -1.0), "bound must be"),
        (lambda: nr.Design(np.ones((2, 2, 2, 1)), [1.0, 2.0]), "one for each of 1 blocks"),
        (lambda: nr.Design(np.ones((2, 2, 2, 1)), 1.0, [[0, 2], [0, 2]]), "without a gap"),
        (lambda: nr.Design(np.ones((2, 2, 2, 1)), 1.0, [[0, 1]]), "block must be the number"),
        (lambda: nr.Design.from_tables([], 1.0, HEALTH, DOSE), "terms must be a list"),
        (lambda: nr.Design.from_tables(["next.heath"], 1.0, HEALTH, DOSE), "did you mean health"),
        (lambda: nr.Design.from_tables(["next by age"], 1.0, HEALTH, DOSE), "contexts must be given"),
        (lambda: nr.Design.from_tables(["next by age"], 1.0, HEALTH, DOSE, contexts=["old"]), "unknown entry"),
        (lambda: nr.Design(np.ones((2, 2, 2, 1)), 1.0, moderators=[[False]]), "moderators must be a boolean"),
        (lambda: nr.Design.from_tables(["later"], 1.0, HEALTH, DOSE), "terms must be products"),
        (lambda: nr.Design.from_tables(["change.place"], 1.0, HEALTH, DOSE), "needs numbers"),
        (lambda: nr.Design.from_tables(["next", "next"], 1.0, HEALTH, DOSE), "there twice"),
        (lambda: nr.Design.from_tables(["next"], 1.0, HEALTH, DOSE, blocks="next"), "blocks must be factors"),
        (lambda: nr.Design.from_tables(["next"], 1.0, {"a": [1], "b": [1, 2]}, DOSE), "columns of one length"),
        (lambda: nr.RewardDesign.from_tables(["next.health"], 1.0, HEALTH, DOSE), "about states and actions"),
        (lambda: nr.Problem(3, 3, 2, 1, design=nr.Design.per_pair(3, 2, 1.0), reward_bound=1.0), "design must be for"),
        (lambda: nr.Problem(3, 2, 2, 1, design="per pair", reward_bound=1.0), "design must be a noregret.Design"),
        (
            lambda: nr.Problem(
                2, 2, 2, 2, nr.LinearCombination(), design=nr.Design.per_pair(2, 2, 1.0), reward_bound=1.0
            ),
            "design needs the link MultinomialLogit",
        ),
    ],
)
def test_bad_input_gets_a_sentence(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_direction_that_can_move_odds_is_kept_however_small_its_features():
    """Features of 1e-6 with a bound of 1e5 move odds by a factor e^0.1; what moves nothing is dropped."""
    features = np.zeros((2, 2, 2, 2))
    features[:, :, 0, 0] = 1.0
    features[:, 1, 0, 1] = 1e-6
    large = nr.Design(features, 1e5)
    problem = nr.Problem(2, 2, 2, 1, design=large, reward_bound=1.0, weight_bound=5.0)
    assert problem.blocks.size.tolist() == [2]
    theta = np.array([[0.5], [9e4]])
    assert nr.World(problem, large.weights(theta), np.zeros((2, 2, 1)), contexts=[[1.0]])
    small = nr.Problem(2, 2, 2, 1, design=nr.Design(features * [1.0, 1e-6], 2.0), reward_bound=1.0)
    assert small.blocks.size.tolist() == [1]
    with pytest.raises(ValueError, match="bound of block 0 must be smaller"):
        nr.Problem(2, 2, 2, 1, design=nr.Design(features, 1e9), reward_bound=1.0, weight_bound=5.0)
