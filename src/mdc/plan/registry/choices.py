"""Choice sets: images, each with a right caption among wrong ones."""

from mdc.plan.registry.entry import Check, Mirror, RegistryEntry, RemoteFile

_DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="

# task: items, bytes, sha256
_SUGARCREPE = {
    "add_att": (692, 158863, "012d88d729693d193760e6f3393b06a1cf874380a9db0062e937201199fe044d"),
    "add_obj": (2062, 484593, "1b9d76b93139a937b8dc1ada92a4f05ecc821bb3c291d752428bafadd4bb0682"),
    "replace_att": (788, 176843, "9fe55fd4c0a9ad1f85d486d9f6d0215b41f867eb025026e7f7b5ce44352545ee"),
    "replace_obj": (1652, 361126, "9d299600639947e9d15281a9ded1382b376cf4ea088a8d08a1314bfe76e81898"),
    "replace_rel": (1406, 312629, "356bcc2fc4c6aed3f4d9fd50acc58489bb1fe70c28791f9368d4cbf9ea39cdc9"),
    "swap_att": (666, 154665, "7a7ce04e5c4c80412b48c6f0c1347fb1a2f5d54c0be6aa429b64d390e442f8d0"),
    "swap_obj": (245, 57569, "073cdb8e253d053614e80710834d9773b09dbc1dd0a412f6f9492262caa1dcad"),
}
_SUGARCREPE_FILES = tuple(
    RemoteFile(
        f"{task}.json",
        f"https://raw.githubusercontent.com/RAIVNLab/sugar-crepe/main/data/{task}.json",
        bytes=size,
        sha256=sha256,
    )
    for task, (_, size, sha256) in _SUGARCREPE.items()
)

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

ENTRIES = (
    RegistryEntry(
        name="aro",
        label="ARO",
        paper_label="ARO",
        used_for=("compositionality",),
        origin="files",
        url="https://github.com/mertyg/vision-language-models-are-bows",
        citation="Yuksekgonul et al., 2022",
        reference="When and why vision-language models behave like bags-of-words, and what to do about it?, ICLR 2023",
        licence="MIT License",
        licence_note="Its repository: MIT. The images are Visual Genome's, which is CC BY 4.0.",
        items={"VG-Relation": 23937, "VG-Attribution": 28748},
        note="COCO-Order and Flickr30k-Order are made from the captions of MSCOCO and Flickr30k. Nobody publishes sizes or "
        "checksums of the three files, which Google Drive may refuse to hand out: then fetch them in a browser and put "
        "them in place.",
        files=(
            RemoteFile("visual_genome_relation.json", _DRIVE + "1kX2iCHEv0CADL8dSO1nMdW-V0NqIAiP3"),
            RemoteFile("visual_genome_attribution.json", _DRIVE + "13tWvOrNOLHxl3Rm9cR3geAdHx2qR3-Tw"),
            RemoteFile("vgr_vga_images.zip", _DRIVE + "1qaPlrwhGNMrR3a11iopZUT_GPP_LrgP9", unpack="zip"),
        ),
        checks=(
            Check("json", "visual_genome_relation.json", 23937),
            Check("json", "visual_genome_attribution.json", 28748),
            Check("files", "images/*.jpg", 1, at_least=True),
        ),
    ),
    RegistryEntry(
        name="sugarcrepe",
        label="SugarCrepe",
        paper_label="SugarCrepe",
        used_for=("compositionality",),
        origin="files",
        url="https://github.com/RAIVNLab/sugar-crepe",
        citation="Hsieh et al., 2023",
        reference="SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality, NeurIPS",
        licence="MIT License",
        licence_note="Its repository: MIT. The images are MSCOCO's val2017.",
        items={task: items for task, (items, _, _) in _SUGARCREPE.items()},
        note="Needs MSCOCO's val2017 beside it.",
        files=_SUGARCREPE_FILES,
        checks=tuple(Check("json", f"{task}.json", items) for task, (items, _, _) in _SUGARCREPE.items()),
    ),
    RegistryEntry(
        name="winoground",
        label="Winoground",
        used_for=("compositionality",),
        origin="own copy",
        url="https://huggingface.co/datasets/facebook/winoground",
        citation="Thrush et al., 2022",
        reference="Winoground: Probing Vision and Language Models for Visio-Linguistic Compositionality, CVPR",
        licence="Custom (META IMAGES RESEARCH LICENSE)",
        licence_note="Its card: for research purposes alone, after its terms were accepted; the full text is among its files.",
        items={"test": 400},
        size_bytes=367365762,
        note="Gated: accept the terms on its page, then run `hf auth login`; `from: mirror` fetches it. Size as its card says.",
        own_copy="accept the terms at https://huggingface.co/datasets/facebook/winoground and put its data/ into {path}/, or set "
        "datasets.{name}.from: mirror",
        needs=("data",),
        mirror=Mirror("facebook/winoground", "main", ("data/test-*.parquet",)),
        checks=(
            Check("files", "data/test-*.parquet", 1, at_least=True),
            Check("files", "mirror/data/test-*.parquet", 1, of="mirror", at_least=True),
        ),
    ),
)
