"""Pretrained image tokenizers."""

from mdc.plan.registry.entry import Check, RegistryEntry

ENTRIES = (
    RegistryEntry(
        name="vqgan_gumbel_f8",
        label="VQGAN OpenImages (f=8, Gumbel)",
        used_for=("codes of images",),
        origin="own copy",
        url="https://github.com/CompVis/taming-transformers",
        citation="Esser et al., 2021",
        reference="Esser et al.: Taming transformers for high-resolution image synthesis, CVPR 2021",
        licence="Unspecified",
        licence_note="The code is under the MIT License; of the weights, which were trained on OpenImages, nothing is said.",
        items={"codes": 8192},
        note="A model's weights, not images. No checksum is published.",
        own_copy='get last.ckpt of "VQGAN OpenImages (f=8), 8192, GumbelQuantization", to which the README of '
        "taming-transformers links (https://heibox.uni-heidelberg.de/d/2e5662443a6b4307b470/), and put it into {path}, or "
        "name the folder that holds it in datasets.{name}.path",
        needs=("last.ckpt",),
        checks=(Check("files", "last.ckpt", 1),),
    ),
)
