"""Link functions: from the linear predictors z = W x of one state-action pair to the distribution of the next state.

A link is the gradient of a convex function Phi, P(.|s, a, x) = grad Phi(W_sa x), with alpha-strong convexity where it
is used and beta-smoothness. Two kernels describe it to the estimators, both over rows, in place:

    gradient(z [n, m], count [n])                             z <- grad Phi(z)
    project(z [n, m], bound, count [n], moved [n])            z <- nearest point of the region in which W* x must lie

Row i has count[i] outcomes; what lies beyond is padding, which is 0 and stays so. `bound` is B_p ||x||, `moved[i]`
receives the squared distance. The region depends on the coordinates in which the weights are kept:

    "free"     every row of W is a parameter; region: the box |z_i| <= bound, or the simplex for LinearCombination
    "pinned"   the last outcome's row is 0 (shift-invariant links); region: the box, last coordinate 0
    "centred"  the rows sum to 0 (shift-invariant links); region: the pinned box, centred
"""

import math
from typing import Any, Literal

import numpy as np

from .. import checks as check
from ..compiler.jit import COUNTS, DISABLED, NUMBER, ROWS, VECTOR, bits, from_bits, kernel, merged, strict
from ..compiler.slots import slot
from ..theory import constants as c

Constants = Literal["corrected", "paper"]
Coordinates = Literal["free", "pinned", "centred"]

apply_gradient = slot("gradient", ROWS, COUNTS)  # (z, count)
apply_projection = slot("projection", ROWS, NUMBER, COUNTS, VECTOR)  # (z, bound, count, moved)

EXP_LIMIT = 700.0  # predictors beyond this are clamped: e^700 times any number of states is still finite


@strict
def exp(x):
    """e^x to about 1 ulp for |x| <= 700 (clamped beyond), without a branch or a call, so that loops over it vectorise.

    x = n ln 2 + r with |r| <= ln(2)/2; n is read off the low bits of x/ln 2 + 1.5 * 2^52; a Taylor polynomial of
    degree 13 for e^r; n goes straight into the exponent. Strict: reassociation would cancel the rounding trick."""
    x = min(max(x, -700.0), 700.0)
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    y = 1.0 / 6227020800.0
    y = y * r + 1.0 / 479001600.0
    y = y * r + 1.0 / 39916800.0
    y = y * r + 1.0 / 3628800.0
    y = y * r + 1.0 / 362880.0
    y = y * r + 1.0 / 40320.0
    y = y * r + 1.0 / 5040.0
    y = y * r + 1.0 / 720.0
    y = y * r + 1.0 / 120.0
    y = y * r + 1.0 / 24.0
    y = y * r + 1.0 / 6.0
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    return y * from_bits((bits(shifted) << 52) + (1023 << 52))


@kernel
def sigmoid(z):
    """z [n] <- 1/(1 + e^-z)."""
    for i in range(z.shape[0]):
        z[i] = 1.0 / (1.0 + exp(-z[i]))


@kernel
def softmax_rows(z, count):
    n, m = z.shape
    used = 0
    for i in range(n):
        used += count[i]
    if 2 * used >= n * m:  # one loop over everything: rows are short
        flat = merged(z)
        for i in range(n * m):
            flat[i] = exp(flat[i])
    else:  # mostly padding, which is not even read
        for i in range(n):
            for j in range(count[i]):
                z[i, j] = exp(z[i, j])
    for i in range(n):
        total = 0.0
        for j in range(count[i]):
            total += z[i, j]
        scale = 1.0 / total
        for j in range(count[i]):
            z[i, j] *= scale
    if 2 * used >= n * m:
        for i in range(n):
            z[i, count[i] :] = 0.0


@kernel
def identity_rows(z, count):
    for i in range(z.shape[0]):
        z[i, count[i] :] = 0.0


@kernel
def box_rows(z, bound, count, moved):
    """Clip to [-bound, bound]; a pinned coordinate is 0 and stays there."""
    n = z.shape[0]
    for i in range(n):
        total = 0.0
        for j in range(count[i]):
            v = min(max(z[i, j], -bound), bound)
            total += (v - z[i, j]) * (v - z[i, j])
            z[i, j] = v
        moved[i] = total


