"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011).

A random number is a pure function of (seed, episode, step, purpose). Nothing is advanced and nothing is shared, so a
run does not change with the order of evaluation, the engine, or the number of workers, and two agents with the same
seed meet the same individuals and the same luck.
"""

import math

import numpy as np

from ..compiler.jit import bits, from_bits, inlined, strict

# Purposes: who asks. A new use takes a new number; never reuse one.
CONTEXT = 0  # the individual's context
LUCK = 1  # next state and reward
START = 2  # initial state
TIE = 3  # which of the tied actions
EXPLORE = 4  # epsilon-greedy and uniform-random choices
NOISE = 5  # perturbed rewards
POSTERIOR = 6  # models drawn from a posterior
PERTURBATION = 7  # bonuses perturbed pair by pair and step by step
DOUBT = 8  # models drawn to see how sure a plan is
LOGGED = 9  # actions of a rule that logs: when to explore, and which action then
CORE = 10  # directions in which the parameters of a block are perturbed
LOTTERY = 11  # which of several plans is played, and where an action at random
BELIEF = 12  # models drawn to say what is believed of a plan

DRAWS = 16  # steps reserved for one gamma variate: fifteen attempts, of which one is enough 19 times in 20, and a power


@strict
def philox(k0, k1, c0, c1, c2, c3):
    """The block function: key (k0, k1), counter (c0..c3), all 32-bit words in uint64; returns four 32-bit words.

    Every product fits in 64 bits, so plain Python integers of NumPy's uint64 give the same words."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> half) ^ c1 ^ k0, b & low, (a >> half) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3


