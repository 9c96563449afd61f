"""Captions by mask-and-replace diffusion with guidance: ours against a plain loop with diffusers' scheduler, in one run.

    python bench/diffuse.py [--captions N] [--repeats N] [--vocabulary N]

Both run the same network for as many steps, in fp32, on the same threads. The plain loop is written as VQ-Diffusion's pipeline
is: at each step the condition and its null pass the network one after the other, keys and values are recomputed, and diffusers'
``VQDiffusionScheduler.step`` builds the posterior of all classes and draws from it. Its constants are set to ours, so it samples
from the same distribution. Timed separately: the step alone (from log p(x_0 | x_t) to the next tokens), and whole captions.

And of training: a step of the same network by our objective, whose bound and gradient take one pass over the logits,
against the plain formula of the bound, differentiated by autograd.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rows
import torch
from diffusers import VQDiffusionScheduler
from torch import Tensor
from turns import in_turns

from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import ReplaceSchedule, bound_weights, corrupt, draw
from mdc.extensions.mc_diffusion.mask_and_replace.generate import Writer
from mdc.extensions.mc_diffusion.mask_and_replace.loss import MaskAndReplaceObjective, Noised
from mdc.extensions.mc_diffusion.mask_and_replace.method import Diffusing
from mdc.extensions.mc_diffusion.mask_and_replace.model import DiffusionCaptioner
from mdc.models.build import ModelSetup, build
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.methods import method
from mdc.plan.config.read import load
from mdc.training.objectives.objective import Setup

STEPS, LENGTH, VECTORS, WIDTH = 25, 32, 144, 64
SCALE = 2.0


def matched(schedule: ReplaceSchedule) -> VQDiffusionScheduler:
    """diffusers' scheduler with our constants; it counts times from 0."""
    scheduler = VQDiffusionScheduler(num_vec_classes=schedule.classes + 1, num_train_timesteps=schedule.steps)
    t = torch.arange(schedule.steps + 1)
    for name, bar in (("a", schedule.alpha_bar(t)), ("b", schedule.beta_bar(t)), ("c", schedule.gamma_bar(t))):
        setattr(scheduler, f"log_cumprod_{name}t", torch.cat([bar[1:], bar[:1]]).clamp(min=1e-30).log().float())
    strides = [schedule.between(s, s + 1) for s in range(schedule.steps)]
    for name, attribute in (("a", "alpha"), ("b", "beta"), ("c", "gamma")):
        setattr(
            scheduler,
            f"log_{name}t",
            torch.cat([getattr(s, attribute) for s in strides]).clamp(min=1e-30).log().float(),
        )
    return scheduler


@torch.no_grad()
def plain(model: DiffusionCaptioner, scheduler: Any, images: Tensor, schedule: ReplaceSchedule) -> Tensor:
    """Captions (B, L) of conditions ``images`` (B, M, E)."""
    generator = torch.Generator().manual_seed(0)
    everywhere = torch.ones(images.shape[:2], dtype=torch.bool)
    tokens = torch.full((len(images), LENGTH), schedule.mask_id)
    for t in range(schedule.steps, 0, -1):
        at = torch.full((len(images),), t)
        log_probs = []
        for condition in (images, model.degraded(images, everywhere)):
            hidden = model.text(tokens, at, model.remember(condition))
            log_probs.append(model.head(hidden).log_softmax(dim=-1))
        full, weak = log_probs
        guided = (weak + SCALE * (full - weak)).log_softmax(dim=-1)
        tokens = scheduler.step(guided.transpose(1, 2), t - 1, tokens, generator).prev_sample
    return tokens


def bound_terms(log_x0: Tensor, x0: Tensor, x_t: Tensor, s: Tensor, t: Tensor, schedule: ReplaceSchedule) -> Tensor:
    """Terms of the bound over the stride from t (B,) down to s (B,), (B, L), by the formula in
    :mod:`mdc.extensions.mc_diffusion.mask_and_replace.bound_gradient`."""
    w = bound_weights(x0, x_t, s, t, schedule)
    last = -log_x0.float().gather(-1, x0[..., None]).squeeze(-1)
    if not schedule.replaced:
        return w.surprise * last
    p = log_x0.float().exp()
    j = w.j[..., None]
    p_j, p_0 = p.gather(-1, j).squeeze(-1), p.gather(-1, x0[..., None]).squeeze(-1)
    rest = p.scatter(-1, j, 0.0)  # so that what is not j keeps its digits where p_j is nearly 1
    w_j = p_j * w.inverse_j
    sum_w = rest.sum(dim=-1) * w.inverse + w_j
    factor = w.r * w.inverse / sum_w
    b_j = torch.log1p(w.r * w_j / sum_w)
    b_0 = torch.where(w.own, b_j, torch.log1p(factor * p_0))
    total = torch.log1p(factor[..., None] * rest).sum(dim=-1) + b_j
    bound = w.surprise * last + w.certain - w.shown * sum_w.log()
    return bound - w.each * total - w.at_x0 * b_0 - w.at_j * b_j


