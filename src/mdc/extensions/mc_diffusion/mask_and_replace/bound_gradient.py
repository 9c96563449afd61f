"""The bound of mask-and-replace diffusion and its gradient in the logits, in one pass over them.

The bound on −log p(x_0) is the sum over the strides of :func:`.diffusion.times`, in the mean over x_t, of
KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)), and over the last stride, to s = 0, of −log p(x_0 | x_t), which is 0 at a visible
token if none is ever replaced. At T nothing of x_0 is left, so there is no other term. What both posteriors share cancels in the
divergence. With r = ᾱ_s/β̄_s there remains, at a place that is [MASK], with c = γ/γ̄_t and b_k = log(1 + r p_k),

    c [(ᾱ_s + β̄_s) log(1 + r) − β̄_s Σ_k b_k − ᾱ_s b_{x_0}],

and at one that shows j, with v = 1/(ᾱ_t[x_0 = j] + β̄_t), w as in :mod:`.diffusion` and
b_k = log(1 + r w_k/Σw),

    log(v/Σw) + q_{x_0} log(1 + r) − v [β (β̄_s Σ_k b_k + ᾱ_s b_{x_0}) + α (β̄_s + ᾱ_s[x_0 = j]) b_j].

With u = p at a place that is [MASK], u = w/Σw at one that shows a class, h_k = r u_k / (1 + r u_k), the weights A_k of b_k
above and X = Σ_k A_k h_k, the gradient of a place's part in logit k is

    surprise (p_k − [k = x_0]) + shown (p_k − u_k) + X u_k − A_k h_k,

since h_k = ∂b_k/∂log u_k, and scaling all parts of a sum alike leaves the shares unchanged.
"""

import torch
from torch import Tensor

from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import BoundWeights


class BoundOfRows:
    """Of N places: scale · bound + surprise · (−log p(x_0 | x_t)), and scale · bound alone, each summed over rows.

    x0 (N,) int64, ``weights`` (N,) each, ``surprise`` (N,) float32. ``replaces``: whether the diffusion replaces tokens.
    A call is the ``of_rows`` of :func:`mdc.models.logits.sum_over_logits`: logits (n, K) float32 become the gradient in place.
    """

    def __init__(self, x0: Tensor, weights: BoundWeights, scale: float, surprise: Tensor, replaces: bool) -> None:
        self.x0, self.weights, self.scale, self.surprise, self.replaces = x0, weights, scale, surprise, replaces
        self._room: list[Tensor] = []

    def __call__(self, logits: Tensor, rows: slice, differentiate: bool) -> Tensor:
        w, x0, extra = self.weights.of(rows), self.x0[rows, None], self.surprise[rows]
        right = logits.gather(1, x0).squeeze(1)
        top = logits.amax(dim=1)
        e = logits.sub_(top[:, None]).exp_()
        e_0, e_j = e.gather(1, x0).squeeze(1), e.gather(1, w.j[:, None]).squeeze(1)
        # the sum without j keeps its digits where p_j is nearly 1
        rest = e.scatter_(1, w.j[:, None], 0.0).sum(dim=1)
        sums = rest + e_j
        last = sums.log() + top - right
        bound, p_j = w.surprise * last, e_j / sums
        of_p = w.surprise  # of each p_k in the gradient, where k is not j
        at_j, at_0 = p_j * of_p, w.surprise
        h = None
        if self.replaces:
            w_j = p_j * w.inverse_j
            sum_w = rest / sums * w.inverse + w_j
            u_j, share = w_j / sum_w, w.inverse / sum_w  # u_k = share · p_k
            y_j = w.r * u_j
            y, room = (block[: len(e)] for block in self._blocks(e))
            torch.mul(e, (w.r * share / sums)[:, None], out=y)
            y_0 = torch.where(w.own, y_j, w.r * share * e_0 / sums)
            total = torch.log1p(y, out=room).sum(dim=1) + y_j.log1p()
            bound = bound + w.certain - w.shown * sum_w.log()
            bound = bound - w.each * total - w.at_x0 * y_0.log1p() - w.at_j * y_j.log1p()
            if differentiate:
                h = torch.div(y, torch.add(y, 1.0, out=room), out=y)
                h_0, h_j = y_0 / (1 + y_0), y_j / (1 + y_j)
                x = w.each * (h.sum(dim=1) + h_j) + w.at_x0 * h_0 + w.at_j * h_j
                of_p = of_p + w.shown + (x - w.shown) * share
                at_j = p_j * (w.surprise + w.shown) + (x - w.shown) * u_j - (w.each + w.at_j) * h_j
                at_0 = at_0 + w.at_x0 * h_0
        if differentiate:
            e.mul_(((self.scale * of_p + extra) / sums)[:, None])
            if h is not None:
                e.addcmul_(h, (self.scale * w.each)[:, None], value=-1)
            e.scatter_(1, w.j[:, None], (self.scale * at_j + extra * p_j)[:, None])
            e.scatter_add_(1, x0, -(self.scale * at_0 + extra)[:, None])
        of_bound = self.scale * bound.sum()
        return torch.stack([of_bound + (extra * last).sum(), of_bound])

    def _blocks(self, like: Tensor) -> list[Tensor]:
        """Two blocks of the size of the first chunk, which is the largest: fresh memory costs more than the arithmetic."""
        if not self._room:
            self._room = [torch.empty_like(like), torch.empty_like(like)]
        return self._room
