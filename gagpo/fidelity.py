"""How well credit agrees with the truth: measures over recorded steps, and the gradient they make.

S steps of one batch (a table), in any order. `estimate` is what an estimator says of each step, as a
rule `Credit.normalized`, which the loss uses; `truth` is A = Q - V of the policy that acted, such as
`TrueValues.advantage`. Both are (S,) float64. But for `Errors`, no measure changes when the estimate
is multiplied by a positive number, for estimators are on different scales. Where a batch holds no
signal (every estimate 0) correlation and cosine are 0; where there is nothing to find (every truth
equal, or 0), the measures are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gagpo.forks import Estimate, Sampling
from gagpo.forks import estimate as sampled_mean

FLOOR = 1e-9  # relative to the largest of its column; numbers that differ by less are equal
TOP_SHARE = 0.1


def correlation(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Pearson's correlation over the steps, in [-1, 1].

    sum (x - mean x)(A - mean A) / sqrt(sum (x - mean x)^2 sum (A - mean A)^2). 0 where the estimate
    does not vary by more than rounding, NaN where the truth does not.
    """
    estimate, truth = _columns(estimate, truth)
    x, a = (np.where(np.ptp(c) > FLOOR * np.abs(c).max(), c - c.mean(), 0.0) for c in (estimate, truth))
    return cosine(x, a)


def cosine(estimate: np.ndarray, truth: np.ndarray) -> float:
    """x · y / (|x| |y|) of two vectors, in [-1, 1]; 0 where the first is 0, NaN where the second is."""
    x, y = _columns(estimate, truth)
    lengths = float(np.linalg.norm(x)), float(np.linalg.norm(y))
    if lengths[1] == 0:
        return float("nan")
    return 0.0 if lengths[0] == 0 else float(x @ y) / (lengths[0] * lengths[1])


def sign_agreement(estimate: np.ndarray, truth: np.ndarray) -> float:
    """The share of steps whose estimate has the sign of the truth, in [0, 1].

    Steps whose true |A| is at most FLOOR times the largest are left out: there, no sign is right. An
    estimate that is 0 (by the same floor) says neither and counts one half, so that silence scores
    what a coin scores. NaN where all steps are left out.
    """
    estimate, truth = _columns(estimate, truth)
    counts = np.abs(truth) > _floor(truth)
    if not counts.any():
        return float("nan")
    said = np.where(np.abs(estimate) > _floor(estimate), np.sign(estimate), 0.0)
    return float((1 + said * np.sign(truth))[counts].mean() / 2)