@kernel
def centred_box_rows(z, bound, count, moved):
    """Nearest point of { C y : y_last = 0, |y_j| <= bound } to a row that sums to 0.

    With c the common shift, the point is clip(z + c) - c for the free coordinates and -c for the last one, where c
    solves sum_free (z_j + c - clip(z_j + c)) + z_last + c = 0: piecewise linear with slopes in [1, count], so Newton's
    method ends after finitely many steps."""
    for i in range(z.shape[0]):
        last = count[i] - 1
        shift, worst = -z[i, last], 0.0
        for j in range(last):
            worst = max(worst, abs(z[i, j] + shift))
        moved[i] = 0.0
        if worst > bound:
            for _ in range(100):
                excess, slope = z[i, last] + shift, 1.0
                for j in range(last):
                    v = z[i, j] + shift
                    if v > bound:
                        excess += v - bound
                        slope += 1.0
                    elif v < -bound:
                        excess += v + bound
                        slope += 1.0
                step = excess / slope
                shift -= step
                if abs(step) <= 1e-15 * (1.0 + abs(shift)):
                    break
            total = (z[i, last] + shift) * (z[i, last] + shift)
            z[i, last] = -shift
            for j in range(last):
                v = min(max(z[i, j] + shift, -bound), bound) - shift
                total += (v - z[i, j]) * (v - z[i, j])
                z[i, j] = v
            moved[i] = total


@kernel
def simplex_rows(z, bound, count, moved):
    """Euclidean projection on the simplex: subtract the threshold t with sum max(z_j - t, 0) = 1, clip at 0.

    Newton's method on the piecewise linear equation, from the mean: monotone, ends after finitely many steps."""
    for i in range(z.shape[0]):
        low, total = 0.0, 0.0
        for j in range(count[i]):
            total += z[i, j]
            low = min(low, z[i, j])
        moved[i] = 0.0
        if low < 0.0 or abs(total - 1.0) > 1e-14:
            t = (total - 1.0) / count[i]
            for _ in range(count[i] + 1):
                inside, active = 0.0, 0
                for j in range(count[i]):
                    if z[i, j] > t:
                        inside += z[i, j]
                        active += 1
                new = (inside - 1.0) / active
                if new <= t:
                    break
                t = new
            total = 0.0
            for j in range(count[i]):
                v = max(z[i, j] - t, 0.0)
                total += (v - z[i, j]) * (v - z[i, j])
                z[i, j] = v
            moved[i] = total


