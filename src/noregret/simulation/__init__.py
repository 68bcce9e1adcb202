"""Simulation: where the truth and the learner meet."""

from .fitted import world_of
from .logs import logged
from .referral import ReferralStudy, referral_study
from .run import Run, save_tables, simulate

__all__ = ["ReferralStudy", "Run", "logged", "referral_study", "save_tables", "simulate", "world_of"]
