"""Image–text pairs to pretrain on."""

from mdc.plan.registry.entry import Check, ListColumns, Mirror, RegistryEntry, RemoteFile

_GOOGLE = (
    "Its page: may be freely used for any purpose, acknowledging Google LLC would be appreciated; provided as is. "
    "The images are under their own owners' terms."
)

ENTRIES = (
    RegistryEntry(
        name="cc3m",
        label="CC3M",
        paper_label="CC3M",
        used_for=("pretraining",),
        origin="urls",
        url="https://ai.google.com/research/ConceptualCaptions",
        citation="Sharma et al., 2018",
        reference="Conceptual Captions: A Cleaned, Hypernymed, Image Alt-text Dataset For Automatic Image Captioning, ACL",
        licence="Custom (Use with attribution to Google LLC)",
        licence_note=_GOOGLE,
        items={"train": 3318333, "val": 15840},
        note="No checksum of the list is published.",
        list_columns=ListColumns("tsv", header=False, caption_column=0, url_column=1),
        own_copy="download the training split, Train_GCC-training.tsv (500 MB), from "
        "https://ai.google.com/research/ConceptualCaptions/download (behind a form) and put it into {path}/list/, "
        "or name your file in datasets.{name}.list.path; datasets.{name}.from: mirror needs neither",
        needs=("list/Train_GCC-training.tsv",),
        mirror=Mirror("pixparse/cc3m-wds", "46f3d69f840e59d77d52e8decfe5baec97e94c7f", ("cc3m-train-*.tar",)),
        checks=(
            Check("lines", "list/Train_GCC-training.tsv", 3318333, of="urls"),
            # its card: 2,905,954 of 3,318,333 pairs, downloaded in December 2021, shorter side at most 512
            Check("files", "mirror/cc3m-train-*.tar", 576, of="mirror"),
        ),
    ),
    RegistryEntry(
        name="cc12m",
        label="CC12M",
        paper_label="CC12M",
        used_for=("pretraining",),
        origin="urls",
        url="https://github.com/google-research-datasets/conceptual-12m",
        citation="Changpinyo et al., 2021",
        reference="Conceptual 12M: Pushing Web-Scale Image-Text Pre-Training To Recognize Long-Tail Visual Concepts, CVPR",
        licence="Custom (Use with attribution to Google LLC)",
        licence_note=_GOOGLE,
        items={"train": 12423374},
        note="The list is about 2.7 GB; neither its exact size nor a checksum is published. The mirror holds 10,968,539 pairs.",
        list_columns=ListColumns("tsv", header=False, url_column=0, caption_column=1),
        list_files=(RemoteFile("cc12m.tsv", "https://storage.googleapis.com/conceptual_12m/cc12m.tsv", into="list"),),
        mirror=Mirror("pixparse/cc12m-wds", "796118f2eabdb9984f23f7f15d1e74d388612fc6", ("cc12m-train-*.tar",)),
        checks=(
            Check("lines", "list/cc12m.tsv", 12423374, of="urls"),
            Check("files", "mirror/cc12m-train-*.tar", 2176, of="mirror"),
        ),
    ),
    RegistryEntry(
        name="recap_datacomp_1b",
        label="Recap-DataComp-1B",
        paper_label="Recap-DataComp-10M",
        used_for=("pretraining",),
        origin="urls",
        url="https://huggingface.co/datasets/UCSC-VLAA/Recap-DataComp-1B",
        citation="Li et al., 2024b",
        reference="What If We Recaption Billions of Web Images with LLaMA-3?, arXiv:2406.08478",
        licence="CC BY 4.0",
        licence_note="Its card: cc-by-4.0, for the list and the captions; the images are under their own owners' terms. "
        "Items and size are those of the whole list of Recap-DataComp-1B.",
        items={"train": 1237983779},
        size_bytes=432778063056,
        note="Rows and size as its card says; the size is the list's alone. "
        "The paper's 5M, 10M, 20M and 30M are random subsets of it. The pinned commit is older than its publisher's clean-up: "
        "many rows with the same sha256 are a host's error image, as its maintainers say, and later commits leave them "
        "out. To pin a later one set datasets.recap_datacomp_1b.list.revision to its commit, or to main, whose commit is then "
        "looked up once and recorded. It has other rows, so give it a path of its own.",
        list_columns=ListColumns(
            "parquet",
            header=True,
            url_column="url",
            caption_column="re_caption",
            key_column="key",
            hash_column="sha256",
        ),
        list_mirror=Mirror(
            "UCSC-VLAA/Recap-DataComp-1B",
            "7c157881d01490e2aa688717ee29a1f5d6fd217e",
            ("data/train_data/train-*.parquet",),
        ),
        checks=(Check("files", "list/data/train_data/train-*.parquet", 1, of="urls", at_least=True),),
    ),
)