def training(
    model: DiffusionCaptioner, setup: Setup, schedule: ReplaceSchedule
) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step of ours, and one by autograd, on the same captions (forward and backward, no optimiser)."""
    generator, batch = torch.Generator().manual_seed(3), setup.batch_size
    x0 = torch.randint(0, schedule.classes, (batch, LENGTH), generator=generator)
    t = torch.randint(1, schedule.steps + 1, (batch,), generator=generator)
    fate, class_draw = torch.rand(2, batch, LENGTH, generator=generator)
    noised = Noised(x0, corrupt(x0, t, schedule, fate, class_draw), t)
    images = torch.rand(batch, VECTORS, WIDTH, generator=generator)
    ours = MaskAndReplaceObjective(model, setup, LENGTH)

    def hidden() -> Tensor:
        return model.text(noised.x_t, t, model.remember(images))

    def one_walk() -> None:
        # what a run prepares beside the step before counts here, as it does of the peer
        loss, _ = ours.terms(hidden(), ours.part(images, noised))
        loss.backward()

    def by_autograd() -> None:
        log_x0 = model.head(hidden()).log_softmax(dim=-1)
        bound = schedule.steps * bound_terms(log_x0, x0, noised.x_t, t - 1, t, schedule).sum()
        weight = (0.01 * schedule.steps * (2 - t / schedule.steps))[:, None]
        (bound - (weight * log_x0.gather(-1, x0[..., None]).squeeze(-1)).sum()).backward()

    return one_walk, by_autograd


def steps(
    log_x0: Tensor, t: int, schedule: ReplaceSchedule, scheduler: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    """From log p(x_0 | x_t) (B, L, classes) to the tokens of time ``t`` - 1: our draw, and diffusers' step."""
    fate, class_draw = torch.rand(2, *log_x0.shape[:2], dtype=torch.float64, generator=torch.Generator().manual_seed(t))
    shown = torch.rand(fate.shape, generator=torch.Generator().manual_seed(2)) > float(
        schedule.gamma_bar(torch.tensor(t))
    )
    x_t = torch.where(shown, log_x0.argmax(-1), torch.full_like(shown, schedule.mask_id, dtype=torch.long))
    stride, transposed = schedule.between(t - 1, t), log_x0.transpose(1, 2).contiguous()
    generator = torch.Generator().manual_seed(0)
    return (
        lambda: draw(log_x0, x_t, stride, fate, class_draw),
        lambda: scheduler.step(transposed, t - 1, x_t, generator),
    )


def main() -> None:
    parser = rows.parser(__doc__, captions=16, repeats=3, layers=2, width=128)
    parser.add_argument("--vocabulary", type=int, default=8018, help="tokens of the vocabulary; 49408 at scale paper")
    args = rows.arguments(parser, captions=2, repeats=2, vocabulary=500)
    backbone = FrozenEncoderBackbone.model_validate(
        {
            "label": "",
            "image_size": 96,
            "frozen": {"job": "encoders/x", "config_sha256": "", "image_size": 96, "tokens": VECTORS, "width": WIDTH},
            "decoder": {"width": args.width, "layers": args.layers, "heads": 4},
        }
    )
    config = {
        "label": "",
        "objective": "mask_and_replace",
        "pooling": "patch_mean",
        "diffusion_steps": STEPS,
        "replaced": 0.1,
    }
    entry = method(**{**config, "auxiliary": 0.01, "guidance": {"kind": "cfg", "degraded": 0.1}})
    protocol = load(Path(__file__).parents[1] / "params.yaml").protocol.pretrain
    model = build(ModelSetup(entry, backbone, protocol, args.vocabulary, 77, 0)).eval()
    model.length.fill_(LENGTH)
    vocabulary = Vocabulary.corpus(range(args.vocabulary - 2))
    writer = Writer(model, vocabulary, "fp32", torch.device("cpu"), batch_tokens=1 << 20)
    schedule, scheduler = writer.schedule, matched(writer.schedule)
    images = torch.rand(args.captions, VECTORS, WIDTH, generator=torch.Generator().manual_seed(0))
    conditions, keys = writer.look(images.half()), [str(n) for n in range(args.captions)]
    policy = Diffusing(kind="diffuse", steps=STEPS, guidance=SCALE)

    log_x0 = torch.randn(
        args.captions, LENGTH, schedule.classes, generator=torch.Generator().manual_seed(1)
    ).log_softmax(-1)
    our_steps, their_steps = [], []
    for t in (STEPS, STEPS // 2, 2):
        ours_step, theirs_step = steps(log_x0, t, schedule, scheduler)
        our_steps.append(ours_step)
        their_steps.append(theirs_step)
    size = f"{args.captions} captions of {LENGTH} places, {schedule.classes} classes"
    setting = f"fp32, {rows.threads(torch.get_num_threads())}"

    def record(what: str, peer: str, unit: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        seconds = in_turns({"ours": ours, "peer": theirs}, args.repeats)
        many = 1e3 if unit == "ms" else 1
        mine, other = ([many * value for value in seconds[side]] for side in ("ours", "peer"))
        rows.write("diffuse", [rows.compared(what, peer, unit, mine, other, setting)], args.results)

    def all_of(each: list[Callable[[], object]]) -> Callable[[], object]:
        return lambda: [value() for value in each]

    what = f"3 steps of mask-and-replace diffusion, {size}"
    record(what, "diffusers' VQDiffusionScheduler", "ms", all_of(our_steps), all_of(their_steps))
    record(
        f"{STEPS} steps of mask-and-replace diffusion with guidance, {size}",
        "a plain loop with diffusers' scheduler",
        "s",
        lambda: writer.diffused(conditions, policy, keys),
        lambda: plain(model, scheduler, images, schedule),
    )
    setup = Setup(entry, protocol, vocabulary.mask_id, 32, "fp32")
    what = f"training step of mask-and-replace diffusion, 32 captions, {schedule.classes} classes"
    record(what, "the bound by autograd", "ms", *training(model.train(), setup, schedule))


if __name__ == "__main__":
    main()
