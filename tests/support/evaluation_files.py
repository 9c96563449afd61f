"""Tiny files in exactly the layouts in which the evaluation sets are published."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from data_samples import encoded

WNIDS = ("n01440764", "n01443537", "n15075141")  # the first two and the last of ImageNet-1k


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def damage(path: Path, place: str = "", *value: Any) -> None:
    """Another value at a place of a JSON file ("images.0.split"), or none there; without a place, of the whole file."""
    if not place and not value:
        path.unlink()
    elif not place:
        put(path, value[0] if isinstance(value[0], str | bytes) else json.dumps(value[0]))
    else:
        inner = content = json.loads(path.read_text())
        *way, last = place.split(".")
        for step in way:
            inner = inner[int(step) if isinstance(inner, list) else step]
        key = int(last) if isinstance(inner, list) else last
        if isinstance(inner, list):
            inner[key : key + 1] = value
        elif value:
            inner[key] = value[0]
        else:
            del inner[key]
        path.write_text(json.dumps(content))


def jpeg(seed: int) -> bytes:
    return encoded(seed, 24 + seed % 3, 20, "JPEG")


# --- CIFAR: what Python 2's cPickle and NumPy 1 wrote -----------------------------------------------------------------


def python2_pickle(value: Any) -> bytes:
    """``value`` in pickle protocol 2 with Python 2's byte strings, which no pickler of Python 3 writes."""
    return b"\x80\x02" + _python2(value) + b"."


def _python2(value: Any) -> bytes:
    match value:
        case str() | bytes():
            raw = value.encode("latin-1") if isinstance(value, str) else value
            return b"U" + bytes([len(raw)]) + raw if len(raw) < 256 else b"T" + struct.pack("<i", len(raw)) + raw
        case bool() | None:
            return {True: b"\x88", False: b"\x89", None: b"N"}[value]
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"](" + b"".join(map(_python2, value)) + b"e"
        case tuple():
            return b"(" + b"".join(map(_python2, value)) + b"t"
        case dict():
            return b"}(" + b"".join(_python2(key) + _python2(each) for key, each in value.items()) + b"u"
        case np.ndarray():
            new = b"cnumpy.core.multiarray\n_reconstruct\n" + b"(cnumpy\nndarray\n" + _python2((0,)) + b"U\x01btR"
            kind = b"cnumpy\ndtype\n" + _python2(("u1", 0, 1)) + b"R"
            kind += _python2((3, "|", None, None, None, -1, -1, 0)) + b"b"
            state = _python2(1) + _python2(value.shape) + kind + b"\x89" + _python2(value.tobytes())
            return new + b"(" + state + b"tb"
    raise TypeError(value)


