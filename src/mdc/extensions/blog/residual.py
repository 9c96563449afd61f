"""The residual network of ResNet backbones."""

from torch import Tensor, nn

from mdc.extensions.blog.kinds import ResNet
from mdc.models.initial import seeded
from mdc.models.pixel_encoder import PixelEncoder

ATTENDS = False
_GROUPS = 32  # Wu and He's, which divides every width


class Encoder(PixelEncoder):
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

    @property
    def layers(self) -> list[nn.Module]:
        return [block for stage in self.tower[1:] for block in stage]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, 3, S, S) normalised → their mean place (B, D), places (B, M, D)."""
        places = self.tower(images).flatten(2).transpose(1, 2)
        return places.mean(dim=1), places
