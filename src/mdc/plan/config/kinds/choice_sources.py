"""Sources of choice sets: a class for each kind, with its keys."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.kinds.sources import OfDataset
from mdc.plan.config.references import DATASET
from mdc.plan.config.types import DataPath, NonNegative, Positive, Strict

_SYMMETRIC = (
    "adjusting, attached to, between, bigger than, biting, boarding, brushing, chewing, cleaning, climbing, close to, "
    "coming from, coming out of, contain, crossing, dragging, draped over, drinking, drinking from, driving, "
    "driving down, driving on, eating from, eating in, enclosing, exiting, facing, filled with, floating in, "
    "floating on, flying, flying above, flying in, flying over, flying through, full of, going down, going into, "
    "going through, grazing in, growing in, growing on, guiding, hanging from, hanging in, hanging off, hanging over, "
    "higher than, holding onto, hugging, in between, jumping off, jumping on, jumping over, kept in, larger than, "
    "leading, leaning over, leaving, licking, longer than, looking in, looking into, looking out, looking over, "
    "looking through, lying next to, lying on top of, making, mixed with, mounted on, moving, on the back of, "
    "on the edge of, on the front of, on the other side of, opening, painted on, parked at, parked beside, parked by, "
    "parked in, parked in front of, parked near, parked next to, perched on, petting, piled on, playing, playing in, "
    "playing on, playing with, pouring, reaching for, reading, reflected on, riding on, running in, running on, "
    "running through, seen through, sitting behind, sitting beside, sitting by, sitting in front of, sitting near, "
    "sitting next to, sitting under, skiing down, skiing on, sleeping in, sleeping on, smiling at, sniffing, "
    "splashing, sprinkled on, stacked on, standing against, standing around, standing behind, standing beside, "
    "standing in front of, standing near, standing next to, staring at, stuck in, surrounding, swimming in, swinging, "
    "talking to, topped with, touching, traveling down, traveling on, tying, typing on, underneath, wading in, "
    "waiting for, walking across, walking by, walking down, walking next to, walking through, working in, working on, "
    "worn on, wrapped around, wrapped in, by, of, near, next to, with, beside, on the side of, around"
)
#: relations that ARO's own notebook leaves out of its mean: those without a direction
ARO_SYMMETRIC = _SYMMETRIC.split(", ")
#: minimal number of items for an attribute pair of ARO to count
ARO_LEAST = 25


class Parts(Strict):
    """A column of Table 2 is the unweighted mean over ``parts``: its sets, or the groups within them (ARO's relations, or pairs
    of attributes). Groups with fewer than ``min_items`` items and those in ``omit`` are left out."""

    parts: Literal["sets", "groups"] = "sets"
    min_items: Positive = 1
    omit: list[str] = Field(default_factory=list)


class ChoiceSource(Kind):
    """A source of images with one right caption among several. ``paired``: each item has two images and two captions."""

    paired: ClassVar[bool] = False

    def mean_over(self) -> Parts:
        """The parts that a column over this set averages."""
        return Parts()


class ScenesChoice(ChoiceSource):
    """The built-in world: right and wrong captions, modelled on ARO (relation, attribute, order) and SugarCrepe."""

    module = "mdc.data.sources.choices.scenes"
    kind: Literal["scenes"]
    question: Literal[
        "relation",
        "attribute",
        "dense_order",
        "alt_order",
        "add_obj",
        "add_att",
        "replace_obj",
        "replace_att",
        "replace_rel",
        "swap_obj",
        "swap_att",
    ]
    items: Positive
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]
    max_words: Positive = 30

    def mean_over(self) -> Parts:
        """As ARO counts relations."""
        return Parts(parts="groups" if self.question == "relation" else "sets")


class SugarCrepeChoice(ChoiceSource, OfDataset):
    """One of SugarCrepe's seven tasks; its images are MSCOCO's val2017 (``images`` in the dataset ``images_from``)."""

    module = "mdc.data.sources.choices.sugarcrepe"
    kind: Literal["sugarcrepe"]
    dataset: Annotated[Literal["sugarcrepe"], DATASET]
    task: Literal["add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"]
    images_from: Annotated[Literal["mscoco"], DATASET] = "mscoco"
    images: DataPath = "val2017"


class AroChoice(ChoiceSource, OfDataset):
    """ARO's Visual Genome Relation or Attribution: two options, and the image is cropped to its box."""

    module = "mdc.data.sources.choices.aro"
    kind: Literal["aro"]
    dataset: Annotated[Literal["aro"], DATASET]
    task: Literal["relation", "attribution"]

    def mean_over(self) -> Parts:
        """As its own notebook does."""
        if self.task == "relation":
            return Parts(parts="groups", omit=ARO_SYMMETRIC)
        return Parts(parts="groups", min_items=ARO_LEAST)


class OrderChoice(ChoiceSource, OfDataset):
    """ARO's caption order: a caption of a Karpathy split and four permutations of its words.

    ``tagger`` is a package that the user installs: spacy with its model en_core_web_sm, as published, or textblob.
    """

    module = "mdc.data.sources.choices.caption_order"
    kind: Literal["caption_order"]
    dataset: Annotated[Literal["mscoco", "flickr30k"], DATASET]
    annotations: DataPath | None = None
    images: DataPath | None = None
    split: Literal["val", "test"] = "test"
    seed: NonNegative = 0
    max_words: Positive = 30
    tagger: Literal["spacy", "textblob"] = "spacy"


class FilesChoice(ChoiceSource):
    """One of SugarCrepe's seven files in the folder ``path``, and a parquet file with some or all of its images."""

    module = "mdc.data.sources.choices.sugarcrepe"
    kind: Literal["sugarcrepe_parquet"]
    path: DataPath
    task: Literal["add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj"]
    images: DataPath
    image_column: str = "image"
    name_column: str = "filename"


class FilesOrder(ChoiceSource):
    """ARO's caption order from MSCOCO's own annotation file ``path``, and a parquet file of images of it with their ids.

    ``per_image``: number of captions of each image, the first by id; None: all.
    """

    module = "mdc.data.sources.choices.order_parquet"
    kind: Literal["order_parquet"]
    path: DataPath
    images: DataPath
    image_column: str = "image"
    id_column: str = "image_id"
    per_image: Positive | None = None
    seed: NonNegative = 0
    max_words: Positive = 30
    tagger: Literal["spacy", "textblob"]


class TableChoice(ChoiceSource):
    """The user's own items: a table (csv, tsv, JSON lines or parquet), one row per item, with its image, the right caption and
    one or more wrong ones. Columns default to usual names (docs/own-data.md). Image names are relative to ``images`` (by default
    the table's own folder); a parquet file may hold the images themselves."""

    module = "mdc.data.sources.choices.choice_table"
    kind: Literal["choice_table"]
    path: DataPath
    images: DataPath | None = None
    image_column: str | None = None
    caption_column: str | None = None
    wrong_column: str | Annotated[list[str], Field(min_length=1)] | None = None


#: the core's kinds
CHOICES = (
    *(ScenesChoice, SugarCrepeChoice, AroChoice, OrderChoice),
    *(FilesChoice, FilesOrder, TableChoice),
)


def mean_over(sources: list[ChoiceSource]) -> Parts:
    """The parts that a column over these sets averages: their groups only if all sets have equal ``Parts``."""
    parts = [source.mean_over() for source in sources]
    return parts[0] if all(part == parts[0] for part in parts) else Parts()