def cifar(root: Path, hundred: bool = False) -> Path:
    folder = root / ("cifar-100-python" if hundred else "cifar-10-batches-py")
    names = ["train", "test"] if hundred else [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        count = 12 if hundred else 4
        content = {
            "data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
            ("fine_labels" if hundred else "labels"): [(7 * number + i) % 5 for i in range(count)],
            "batch_label": f"training batch {number}",
            "filenames": [f"leptodactylus_pentadactylus_s_{i:06d}.png" for i in range(count)],
        }
        put(folder / name, python2_pickle(content | ({"coarse_labels": [0] * count} if hundred else {})))
    words = ["airplane", "automobile", "bird", "cat", "deer"]
    if hundred:
        put(folder / "meta", python2_pickle({"fine_label_names": words, "coarse_label_names": ["x"]}))
    else:
        put(folder / "batches.meta", python2_pickle({"num_cases_per_batch": 4, "label_names": words, "num_vis": 3072}))
    return root


def stl10(root: Path) -> Path:
    rng = np.random.default_rng(5)
    for split, count in (("train", 6), ("test", 4)):
        pixels = rng.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
        put(root / "stl10_binary" / f"{split}_X.bin", pixels.tobytes())
        put(root / "stl10_binary" / f"{split}_y.bin", bytes(1 + i % 2 for i in range(count)))
    put(root / "stl10_binary" / "class_names.txt", "airplane\nbird\n")
    return root


# --- sets of image files ----------------------------------------------------------------------------------------------


def food101(root: Path) -> Path:
    base, seed = root / "food-101", 0
    for split in ("train", "test"):
        listed: dict[str, list[str]] = {}
        for name in ("waffles", "apple_pie"):  # not in the order of the labels
            listed[name] = []
            for number in (9, 3):
                seed += 1
                rel = f"{name}/{split}{number}"
                put(base / "images" / f"{rel}.jpg", jpeg(seed))
                listed[name].append(rel)
        put(base / "meta" / f"{split}.json", json.dumps(listed))
    return root


def pets(root: Path) -> Path:
    base = root / "oxford-iiit-pet"
    for split, first in (("trainval", 100), ("test", 200)):
        lines = []
        for number, (name, label) in enumerate((("Abyssinian", 1), ("american_bulldog", 2), ("Abyssinian", 1))):
            lines.append(f"{name}_{first + number} {label} {1 + (label > 1)} 1")
            put(base / "images" / f"{name}_{first + number}.jpg", jpeg(first + number))
        put(base / "annotations" / f"{split}.txt", "\n".join(lines) + "\n")
    return root


def flowers102(root: Path) -> Path:
    from scipy.io import savemat

    base = root / "flowers-102"
    for number in range(1, 9):
        put(base / "jpg" / f"image_{number:05d}.jpg", jpeg(300 + number))
    savemat(base / "imagelabels.mat", {"labels": np.array([[1, 2, 1, 2, 1, 2, 2, 1]], dtype=np.uint8)})
    ids = {"trnid": [[7, 1, 3]], "valid": [[2]], "tstid": [[8, 4, 6, 5]]}
    savemat(base / "setid.mat", {key: np.array(value, dtype=np.uint16) for key, value in ids.items()})
    return root


def voc2007(root: Path) -> Path:
    base = root / "VOCdevkit" / "VOC2007"
    # (class, difficult) of each image's objects; the last has none
    shown = {
        "train": {"000012": [("car", 0), ("dog", 1), ("car", 0)], "000017": [("person", 0)], "000023": []},
        "test": {"000001": [("dog", 0), ("person", 1)], "000002": [("car", 0)]},
    }
    for split, images in shown.items():
        for seed, (name, objects) in enumerate(images.items()):
            put(base / "JPEGImages" / f"{name}.jpg", jpeg(400 + 10 * len(split) + seed))
            xml = "".join(
                f"<object><name>{kind}</name><pose>Left</pose><truncated>0</truncated><difficult>{difficult}</difficult>"
                "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object>"
                for kind, difficult in objects
            )
            put(base / "Annotations" / f"{name}.xml", f"<annotation><filename>{name}.jpg</filename>{xml}</annotation>")
        put(base / "ImageSets" / "Main" / f"aeroplane_{split}.txt", "".join(f"{name} -1\n" for name in images))
    return root


def imagenet(root: Path) -> Path:
    seed = 500
    for split, count in (("train", 3), ("val", 2)):
        for wnid in WNIDS:
            for number in range(count):
                seed += 1
                put(root / split / wnid / f"{wnid}_{(count - number) * 7}.JPEG", jpeg(seed))
    return root


# --- captioned sets ---------------------------------------------------------------------------------------------------


def karpathy(root: Path, dataset: str = "mscoco") -> Path:
    """Four images; COCO's are in train, restval, val and test, the others' in train, train, val and test."""
    coco = dataset == "mscoco"
    images = []
    for number, split in enumerate(("train", "restval" if coco else "train", "val", "test")):
        folder = "train2014" if split == "train" else "val2014"
        filename = f"COCO_{folder}_{number:012d}.jpg" if coco else f"10000{number}.jpg"
        one = {"tokens": ["a", "dog"], "raw": f"A brown dog runs, number {number}, near the red car.", "imgid": number}
        sentences = [{**one, "sentid": 10 * number + i} for i in range(2)]
        item: dict[str, Any] = {"sentids": [s["sentid"] for s in sentences], "imgid": number, "sentences": sentences}
        item |= {"split": split, "filename": filename} | ({"filepath": folder, "cocoid": number} if coco else {})
        images.append(item)
        place = {"mscoco": folder, "flickr30k": "flickr30k-images", "flickr8k": "Flicker8k_Dataset"}[dataset]
        put(root / place / filename, jpeg(600 + number))
    name = {"mscoco": "coco"}.get(dataset, dataset)
    put(root / f"dataset_{name}.json", json.dumps({"images": images, "dataset": name}))
    return root


def coco(root: Path, year: int = 2017) -> Path:
    for split, ids in (("train", (30, 9)), ("val", (139, 285))):
        images = [{"license": 1, "file_name": f"{i:012d}.jpg", "height": 20, "width": 24, "id": i} for i in ids]
        # captions stand in another order than images, as in the published file
        told = [(i, k) for k in range(2) for i in ids[::-1]]
        notes = [{"image_id": i, "id": 100 + i + k, "caption": f"Caption {k} of {i}."} for i, k in told]
        content = {"info": {}, "licenses": [], "images": images, "annotations": notes}
        put(root / "annotations" / f"captions_{split}{year}.json", json.dumps(content))
        for i in ids:
            put(root / f"{split}{year}" / f"{i:012d}.jpg", jpeg(700 + i))
    return root


def flickr8k(root: Path) -> Path:
    names = {"train": ["b_2.jpg", "a_1.jpg"], "dev": ["c_3.jpg"], "test": ["d_4.jpg"]}
    lines = [f"{n}#{k}\tA child of {n} , number {k} .\n" for ns in names.values() for n in ns for k in (1, 0)]
    lines.append("2258277193_586949ec62.jpg.1#0\tpeople waiting in line\n")  # as in the published file
    put(root / "Flickr8k.token.txt", "".join(lines))
    for number, (split, listed) in enumerate(names.items()):
        put(root / f"Flickr_8k.{split}Images.txt", "\n".join(listed) + "\n")
        for k, name in enumerate(listed):
            put(root / "Flicker8k_Dataset" / name, jpeg(800 + 10 * number + k))
    return root


def cub(root: Path, count: int = 6) -> Path:
    names = [f"00{1 + i % 2}.Some_Bird/Some_Bird_{i:04d}_{100 + i}.jpg" for i in range(count)]
    base = root / "CUB_200_2011"
    put(base / "images.txt", "".join(f"{i} {name}\n" for i, name in enumerate(names, start=1)))
    put(base / "train_test_split.txt", "".join(f"{i} {int(i % 3 != 0)}\n" for i in range(1, count + 1)))
    for seed, name in enumerate(names):
        put(base / "images" / name, jpeg(900 + seed))
        text = "".join(f"this bird {seed} has feature {k}.\n" for k in range(10))
        put((root / "text_c10" / name).with_suffix(".txt"), text)
    put(root / "trainvalclasses.txt", "001.Some_Bird\n")
    put(root / "testclasses.txt", "002.Some_Bird\n")
    return root


# --- choice sets ------------------------------------------------------------------------------------------------------


def sugarcrepe(root: Path, images: Path) -> Path:
    items = {}
    for number in (0, 1, 4):  # numbers are left out in the published files too
        filename = f"{1000 + number:012d}.jpg"
        right, wrong = f"Two dogs and a cat {number}.", f"Two cats and a dog {number}."
        items[str(number)] = {"filename": filename, "caption": right, "negative_caption": wrong}
        put(images / filename, jpeg(1000 + number))
    put(root / "swap_obj.json", json.dumps(items))
    return root


def aro(root: Path) -> Path:
    box = {"bbox_x": 3, "bbox_y": 2, "bbox_w": 11, "bbox_h": 9}
    names = ["2373554.jpg", "2373554.jpg", "2416218.jpg"]
    items = [{"image_id": name[:-4], "image_path": name, **box} for name in names]
    relation: list[Any] = [
        {**item, "relation_name": kind, "object_1": 1, "object_2": 2}
        | {"true_caption": f"the door is {kind} the bus", "false_caption": f"the bus is {kind} the door"}
        for item, kind in zip(items, ("to the left of", "on", "on"), strict=True)
    ]
    right, wrong = (
        f"the {one} crosswalk and the {other} road" for one, other in (("white", "paved"), ("paved", "white"))
    )
    told = {"attributes": ["white", "paved"], "obj1_name": "crosswalk", "obj2_name": "road"}
    attribution = [{**item, **told, "true_caption": right, "false_caption": wrong} for item in items]
    put(root / "visual_genome_relation.json", json.dumps(relation))
    put(root / "visual_genome_attribution.json", json.dumps(attribution))
    for seed, name in enumerate(sorted(set(names))):
        put(root / "images" / name, jpeg(1100 + seed))
    return root
