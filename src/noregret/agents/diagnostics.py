"""What only somebody who knows the truth can see: did the sets hold, was optimism justified, how wide were the widths.

Counted per episode, at planning time, with cumulative totals in `COLUMNS` order:

    optimism_failures       some value V_h(s) of the plan lay below the optimal one
    set_failures            the true weights of some pair lay outside the confidence set, or a mean reward outside its
                            interval
    justified_failures      optimism failed although every set held (GLM-ORL only; unscaled, a proof says: never)
    transition_width        xi_p summed over the steps taken (1-norm; 2-norm for the linear link)
    reward_width            xi_r summed over the steps taken
    steps                   steps taken
    worst_ratio             largest squared distance / radius over pairs and episodes so far (not a total)
    excess                  V_0(s_0) as planned minus the return observed: what bound (i) adds up (`theory.bounds`)
    bonuses                 min(2 phi_h, H - h) over the steps taken, phi_h the whole bonus: what bound (ii) adds up
    mistakes                episodes whose policy was worse than optimal by more than epsilon (if epsilon was given)
    certificate             what the plan was certified to fall short by at most, at the initial state, summed
    certificate_failures    the policy fell short by more than its certificate, or its value lay outside its bounds, in
                            some state and step
    uncertified             plans whose certificate, at the initial state, was above epsilon (if epsilon was given)
    refused                 the gate of CertifiedPSRL did not let the sampler's plan pass

Every agent names the kernel that watches it, `watch_kernel`(par, state, work, truth, path, out, meter), and the columns
that mean something for it, `watch_columns`. truth: arrays of the world, which agents see nowhere else.

For agents that keep sets of one individual's logits (`local_sets`), the sets checked are those, at the contexts met;
worst_ratio is the squared distance of the true logits from their centre over rho^2, and transition_width twice `half`.
"""

from ..compiler.jit import inlined, kernel

COLUMNS = (
    "optimism_failures", "set_failures", "justified_failures", "transition_width", "reward_width", "steps",
    "worst_ratio", "excess", "bonuses", "mistakes", "certificate", "certificate_failures", "refused",
    "uncertified",
)  # fmt: skip
OPTIMISM_FAILURES, SET_FAILURES, JUSTIFIED_FAILURES, TRANSITION_WIDTH, REWARD_WIDTH, STEPS = range(6)
WORST_RATIO, EXCESS, BONUSES, MISTAKES, CERTIFICATE, CERTIFICATE_FAILURES, REFUSED, UNCERTIFIED = range(6, 14)
IN_UNITS = [REWARD_WIDTH, EXCESS, BONUSES, CERTIFICATE]  # kernels add them up with rewards in [0, 1] (`problem.scale`)
EVERYBODY = {"optimism_failures", "steps"}
WIDTHS = {"set_failures", "transition_width", "reward_width", "worst_ratio"}
SLACK = 1e-9


@kernel
def below_optimal(truth, out):
    """Whether a planned value lies below the optimal one somewhere."""
    H, S = out.policy.shape
    for h in range(H):
        for s in range(S):
            if out.values[h, s] < truth.optimal[h, s] - SLACK:
                return True
    return False


@inlined
def watch_optimism(truth, out, held, tally):
    """Whether the values are below optimal ones, whether the sets held, and the first although the second."""
    failed = below_optimal(truth, out)
    if failed:
        tally[OPTIMISM_FAILURES] += 1.0
    if not held:
        tally[SET_FAILURES] += 1.0
    if failed and held:
        tally[JUSTIFIED_FAILURES] += 1.0


@inlined
def watch_mistakes(meter):
    if meter.gap[0] > meter.epsilon[0]:
        meter.tally[MISTAKES] += 1.0


@kernel
def watch_values(par, state, work, truth, path, out, meter):
    """For agents without confidence sets of their own."""
    if below_optimal(truth, out):
        meter.tally[OPTIMISM_FAILURES] += 1.0
    meter.tally[STEPS] += out.policy.shape[0]
    watch_mistakes(meter)
