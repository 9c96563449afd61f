"""The vision encoder: OpenCLIP's vision transformer, as a sequence of visual tokens (paper, section 3.2)."""

from torch import Tensor, nn

from mdc.models.initial import seeded
from mdc.models.open_clip_parts import load
from mdc.models.pixel_encoder import PixelEncoder
from mdc.plan.config.kinds.backbones import Backbone

ATTENDS = True


class Encoder(PixelEncoder):
    """Images to a [CLS] feature and patch tokens, both taken after the final norm and before any projection.

    B images, S×S pixels, M = (S / patch_size)² patches, D the tower's width.
    """

    def __init__(self, backbone: Backbone, seed: int) -> None:
        super().__init__()
        self.width = backbone.width
        with seeded(seed, "encoder"):
            self.tower = load("transformer").VisionTransformer(
                image_size=backbone.image_size,
                patch_size=backbone.patch_size,
                width=backbone.width,
                layers=backbone.layers,
                heads=backbone.heads,
                mlp_ratio=4.0,
                output_dim=backbone.embed_dim,
                output_tokens=True,
            )
        # Only CLIP projects its features. The projection belongs to its own model, so that every method has the same encoder.
        self.tower.proj = None

    @property
    def layers(self) -> list[nn.Module]:
        return [*self.tower.transformer.resblocks]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, 3, S, S) normalised → [CLS] (B, D), patch tokens (B, M, D)."""
        cls, patches = self.tower(images)
        return cls, patches


def pool(cls: Tensor, patches: Tensor, pooling: str) -> Tensor:
    """The feature (B, D) that is probed: the mean of patch tokens for captioners, [CLS] for CLIP (paper, section 4.2)."""
    if pooling == "patch_mean":
        return patches.mean(dim=1)
    if pooling == "cls":
        return cls
    raise ValueError(f"pooling {pooling!r} is not patch_mean or cls")


def build_encoder(backbone: Backbone, seed: int) -> PixelEncoder:
    """The encoder with the initial weights of ``seed``. Every method starts from it, and it is the untrained control."""
    encoder: PixelEncoder = backbone.load().Encoder(backbone, seed)
    return encoder
