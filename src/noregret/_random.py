"""Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011).

A random number is a pure function of (seed, episode, step, purpose). Nothing is advanced and nothing is shared, so a
run does not change with the order of evaluation, the engine, or the number of workers, and two agents with the same
seed meet the same individuals and the same luck.
"""

import math

import numpy as np

from ._jit import inlined, strict

# Purposes: who asks. A new use takes a new number; never reuse one.
CONTEXT = 0  # the individual's context
LUCK = 1  # next state and reward
START = 2  # initial state
TIE = 3  # which of the tied actions
EXPLORE = 4  # epsilon-greedy and uniform-random choices
NOISE = 5  # perturbed rewards


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


@strict
def mix(key, index):
    """A 32-bit word from a 32-bit key and an index: the finaliser of MurmurHash3 on their sum.

    For tie-breaking only, where one Philox word keys a whole plan: two multiplications instead of twenty."""
    low = np.uint64(0xFFFFFFFF)
    h = (key + np.uint64(index) * np.uint64(0x9E3779B9)) & low
    h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    return h ^ (h >> np.uint64(16))
