"""The agents, by name. An agent is estimator x confidence set x planner; its module reads like its pseudo-code.

A plan of one's own may draw from the posterior of `PSRLGLM` (`draw_model`), in a class made from it:

>>> import noregret as nr
>>> from noregret.agents import draw_model
>>> from noregret.planning import solve
>>> @nr.kernel
... def plan(par, state, work, x, k, out):  # a model drawn, as if every pair could be a tenth better
...     draw_model(par, state, work, x, k)
...     for s in range(work.mean.shape[0]):
...         for a in range(work.mean.shape[1]):
...             work.r[0, s, a] = min(work.r[0, s, a] + 0.1, 1.0)
...             work.deviation[s, a] = 0.0
...     solve(par.layout, work.P[0], work.r[0], work.deviation, par.seed, k, work.Q, out)
>>> class Hopeful(nr.PSRLGLM):
...     name, plan_kernel = "hopeful", staticmethod(plan)
>>> world = nr.worlds.clinic()
>>> nr.simulate(Hopeful(world.problem), world, 200).label
'hopeful'
"""

from .base import Agent
from .baselines.bandits.glb_omd import GLBOMD
from .baselines.bandits.glm_ucb import GLMUCB
from .baselines.bandits.gloc import GLOC
from .baselines.bandits.linucb import LinUCB
from .baselines.bandits.ofuglb import OFUGLB
from .baselines.bandits.oful import OFUL
from .baselines.bandits.ol2m import OL2M
from .baselines.groups import kmeans
from .baselines.linear.abbasi_yadkori_neu import AbbasiYadkoriNeu
from .baselines.linear.lsvi_ucb import LSVIUCB
from .baselines.linear.omg import OMGCMDP
from .baselines.linear.orlc_si import ORLCSI
from .baselines.mnl.orrl_mnl import ORRLMNL
from .baselines.mnl.rrl_mnl import RRLMNL
from .baselines.mnl.ucrl_mnl import UCRLMNL
from .baselines.mnl.ucrl_mnl_ol import UCRLMNLOL
from .baselines.rmax.cece import CECE
from .baselines.rmax.cece_x import CECEx
from .baselines.rmax.cover_rmax import CoverRmax
from .baselines.rmax.kwik_rmax import KWIKLRRmax
from .baselines.tabular.orlc import ORLC
from .baselines.tabular.psrl import PSRL
from .baselines.tabular.rlsvi import TabularRLSVI
from .baselines.tabular.ucbvi import UCBVI, UCBVIBF
from .baselines.tabular.ucrl2 import UCRL2
from .composed.certified import Certified
from .composed.conservative import Conservative
from .composed.referral import Referral
from .controls import CertaintyEquivalence, EpsilonGreedy, FixedPolicy, Oracle, UniformRandom
from .glm.orl import GLMORL
from .glm.rlsvi import GLMRLSVI
from .local.certified_psrl import CertifiedPSRL
from .local.draws import draw_model
from .local.lr_orl import LRORL
from .local.psrl_glm import PSRLGLM
from .registry import make_agent, names, register

register(
    GLMORL, GLMRLSVI,
    CertifiedPSRL, LRORL, PSRLGLM,
    ORLCSI, AbbasiYadkoriNeu, LSVIUCB, OMGCMDP,
    UCRLMNL, UCRLMNLOL, RRLMNL, ORRLMNL,
    CoverRmax, KWIKLRRmax, CECE, CECEx,
    UCRL2, UCBVI, UCBVIBF, ORLC, PSRL, TabularRLSVI,
    OFUL, LinUCB, GLMUCB, OL2M, GLOC, OFUGLB, GLBOMD,
    EpsilonGreedy, CertaintyEquivalence, UniformRandom, Oracle,
)  # fmt: skip
register(FixedPolicy, Referral, Certified, Conservative, composed=True)

__all__ = [
    "CECE", "GLBOMD", "GLMORL", "GLMRLSVI", "GLMUCB", "GLOC", "LRORL", "LSVIUCB", "OFUGLB", "OFUL", "OL2M", "OMGCMDP",
    "ORLC", "ORLCSI", "ORRLMNL", "PSRL", "PSRLGLM", "RRLMNL", "UCBVI", "UCBVIBF", "UCRL2", "UCRLMNL", "UCRLMNLOL",
    "AbbasiYadkoriNeu", "Agent", "CECEx", "CertaintyEquivalence", "Certified", "CertifiedPSRL", "Conservative",
    "CoverRmax", "EpsilonGreedy", "FixedPolicy", "KWIKLRRmax", "LinUCB", "Oracle", "Referral", "TabularRLSVI",
    "UniformRandom", "draw_model", "kmeans", "make_agent", "names",
]  # fmt: skip