class Link:
    """Your own link: a gradient kernel and two constants.

    gradient     function (z [n, m], count [n]) that turns rows of predictors into rows of probabilities, in place;
                 plain Python loops over floats, compiled with `noregret.kernel` if it is not already
    alpha        strong convexity of Phi on the region; a number, or a function (n_outcomes, bound) -> number, where
                 bound = B_p R
    beta         smoothness of Phi (Lipschitz constant of the gradient in the 2-norm)
    coordinates  "free", or "pinned" / "centred" if the gradient does not change when a constant is added to a row
    l1           Lipschitz constant from the 2-norm of the predictors to the 1-norm of the probabilities, a number or a
                 function of n_outcomes; default sqrt(n_outcomes) beta

    The confidence set is Theorem B (`theory.radii.theorem_b`), whose only assumption beyond these is |W*_i| <= B_p.
    Caveat: a wrong alpha or beta is not detected and voids the guarantee. In `free` coordinates the gradient must be a
    distribution everywhere in the box |z_i| <= bound.

    >>> import math
    >>> import numpy as np
    >>> import noregret as nr
    >>> def lapse(z, count):  # a softmax, except that one outcome in five is uniform
    ...     for i in range(z.shape[0]):
    ...         total = 0.0
    ...         for j in range(count[i]):
    ...             z[i, j] = math.exp(z[i, j])
    ...             total += z[i, j]
    ...         for j in range(count[i]):
    ...             z[i, j] = 0.8 * z[i, j] / total + 0.2 / count[i]
    >>> alpha = nr.theory.constants.logit_alpha_pinned  # a function of (n_outcomes, bound)
    >>> link = nr.Link(lapse, lambda n, b: 0.8 * alpha(n, b), beta=0.4, coordinates="pinned", name="lapse")
    >>> z = np.array([[2.0, 0.0]])
    >>> link.gradient(z, np.array([2]))
    >>> z.round(2)
    array([[0.8, 0.2]])
    >>> nr.GLMORL(nr.Problem(2, 2, 3, 2, link, weight_bound=1.0, reward_bound=1.0)).guarantee is not None
    True
    """

    name = "custom"
    form = "B"  # which theorem gives the radius under constants="corrected"
    width = "lipschitz"  # how a radius becomes a width: "lipschitz", "tanh" (logit) or "l2" (linear)

    def __init__(
        self,
        gradient: Any,
        alpha: Any,
        beta: float,
        coordinates: Coordinates = "free",
        l1: Any = None,
        name: str = "custom",
    ) -> None:
        if not isinstance(coordinates, str) or coordinates not in ("free", "pinned", "centred"):
            raise ValueError(f'coordinates must be "free", "pinned" or "centred", got {check.shown(coordinates)}')
        if not callable(gradient):
            raise ValueError(f"gradient must be a function (z [n, m], count [n]), got {check.shown(gradient)}")
        check.positive("beta", beta)
        if not callable(alpha):
            check.positive("alpha", alpha)
        if l1 is not None and not callable(l1):
            check.positive("l1", l1)
        self._gradient = gradient if DISABLED or hasattr(gradient, "py_func") else kernel(gradient)
        self._alpha, self._beta, self._l1 = alpha, float(beta), l1
        self.coordinates: Coordinates = coordinates
        self.name = name

    def __repr__(self) -> str:
        return f"<Link {self.name}>"

    # What the estimators ask -------------------------------------------------------------------------------------
    def coordinates_for(self, constants: Constants) -> Coordinates:
        """In which coordinates the weights are kept: row balls, as printed, do not go with centred rows."""
        return "pinned" if constants == "paper" and self.coordinates == "centred" else self.coordinates

    def alpha(self, n_outcomes: int, bound: float, constants: Constants = "corrected") -> float:
        """Strong convexity for `n_outcomes` outcomes and predictors within `bound`, in those coordinates."""
        return float(self._alpha(n_outcomes, bound) if callable(self._alpha) else self._alpha)

    def beta(self, constants: Constants = "corrected") -> float:
        """Smoothness."""
        return self._beta

    def l1(self, n_outcomes: int, constants: Constants = "corrected") -> float:
        """Lipschitz constant from the predictors' 2-norm to the probabilities' 1-norm."""
        if constants == "paper" or self._l1 is None:
            return math.sqrt(n_outcomes) * self.beta(constants)
        return float(self._l1(n_outcomes) if callable(self._l1) else self._l1)

    def implied_weight_bound(self, context_dim: int) -> float | None:
        """A bound that always holds, or None: the user must know one."""
        return None

    def weight_norm2(self, n_outcomes: int, weight_bound: float, context_dim: int, constants: Constants) -> float:
        """Bound on ||W* - W_1||_F^2: free rows times B_p^2; for two centred outcomes half of that."""
        if self.coordinates_for(constants) == "free":
            return n_outcomes * weight_bound**2
        if n_outcomes == 2 and self.coordinates_for(constants) == "centred":
            return 0.5 * weight_bound**2
        return (n_outcomes - 1) * weight_bound**2

    def initial_weight(self, n_outcomes: int, constants: Constants) -> float:
        """Value of every entry of W_1."""
        return 0.0

    # The kernels, by address -------------------------------------------------------------------------------------
    @property
    def gradient(self) -> Any:
        return self._gradient

    def region(self, constants: Constants) -> Any:
        """The projection kernel for the coordinates in use."""
        return centred_box_rows if self.coordinates_for(constants) == "centred" else box_rows

    def gradient_address(self) -> Any:
        return apply_gradient.fill(self.gradient, np.zeros((1, 1)), np.ones(1, np.int64))

    def region_address(self, constants: Constants) -> Any:
        return apply_projection.fill(self.region(constants), np.zeros((1, 1)), 1.0, np.ones(1, np.int64), np.zeros(1))


