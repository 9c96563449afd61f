"""Sets of images with several captions each, for captioning and finetuning."""

from dataclasses import replace

from mdc.plan.registry.entry import Check, RegistryEntry, RemoteFile

_COCO = "http://images.cocodataset.org/"
_DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
_FLICKR_TERMS = (
    "The images belong to their Flickr uploaders; they are offered for non-commercial research and education."
)

# Karpathy's splits of all three sets are one archive of dataset_coco.json, dataset_flickr30k.json, dataset_flickr8k.json
_KARPATHY = RemoteFile(
    "caption_datasets.zip",
    "https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip",
    bytes=36745453,
    sha256="4cfd70132527b80933105e5829dc9034eaab9573482e2e680abbab6130244817",
    unpack="zip",
)


def _coco(name: str, folder: str, bytes_: int, sha256: str, part: str) -> RemoteFile:
    return RemoteFile(name, f"{_COCO}{folder}/{name}", bytes=bytes_, sha256=sha256, unpack="zip", part=part)


_COCO_FILES = (
    _coco(
        "train2014.zip",
        "zips",
        13510573713,
        "ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775",
        "2014",
    ),
    _coco(
        "val2014.zip", "zips", 6645013297, "fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0", "2014"
    ),
    _coco(
        "annotations_trainval2014.zip",
        "annotations",
        252872794,
        "031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
        "2014",
    ),
    _coco(
        "train2017.zip",
        "zips",
        19336861798,
        "69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929",
        "train2017",
    ),
    _coco(
        "val2017.zip", "zips", 815585330, "4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05", "val2017"
    ),
    _coco(
        "annotations_trainval2017.zip",
        "annotations",
        252907541,
        "113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
        "annotations2017",
    ),
    replace(_KARPATHY, part="karpathy"),
)

_FLICKR8K = "https://github.com/jbrownlee/Datasets/releases/download/Flickr8k/"
_FLICKR8K_FILES = (
    RemoteFile(
        "Flickr8k_Dataset.zip",
        _FLICKR8K + "Flickr8k_Dataset.zip",
        md5="f18a1e2920de5bd84dae7cf08ec78978",
        unpack="zip",
    ),
    RemoteFile(
        "Flickr8k_text.zip", _FLICKR8K + "Flickr8k_text.zip", md5="bf6c1abcb8e4a833b7f922104de18627", unpack="zip"
    ),
    _KARPATHY,
)

_CUB_FILES = (
    RemoteFile(
        "CUB_200_2011.tgz",
        "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz?download=1",
        bytes=1150585339,
        sha256="0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
        md5="97eceeb196236b17998738112f37df78",
        unpack="tar",
    ),
    RemoteFile(
        "cvpr2016_cub.tar.gz",
        _DRIVE + "0B0ywwgffWnLLZW9uVHNjb2JmNlE",
        unpack="tar",
        only="text_c10 trainvalclasses.txt testclasses.txt",
        part="captions",
    ),
)

