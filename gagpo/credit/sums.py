"""Discounted sums towards the end of each trajectory, in O(steps) whatever the lengths."""

from __future__ import annotations

import numpy as np

from gagpo.table import StepTable

BLOCK = 32


def discounted_sums(table: StepTable, values: np.ndarray, discount: float) -> np.ndarray:
    """y_t = sum over k >= 0 of discount^k values_{t+k}, within each trajectory; (S,) float64."""
    decay = np.full(table.num_steps, discount)
    decay[table.offsets[1:] - 1] = 0.0
    return reverse_scan(values, decay)


def reverse_scan(values: np.ndarray, decay: np.ndarray) -> np.ndarray:
    """y_t = values_t + decay_t y_{t+1} for t = n - 1 ... 0, with y_n = 0; (n,) float64.

    The rows are cut into blocks of BLOCK. All blocks are scanned side by side as if nothing
    followed them; the first rows of the blocks then obey a recurrence of the same form, which is
    BLOCK times shorter, and what they carry into the block before is added. Only products of
    decays occur, never their inverse, so nothing overflows and decay = 0 is no special case.
    """
    num = len(values)
    if num <= BLOCK:
        result = np.array(values, np.float64)
        for t in range(num - 2, -1, -1):
            result[t] += decay[t] * result[t + 1]
        return result
    blocks = -(-num // BLOCK)
    result, carry = np.zeros((2, blocks * BLOCK))
    result[:num], carry[:num] = values, decay
    # Rows of these are the positions within a block, so that each pass below is contiguous.
    result = np.ascontiguousarray(result.reshape(blocks, BLOCK).T)
    carry = np.ascontiguousarray(carry.reshape(blocks, BLOCK).T)
    for t in range(BLOCK - 2, -1, -1):
        result[t] += carry[t] * result[t + 1]
        carry[t] *= carry[t + 1]
    firsts = reverse_scan(result[0], carry[0])
    result[:, :-1] += carry[:, :-1] * firsts[1:]
    return result.T.ravel()[:num]