class MultinomialLogit(Link):
    """P(j|s, a, x) = exp(w_j'x) / sum_i exp(w_i'x), the last supported outcome's row being the reference (zero).

    constants="corrected": centred coordinates with the exact `theory.constants.logit_alpha_centred`, beta = 1/2, width
    through 2 tanh and the prior cap, radius of Theorem A. constants="paper": pinned, alpha = e^{-BR}/S^2 as printed
    (which is not valid for S >= 3 and BR above about 1.8: see `theory.constants.logit_alpha_printed`), beta = 1.

    >>> import numpy as np
    >>> import noregret as nr
    >>> link = nr.MultinomialLogit()
    >>> z = np.array([[1.0, -1.0, 0.0]])  # predictors W x of one pair, the last outcome's being the reference
    >>> link.gradient(z, np.array([3]))  # in place
    >>> z.round(2)
    array([[0.67, 0.09, 0.24]])
    >>> [round(link.alpha(3, bound, "corrected"), 3) for bound in (1.0, 2.0, 4.0)]  # what B_p R costs
    [0.119, 0.023, 0.0]
    """

    name, form, width = "logit", "A", "tanh"

    def __init__(self) -> None:
        super().__init__(softmax_rows, c.logit_alpha_centred, c.LOGIT_BETA, "centred", c.LOGIT_L1, self.name)

    def __repr__(self) -> str:
        return "MultinomialLogit()"

    def alpha(self, n_outcomes: int, bound: float, constants: Constants = "corrected") -> float:
        printed = constants == "paper"
        return c.logit_alpha_printed(n_outcomes, bound) if printed else super().alpha(n_outcomes, bound)

    def beta(self, constants: Constants = "corrected") -> float:
        return 1.0 if constants == "paper" else c.LOGIT_BETA


class LinearCombination(Link):
    """P(.|s, a, x) = W_sa x: a mixture, with weights x in the simplex, of d base MDPs, the columns of W_sa.

    Phi(y) = ||y||^2/2, alpha = beta = 1. constants="corrected": W_1 = 1/S, kappa = 3/2, Theorem B, widths in the
    2-norm; "paper": W_1 = 0, kappa = 1/2, the printed radius. The planner's distribution is the projection of W x on
    the simplex in both (non-expansive, so the set around W x stays valid).

    >>> import noregret as nr
    >>> problem = nr.Problem(3, 2, 4, context_dim=2, link=nr.LinearCombination(), reward_bound=1.0)
    >>> round(problem.weight_bound, 3)  # sqrt(d), which always holds
    1.414
    >>> problem.context([0.6, 0.6])
    Traceback (most recent call last):
        ...
    ValueError: context must be nonnegative and sum to 1 under LinearCombination, got sum 1.2 and smallest entry 0.6
    """

    name, form, width = "linear", "B", "l2"

    def __init__(self) -> None:
        super().__init__(identity_rows, 1.0, 1.0, "free", c.linear_l1, self.name)

    def __repr__(self) -> str:
        return "LinearCombination()"

    def implied_weight_bound(self, context_dim: int) -> float:
        """Entries are probabilities: no row is longer than sqrt(d)."""
        return math.sqrt(context_dim)

    def weight_norm2(self, n_outcomes: int, weight_bound: float, context_dim: int, constants: Constants) -> float:
        """Columns are distributions: ||W*||_F^2 <= d, and ||W* - 1/S||_F^2 <= d (1 - 1/S)."""
        return context_dim * (1.0 if constants == "paper" else 1.0 - 1.0 / n_outcomes)

    def initial_weight(self, n_outcomes: int, constants: Constants) -> float:
        return 0.0 if constants == "paper" else 1.0 / n_outcomes

    def region(self, constants: Constants) -> Any:
        return simplex_rows