ENTRIES = (
    RegistryEntry(
        name="mscoco",
        label="MSCOCO",
        paper_label="MSCOCO",
        used_for=("captioning", "compositionality"),
        origin="files",
        url="https://cocodataset.org/",
        citation="Lin et al., 2014",
        reference="Microsoft COCO: Common Objects in Context, ECCV; split: Karpathy and Fei-Fei, CVPR 2015",
        licence="CC BY 4.0",
        licence_note="Its terms: the annotations are CC BY 4.0; the images are their Flickr owners', under Flickr's terms.",
        items={"train": 113287, "val": 5000, "test": 5000},
        note="Items of the Karpathy split, which joins restval to train. The images of 2017 are those of 2014, split in another "
        "way: without datasets.mscoco.parts both are fetched, 20 GB more than one of them.",
        files=_COCO_FILES,
        checks=(
            Check("files", "train2014/*.jpg", 82783, part="2014"),
            Check("files", "val2014/*.jpg", 40504, part="2014"),
            Check("json", "annotations/captions_train2014.json", 414113, key="annotations", part="2014"),
            Check("json", "annotations/captions_val2014.json", 202654, key="annotations", part="2014"),
            Check("files", "train2017/*.jpg", 118287, part="train2017"),
            Check("files", "val2017/*.jpg", 5000, part="val2017"),
            Check("json", "annotations/captions_train2017.json", 591753, key="annotations", part="annotations2017"),
            Check("json", "annotations/captions_val2017.json", 25014, key="annotations", part="annotations2017"),
            Check("json", "dataset_coco.json", 123287, key="images", part="karpathy"),
        ),
    ),
    RegistryEntry(
        name="flickr30k",
        label="Flickr30k",
        paper_label="Flickr30k",
        used_for=("captioning", "compositionality"),
        origin="own copy",
        url="https://shannon.cs.illinois.edu/DenotationGraph/",
        citation="Plummer et al., 2015",
        reference="Young et al.: From image descriptions to visual denotations, TACL 2014; Plummer et al.: Flickr30k "
        "Entities, ICCV 2015",
        licence="Custom (Academic use only)",
        licence_note=_FLICKR_TERMS,
        items={"train": 29000, "val": 1014, "test": 1000},
        note="Items of the Karpathy split, whose file is fetched. No checksum of the images is published.",
        files=(_KARPATHY,),
        own_copy="ask for the images with the form at https://forms.illinois.edu/sec/229675, unpack them into "
        "{path}/flickr30k-images/, or name the folder that holds flickr30k-images/ in datasets.{name}.path",
        needs=("flickr30k-images",),
        checks=(
            Check("files", "flickr30k-images/*.jpg", 31783),
            Check("json", "dataset_flickr30k.json", 31014, key="images"),
        ),
    ),
    RegistryEntry(
        name="flickr8k",
        label="Flickr8k",
        used_for=("pretraining", "captioning"),
        origin="files",
        url="https://hockenmaier.cs.illinois.edu/8k-pictures.html",
        citation="Hodosh et al., 2013",
        reference="Framing Image Description as a Ranking Task: Data, Models and Evaluation Metrics, JAIR",
        licence="Custom (Non-commercial research and education)",
        licence_note=_FLICKR_TERMS,
        items={"train": 6000, "val": 1000, "test": 1000},
        note="The authors no longer offer it for download; the files are a copy at GitHub, with the md5 that others publish.",
        files=_FLICKR8K_FILES,
        checks=(
            Check("files", "Flicker8k_Dataset/*.jpg", 8091),
            Check("lines", "Flickr8k.token.txt", 40460),
            Check("lines", "Flickr_8k.trainImages.txt", 6000),
            Check("lines", "Flickr_8k.devImages.txt", 1000),
            Check("lines", "Flickr_8k.testImages.txt", 1000),
            Check("json", "dataset_flickr8k.json", 8000, key="images"),
        ),
    ),
    RegistryEntry(
        name="cub200",
        label="CUB-200-2011",
        used_for=("captioning",),
        origin="files",
        url="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        citation="Wah et al., 2011",
        reference="The Caltech-UCSD Birds-200-2011 Dataset, CNS-TR-2011-001; captions: Reed et al.: Learning Deep "
        "Representations of Fine-Grained Visual Descriptions, CVPR 2016",
        licence="none stated in the archive",
        licence_note="The archive's README names no licence and asks to cite the report; the captions come without one.",
        items={"train": 5994, "test": 5794},
        note="Nobody publishes size or checksum of the captions' archive, which Google Drive may refuse to hand out: "
        "then fetch it in a browser and put it into archives/ as cvpr2016_cub.tar.gz.",
        files=_CUB_FILES,
        checks=(
            Check("folders", "CUB_200_2011/images/*", 200),
            Check("files", "CUB_200_2011/images/*/*.jpg", 11788),
            Check("lines", "CUB_200_2011/images.txt", 11788),
            Check("lines", "CUB_200_2011/train_test_split.txt", 11788),
            Check("files", "text_c10/*/*.txt", 11788, part="captions"),
            Check("lines", "trainvalclasses.txt", 150, part="captions"),
            Check("lines", "testclasses.txt", 50, part="captions"),
        ),
    ),
)