# Pasted into their callers, relaxed or not: integers and powers of two come out the same in any order.
@inlined
def words(seed, episode, step, purpose):
    """Key = seed (64 bits), counter = (episode low, episode high, step, purpose)."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    s, e = np.uint64(seed), np.uint64(episode)
    return philox(s & low, s >> half, e & low, e >> half, np.uint64(step), np.uint64(purpose))


@inlined
def uniforms(seed, episode, step, purpose):
    """Two independent uniforms on [0, 1), 53 bits each."""
    a, b, c, d = words(seed, episode, step, purpose)
    five, six = np.uint64(5), np.uint64(6)
    u = (float(a >> five) * 67108864.0 + float(b >> six)) * 1.1102230246251565e-16
    v = (float(c >> five) * 67108864.0 + float(d >> six)) * 1.1102230246251565e-16
    return u, v


@strict
def normals(seed, episode, step, purpose):
    """Two independent standard normals (Box and Muller 1958)."""
    u, v = uniforms(seed, episode, step, purpose)
    radius, angle = math.sqrt(-2.0 * math.log(1.0 - u)), 6.283185307179586 * v
    return radius * math.cos(angle), radius * math.sin(angle)


# For gamma variates: no branches and no calls, so that a loop over them is worked on several at a time. Pasted into
# strict callers only.
@inlined
def plain_log(x):
    """ln x for normal x > 0, to the last digit or so: x = 2^k (1 + f), and the series in f/(2 + f) of fdlibm."""
    n = bits(x) + 0x00095F6200000000  # so that 1 + f lies between sqrt(1/2) and sqrt(2)
    k = float((n >> 52) - 1023)
    f = from_bits((n & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = 2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)
    odd = z * (6.666666666666735130e-01 + w * odd)
    half = 0.5 * f * f
    return s * (half + odd + even) + k * 1.90821492927058770002e-10 - half + f + k * 6.93147180369123816490e-01


@inlined
def quantile(q, r):
    """The (1/2 + q)-quantile of the standard normal, r = sqrt(-ln(1/2 - |q|)) <= 5 (Wichura 1988, algorithm AS 241)."""
    x = 0.180625 - q * q
    a = ((2.5090809287301226727e3 * x + 3.3430575583588128105e4) * x + 6.7265770927008700853e4) * x
    a = (((a + 4.5921953931549871457e4) * x + 1.3731693765509461125e4) * x + 1.9715909503065514427e3) * x
    a = q * ((a + 1.3314166789178437745e2) * x + 3.3871328727963666080e0)
    b = ((5.2264952788528545610e3 * x + 2.8729085735721942674e4) * x + 3.9307895800092710610e4) * x
    b = (((b + 2.1213794301586595867e4) * x + 5.3941960214247511077e3) * x + 6.8718700749205790830e2) * x
    b = (b + 4.2313330701600911252e1) * x + 1.0
    y = r - 1.6
    c = ((7.74545014278341407640e-4 * y + 2.27238449892691845833e-2) * y + 2.41780725177450611770e-1) * y
    c = (((c + 1.27045825245236838258e0) * y + 3.64784832476320460504e0) * y + 5.76949722146069140550e0) * y
    c = (c + 4.63033784615654529590e0) * y + 1.42343711074968357734e0
    d = ((1.05075007164441684324e-9 * y + 5.47593808499534494600e-4) * y + 1.51986665636164571966e-2) * y
    d = (((d + 1.48103976427480074590e-1) * y + 6.89767334985100004550e-1) * y + 1.67638483018380384940e0) * y
    d = (d + 2.05319162663775882187e0) * y + 1.0
    middle = abs(q) <= 0.425
    c = -c if q < 0.0 else c
    return (a if middle else c) / (b if middle else d)


@inlined
def far_quantile(q, r):
    """The same for r > 5, which is one draw in 10^10."""
    y = r - 5.0
    a = ((2.01033439929228813265e-7 * y + 2.71155556874348757815e-5) * y + 1.24266094738807843860e-3) * y
    a = (((a + 2.65321895265761230930e-2) * y + 2.96560571828504891230e-1) * y + 1.78482653991729133580e0) * y
    a = (a + 5.46378491116411436990e0) * y + 6.65790464350110377720e0
    b = ((2.04426310338993978564e-15 * y + 1.42151175831644588870e-7) * y + 1.84631831751005468180e-5) * y
    b = (((b + 7.86869131145613259100e-4) * y + 1.48753612908506148525e-2) * y + 1.36929880922735805310e-1) * y
    b = (b + 5.99832206555887937690e-1) * y + 1.0
    return -a / b if q < 0.0 else a / b


@strict
def inverse_normal(p):
    """The p-quantile of the standard normal, p in (0, 1), to about fifteen digits."""
    r = math.sqrt(-plain_log(min(p, 1.0 - p)))
    return quantile(p - 0.5, r) if r <= 5.0 else far_quantile(p - 0.5, r)


@strict
def gamma(shape, seed, episode, index, purpose):
    """A gamma variate with shape > 0 and scale 1 (Marsaglia and Tsang 2000), from steps 16 index to 16 index + 15.

    Attempt i = 0, ..., 14 takes (u, v) of step 16 index + i and z = inverse_normal(max(u, 2^-54)): with d = shape - 1/3
    and w = (1 + z/sqrt(9d))^3 it accepts d w if w > 0 and ln v < z^2/2 + d - d w + d ln w (the fifteenth accepts any
    w > 0: one draw in 10^19 gets there). Shape 1 is -ln(1 - u) of the first step. A shape below 1 draws from shape + 1
    and multiplies by (1 - u)^(1/shape), u of step 16 index + 15."""
    first = index * DRAWS
    if shape == 1.0:
        return -plain_log(1.0 - uniforms(seed, episode, first, purpose)[0])
    d = shape + 2.0 / 3.0 if shape < 1.0 else shape - 1.0 / 3.0
    made = d
    for i in range(DRAWS - 1):
        u, v = uniforms(seed, episode, first + i, purpose)
        z = inverse_normal(max(u, 5.551115123125783e-17))
        w = 1.0 + 1.0 / math.sqrt(9.0 * d) * z
        if w > 0.0:
            made = d * (w * w * w)
            if not refused(v, z, d, made):
                break
    if shape < 1.0:
        u, _ = uniforms(seed, episode, first + DRAWS - 1, purpose)
        made *= (1.0 - u) ** (1.0 / shape)
    return made


@inlined
def refused(v, z, d, made):
    """Whether the attempt made = d w fails, w > 0; the first comparison settles nine of ten without a logarithm."""
    square = z * z
    return v >= 1.0 - 0.0331 * square * square and not (math.log(v) < 0.5 * square + d - made + d * math.log(made / d))


@strict
def fill_uniforms(seed, episode, first, stride, purpose, u, v):
    """u[i], v[i] <- uniforms(seed, episode, first + stride i, purpose), about six times as fast: no call is left in the
    loop, so that the compiler works on several blocks at once."""
    low, half, five, six = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(5), np.uint64(6)
    s, e = np.uint64(seed), np.uint64(episode)
    for i in range(u.shape[0]):
        k0, k1 = s & low, s >> half
        c0, c1, c2, c3 = e & low, e >> half, np.uint64(first + stride * i) & low, np.uint64(purpose)
        for _ in range(10):
            a, b = np.uint64(0xD2511F53) * (c0 & low), np.uint64(0xCD9E8D57) * (c2 & low)
            c0, c1, c2, c3 = (b >> half) ^ c1 ^ k0, b & low, (a >> half) ^ c3 ^ k1, a & low
            k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
        u[i] = (float(np.int64(c0 >> five)) * 67108864.0 + float(np.int64(c1 >> six))) * 1.1102230246251565e-16
        v[i] = (float(np.int64(c2 >> five)) * 67108864.0 + float(np.int64(c3 >> six))) * 1.1102230246251565e-16


@strict
def fill_normals(seed, episode, purpose, u, v):
    """u[i], v[i] <- the normal quantiles of `uniforms(seed, episode, 2 i, purpose)`: faster than `normals`."""
    fill_uniforms(seed, episode, 0, 2, purpose, u, v)
    for half in (u, v):
        for i in range(u.shape[0]):
            p = max(half[i], 5.551115123125783e-17)
            r = math.sqrt(-plain_log(min(p, 1.0 - p)))
            half[i] = quantile(p - 0.5, r) if r <= 5.0 else far_quantile(p - 0.5, r)


@strict
def gammas(shapes, seed, episode, purpose, u, v, z, out):
    """out[i] <- gamma(shapes[i], seed, episode, i, purpose), to the bit, in stages that are plain loops over i.

    u, v, z and out are as long as shapes; what the first attempt does not settle is left to `gamma`."""
    gammas_from(0, shapes, (seed, episode, purpose), u, v, z, out)


@strict
def gammas_from(first, shapes, stream, u, v, z, out):
    """The same for draws number first and on: out[i] <- gamma(shapes[i], seed, episode, first + i, purpose)
    with stream = (seed, episode, purpose)."""
    n, (seed, episode, purpose) = shapes.shape[0], stream
    fill_uniforms(seed, episode, first * DRAWS, DRAWS, purpose, u, v)
    for i in range(n):
        p = max(u[i], 5.551115123125783e-17)
        log = -plain_log(1.0 - u[i] if shapes[i] == 1.0 else min(p, 1.0 - p))
        z[i] = quantile(p - 0.5, math.sqrt(log))
        d = max(shapes[i] - 1.0 / 3.0, 0.5)  # shapes below 1 are left to `gamma`
        w = 1.0 + 1.0 / math.sqrt(9.0 * d) * z[i]
        out[i] = log if shapes[i] == 1.0 else d * (w * w * w)
    open_ones = 0
    for i in range(n):  # u <- the numbers of those that are not settled yet, packed without a branch
        square = z[i] * z[i]
        settled = (v[i] < 1.0 - 0.0331 * square * square) & (out[i] > 0.0) & (abs(z[i]) < 6.6) & (shapes[i] > 1.0)
        u[open_ones] = float(i)
        open_ones += int((not settled) & (shapes[i] != 1.0))
    for j in range(open_ones):
        i = int(u[j])
        d = shapes[i] - 1.0 / 3.0
        if shapes[i] < 1.0 or not out[i] > 0.0 or not abs(z[i]) < 6.6 or refused(v[i], z[i], d, out[i]):
            out[i] = gamma(shapes[i], seed, episode, first + i, purpose)


@strict
def mix(key, index):
    """A 32-bit word from a 32-bit key and an index: the finaliser of MurmurHash3 on their sum.

    For tie-breaking only, where one Philox word keys a whole plan: two multiplications instead of twenty."""
    low = np.uint64(0xFFFFFFFF)
    h = (key + np.uint64(index) * np.uint64(0x9E3779B9)) & low
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    return h ^ (h >> np.uint64(16))


@inlined
def tie_key(seed, k):
    """The word that breaks this episode's ties."""
    return words(seed, k, 0, TIE)[0]