def top_precision(estimate: np.ndarray, truth: np.ndarray, share: float = TOP_SHARE) -> float:
    """Of the steps that are said to matter most, the share that does: were the decisive steps found?

    With n = ceil(share * S): the n steps of largest estimated |A|, and how many of them are among
    the steps whose true |A| is at least the n-th largest. |A| and not A, since a step that lost the
    task is as decisive as one that won it; whether the sign is right, `sign_agreement` tells.
    Steps that tie for the last places of the n share them equally (the expectation over random
    orders), and all that tie for the true n-th place are in. So the truth scores 1 against itself,
    order does not matter, and an estimate that is equal everywhere scores the share of steps that
    are in, which is at least `share`. NaN where every true A is 0.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share: {share!r}; expected above 0, at most 1")
    estimate, truth = map(np.abs, _columns(estimate, truth))
    if not truth.any():
        return float("nan")
    num = int(np.ceil(share * len(truth)))
    decisive = truth >= np.partition(truth, -num)[-num] - _floor(truth)
    last = np.partition(estimate, -num)[-num]
    above = estimate > last + _floor(estimate)
    tied = ~above & (estimate >= last - _floor(estimate))
    places = (num - above.sum()) / tied.sum()
    return float((decisive[above].sum() + places * decisive[tied].sum()) / num)


def policy_gradient(
    estimate: np.ndarray, pair: np.ndarray, chance: np.ndarray, pair_state: np.ndarray
) -> np.ndarray:
    """(P,) float64, the gradient of a batch for a softmax policy with one logit for each pair.

    g(s, b) = sum over the steps in s of x_t (1[a_t = b] - pi(b | s)): the sum of x_t times the
    gradient of log pi(a_t | s_t). `pair` (S,) is the pair of state and command of each step, `chance`
    (P,) is pi and `pair_state` (P,) the state of each pair. At the start of an update, where no
    ratio is clipped, the loss has this gradient but for sign and the number of steps.
    """
    num_states = int(pair_state.max()) + 1
    of_state = np.bincount(pair_state[pair], estimate, num_states)
    return np.bincount(pair, estimate, len(chance)) - chance * of_state[pair_state]


def interval(values: Sequence[float], *, seed: int = 0, num_resamples: int = 1000) -> Estimate:
    """The mean of one number for each batch, and its 95 % bootstrap interval over the batches.

    Batches whose number is NaN are left out; NaN where fewer than two are left. For the difference
    of two estimators on the same batches, give the differences.
    """
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return Estimate(*[float("nan")] * 3)
    return sampled_mean([known], Sampling(seed=seed, interval="bootstrap", num_resamples=num_resamples))


@dataclass(frozen=True, slots=True)
class Errors:
    """Bias and spread of an estimator, as shares of the root mean square of the true A.

    Steps are compared that have the same truth by construction: one task, state, time left and
    command. m is the mean of the estimate there over all batches, and w the share of such steps.

    bias, spread          of c x, with c = sum w m A / sum w m^2: the scale at which the mean estimate
                          is closest to the truth. bias = sqrt(sum w (c m - A)^2), what no scaling
                          takes away; spread = c sqrt(sum w var x), what more batches average out
    scale                 c; 1 for an estimator that is unbiased as it stands. Negative where the
                          estimate is on average wrong; spread is then taken of |c|
    raw_bias, raw_spread  the same of x as it stands (c = 1): for estimates in units of reward
    """

    bias: Estimate
    spread: Estimate
    scale: float
    raw_bias: Estimate
    raw_spread: Estimate


def pair_errors(
    estimate: np.ndarray,
    truth: np.ndarray,
    pair: np.ndarray,
    batch: np.ndarray,
    *,
    seed: int = 0,
    num_resamples: int = 100,
) -> Errors:
    """`Errors` of S steps over several batches, with 95 % bootstrap intervals over the batches.

    `pair` (S,) int64 names the task, state, time left and command of each step, `batch` (S,) int64 its
    batch. sum w m^2 is estimated from products of different batches only, so that noise is not
    taken for bias, and pairs that occur in one batch alone are left out; a squared bias or spread
    that comes out below 0 by chance counts as 0. Raises ValueError where nothing is left.
    """
    estimate, truth = _columns(estimate, truth)
    batch = np.unique(batch, return_inverse=True)[1]
    pair = np.unique(pair, return_inverse=True)[1]
    num_batches, num_pairs = int(batch.max()) + 1, int(pair.max()) + 1

    def sums(values: np.ndarray | None) -> np.ndarray:
        found = np.bincount(batch * num_pairs + pair, values, num_batches * num_pairs)
        return found.reshape(num_batches, num_pairs).astype(np.float64)

    count, total, squared = sums(None), sums(estimate), sums(estimate**2)
    recurs = (count > 0).sum(0) > 1
    if not recurs.any():
        raise ValueError("batch: no pair occurs in two batches; expected several batches of the same tasks")
    count, total, squared = (x[:, recurs] for x in (count, total, squared))
    a = (np.bincount(pair, truth) / np.bincount(pair))[recurs]
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(num_batches, np.full(num_batches, 1 / num_batches), num_resamples)
    times = np.concatenate([np.ones((1, num_batches)), draws])  # first the batches as they are
    num, own, second = times @ count, times @ total, times @ squared
    # Products of different batches: the square of a sum without each batch's own square.
    products = own**2 - times**2 @ total**2
    possible = num**2 - times**2 @ count**2
    met = possible > 0
    num, own, second = (np.where(met, x, 0.0) for x in (num, own, second))
    steps = np.maximum(num.sum(1), 1)  # a resample of one batch alone has none; it is left out
    weight = num / steps[:, None]
    mm = (weight * products / np.where(met, possible, 1.0)).sum(1)
    xx = second.sum(1) / steps
    xa = (own * a).sum(1) / steps
    aa = (weight * a**2).sum(1)
    return _errors(mm, xx, xa, aa)


def _errors(mm: np.ndarray, xx: np.ndarray, xa: np.ndarray, aa: np.ndarray) -> Errors:
    """From the weighted means of m^2, x^2, x A and A^2: the batches as they are, then the resamples."""
    known = (mm > FLOOR * xx) & (aa > 0)
    safe_mm, safe_aa = np.where(known, mm, 1.0), np.where(aa > 0, aa, 1.0)
    scale = xa / safe_mm
    spread = np.sqrt(np.maximum(xx - mm, 0) / safe_aa)
    bias = np.sqrt(np.maximum(1 - xa**2 / (safe_mm * safe_aa), 0))
    raw = np.sqrt(np.maximum(mm - 2 * xa + aa, 0) / safe_aa)

    def found(values: np.ndarray, there: np.ndarray) -> Estimate:
        kept = values[1:][there[1:]]
        if not there[0] or len(kept) == 0:
            return Estimate(*[float("nan")] * 3)
        low, high = np.quantile(kept, [0.025, 0.975])
        return Estimate(float(values[0]), float(low), float(high))

    return Errors(
        bias=found(bias, known),
        spread=found(np.abs(scale) * spread, known),
        scale=float(scale[0]) if known[0] else float("nan"),
        raw_bias=found(raw, aa > 0),
        raw_spread=found(spread, aa > 0),
    )


def _floor(column: np.ndarray) -> float:
    return FLOOR * float(np.abs(column).max())


def _columns(estimate: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    estimate, truth = np.asarray(estimate, np.float64), np.asarray(truth, np.float64)
    if estimate.shape != truth.shape or estimate.ndim != 1 or len(truth) == 0:
        raise ValueError(
            f"estimate: shape {estimate.shape}, truth {truth.shape}; expected two equal, non-empty columns"
        )
    if not (np.isfinite(estimate).all() and np.isfinite(truth).all()):
        raise ValueError("estimate, truth: not finite; expected finite numbers")
    return estimate, truth
