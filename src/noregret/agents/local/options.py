"""Options that agents with sets, or with a posterior, have in common (`SetAgent` says what they mean)."""

from ... import checks as check
from ...estimators.likelihood.sets import PREDICTORS
from ...estimators.rewards.forms import SETS as REWARD_FORMS
from ..declared import choice, option

SETS = choice(
    "online", "stored", "stored-plain",
    doc="Sets of transitions: constant memory, or all data kept and smaller sets (the plain one without a design).",
)  # fmt: skip
BONUS = choice(
    "taylor", "sharp", default=None,
    doc="First and second order, or maximisation over the set; None: the first with online sets, else the second.",
)  # fmt: skip
REWARD_SETS = choice(
    *REWARD_FORMS, default=None, doc="None: 'hoeffding' with online sets, 'bernstein' with stored ones."
)
CERTIFICATES = choice(
    "plain", "close", default=None,
    doc="Upper less lower values, or a shortfall followed step by step, never larger; None: as `sets`, in this order.",
)  # fmt: skip
PREDICTOR = choice(*PREDICTORS[:2], default="unscented", doc="Of online sets: see `LikelihoodRatioSet`.")
FORM = choice(
    "full", "kron", doc="Of online sets and of the posterior: a matrix for all weights of a pair, or a product."
)
POSTERIOR_SCALE = option(1.0, check.nonnegative, doc="Multiplies the random part of what is explored.")
EXPLORATION = choice("adaptive", "posterior", doc="How plans explore: docs/exploration.md, or posterior sampling.")
