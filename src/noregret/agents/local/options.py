"""Options that agents with sets, or with a posterior, have in common (`SetAgent` says what they mean)."""

from ... import checks as check
from ...estimators.likelihood.sets import PREDICTORS
from ...estimators.rewards.forms import SETS as REWARD_FORMS
from ..declared import choice, option

SETS = choice("online", "stored", "stored-plain")
BONUS = choice("taylor", "sharp", default=None)
REWARD_SETS = choice(*REWARD_FORMS, default=None)
CERTIFICATES = choice("plain", "close", default=None)
PREDICTOR = choice(*PREDICTORS[:2], default="unscented")
FORM = choice("full", "kron")
POSTERIOR_SCALE = option(1.0, check.nonnegative)
EXPLORATION = choice("adaptive", "posterior")
