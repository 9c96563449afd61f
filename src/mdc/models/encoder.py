"""Vision encoders: OpenCLIP's vision transformer, as a sequence of visual tokens (paper, section 3.2), or a residual network."""

from torch import Tensor, nn

from mdc.models.initial import seeded
from mdc.models.open_clip_parts import load
from mdc.models.pixel_encoder import PixelEncoder
from mdc.plan.config.backbones import Backbone, ResNet

_GROUPS = 32  # Wu and He's, which divides every width


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

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, 3, S, S) normalised → [CLS] (B, D), patch tokens (B, M, D)."""
        cls, patches = self.tower(images)
        return cls, patches


class ResidualEncoder(PixelEncoder):
    """torchvision's residual network (He et al., 2016): images to the mean of the last stage's grid, in the place of [CLS], and
    to its places, row by row.

    It has group norm (Wu and He, 2018) instead of batch norm: an image's features do not depend on its batch, and neither
    accumulation nor the number of processes changes a loss. B images, S×S pixels, M = (S / stride)² places, D channels.
    """

    def __init__(self, backbone: ResNet, seed: int) -> None:
        from torchvision.models import resnet  # half a second, for which runs with another tower need not wait

        super().__init__()
        self.width = backbone.width
        stages = len(backbone.blocks)
        block = resnet.BasicBlock if backbone.block == "basic" else resnet.Bottleneck
        with seeded(seed, "encoder"):
            # torchvision builds four stages; unused ones are dropped
            tower = resnet.ResNet(
                block,
                [*backbone.blocks, *[1] * (4 - stages)],
                norm_layer=lambda channels: nn.GroupNorm(_GROUPS, channels),
            )
        stem = nn.Sequential(tower.conv1, tower.bn1, tower.relu, tower.maxpool)
        self.tower = nn.Sequential(stem, *(getattr(tower, f"layer{stage + 1}") for stage in range(stages)))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, 3, S, S) normalised → their mean place (B, D), places (B, M, D)."""
        places = self.tower(images).flatten(2).transpose(1, 2)
        return places.mean(dim=1), places


def pool(cls: Tensor, patches: Tensor, pooling: str) -> Tensor:
    """The feature (B, D) that is probed: the mean of patch tokens for captioners, [CLS] for CLIP (paper, section 4.2)."""
    if pooling == "patch_mean":
        return patches.mean(dim=1)
    if pooling == "cls":
        return cls
    raise ValueError(f"pooling {pooling!r} is not patch_mean or cls")


def build_encoder(backbone: Backbone, seed: int) -> PixelEncoder:
    """The encoder with the initial weights of ``seed``. Every method starts from it, and it is the untrained control."""
    if isinstance(backbone, ResNet):
        return ResidualEncoder(backbone, seed)
    return Encoder(backbone, seed)
