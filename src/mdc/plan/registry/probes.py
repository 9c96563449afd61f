"""Labelled image sets for linear probes. Archives are unpacked to the folders that torchvision's classes expect."""

from __future__ import annotations

from typing import Any

from mdc.plan.registry.entry import Check, RegistryEntry, RemoteFile

_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_PETS = "https://www.robots.ox.ac.uk/~vgg/data/pets/data/"
_FLOWERS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
_VOC = "https://thor.robots.ox.ac.uk/pascal/VOC/voc2007/"
_NO_LICENCE = "Its page names no licence; it asks to cite"
_OF_BOTH_CIFAR: dict[str, Any] = {
    "used_for": ("probe",),
    "origin": "files",
    "url": "https://www.cs.toronto.edu/~kriz/cifar.html",
    "citation": "Krizhevsky et al., 2009",
    "reference": "Learning Multiple Layers of Features from Tiny Images, technical report",
    "licence": "MIT License",
    "licence_note": f"{_NO_LICENCE} the technical report.",
    "items": {"train": 50000, "test": 10000},
}

ENTRIES = (
    RegistryEntry(
        name="imagenet1k",
        label="ImageNet-1k",
        paper_label="ImageNet-1k",
        used_for=("probe",),
        origin="own copy",
        url="https://image-net.org/download.php",
        citation="Russakovsky et al., 2015",
        reference="ImageNet Large Scale Visual Recognition Challenge, IJCV",
        licence="Custom (Non-commercial, research only)",
        licence_note="Its terms of access: non-commercial research and educational use only, after registering.",
        items={"train": 1281167, "val": 50000},
        size_bytes=147897477120 + 6744924160,
        own_copy="register at https://image-net.org/download.php, get ILSVRC2012_img_train.tar and "
        "ILSVRC2012_img_val.tar, sort them into {path}/train/<wnid>/*.JPEG and {path}/val/<wnid>/*.JPEG, or name the "
        "folder where you have them in datasets.{name}.path",
        needs=("train", "val"),
        checks=(
            Check("folders", "train/*", 1000),
            Check("folders", "val/*", 1000),
            Check("files", "train/*/*.JPEG", 1281167),
            Check("files", "val/*/*.JPEG", 50000),
        ),
    ),
    RegistryEntry(
        name="stl10",
        label="STL-10",
        paper_label="STL-10",
        used_for=("probe",),
        origin="files",
        url="https://cs.stanford.edu/~acoates/stl10/",
        citation="Coates et al., 2011",
        reference="An Analysis of Single Layer Networks in Unsupervised Feature Learning, AISTATS",
        licence="BSD License",
        licence_note=f"{_NO_LICENCE} the paper; its images were taken from ImageNet's labelled ones.",
        items={"train": 5000, "test": 8000, "unlabelled": 100000},
        files=(
            RemoteFile(
                "stl10_binary.tar.gz",
                "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
                bytes=2640397119,
                sha256="f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
                md5="91f7769df0f17e558f3565bffb0c7dfb",
                unpack="tar",
            ),
        ),
        checks=(
            Check("md5", "stl10_binary/train_X.bin", "918c2871b30a85fa023e0c44e0bee87f"),
            Check("md5", "stl10_binary/train_y.bin", "5a34089d4802c674881badbb80307741"),
            Check("md5", "stl10_binary/test_X.bin", "7f263ba9f9e0b06b93213547f721ac82"),
            Check("md5", "stl10_binary/test_y.bin", "36f9794fa4beb8a2c72628de14fa638e"),
        ),
    ),
    RegistryEntry(
        name="food101",
        label="Food101",
        paper_label="Food101",
        used_for=("probe",),
        origin="files",
        url="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
        citation="Bossard et al., 2014",
        reference="Food-101: Mining Discriminative Components with Random Forests, ECCV",
        licence="MIT License",
        licence_note="The archive's own terms: the images are Foodspotting's; any use beyond scientific fair use must be "
        "agreed with their owners.",
        items={"train": 75750, "test": 25250},
        files=(
            RemoteFile(
                "food-101.tar.gz",
                "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
                bytes=4996278331,
                sha256="d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
                md5="85eeb15f3717b99a5da872d97d918f87",
                unpack="tar",
            ),
        ),
        checks=(
            Check("folders", "food-101/images/*", 101),
            Check("files", "food-101/images/*/*.jpg", 101000),
            Check("json", "food-101/meta/train.json", 101),
            Check("json", "food-101/meta/test.json", 101),
        ),
    ),
    RegistryEntry(
        name="voc2007",
        label="VOC2007",
        paper_label="VOC2007",
        used_for=("probe",),
        origin="files",
        url="http://host.robots.ox.ac.uk/pascal/VOC/voc2007/",
        citation="Everingham et al., 2010",
        reference="The PASCAL Visual Object Classes (VOC) Challenge, IJCV",
        licence="CC BY 4.0",
        licence_note="Its page names no licence; the images are from flickr, whose terms of use hold.",
        items={"train": 2501, "val": 2510, "test": 4952},
        note="The probe trains on train, which is all that CLIP-benchmark has besides test; others also train on val.",
        files=(
            RemoteFile(
                "VOCtrainval_06-Nov-2007.tar",
                _VOC + "VOCtrainval_06-Nov-2007.tar",
                bytes=460032000,
                md5="c52e279531787c972589f7e41ab4ae64",
                unpack="tar",
            ),
            RemoteFile(
                "VOCtest_06-Nov-2007.tar",
                _VOC + "VOCtest_06-Nov-2007.tar",
                bytes=451020800,
                md5="b6e924de25625d8de591ea690078ad9f",
                unpack="tar",
            ),
        ),
        checks=(
            Check("files", "VOCdevkit/VOC2007/JPEGImages/*.jpg", 9963),
            Check("files", "VOCdevkit/VOC2007/Annotations/*.xml", 9963),
            Check("lines", "VOCdevkit/VOC2007/ImageSets/Main/train.txt", 2501),
            Check("lines", "VOCdevkit/VOC2007/ImageSets/Main/test.txt", 4952),
        ),
    ),
    RegistryEntry(
        name="cifar10",
        label="CIFAR-10",
        paper_label="CIFAR-10",
        **_OF_BOTH_CIFAR,
        files=(
            RemoteFile(
                "cifar-10-python.tar.gz",
                _CIFAR + "cifar-10-python.tar.gz",
                bytes=170498071,
                sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                md5="c58f30108f718f92721af3b95e74349a",
                unpack="tar",
            ),
        ),
        checks=(
            Check("md5", "cifar-10-batches-py/data_batch_1", "c99cafc152244af753f735de768cd75f"),
            Check("md5", "cifar-10-batches-py/data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
            Check("md5", "cifar-10-batches-py/data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
            Check("md5", "cifar-10-batches-py/data_batch_4", "634d18415352ddfa80567beed471001a"),
            Check("md5", "cifar-10-batches-py/data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
            Check("md5", "cifar-10-batches-py/test_batch", "40351d587109b95175f43aff81a1287e"),
            Check("md5", "cifar-10-batches-py/batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
        ),
    ),
    RegistryEntry(
        name="cifar100",
        label="CIFAR-100",
        paper_label="CIFAR-100",
        **_OF_BOTH_CIFAR,
        files=(
            RemoteFile(
                "cifar-100-python.tar.gz",
                _CIFAR + "cifar-100-python.tar.gz",
                bytes=169001437,
                sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                md5="eb9058c3a382ffc7106e4002c42a8d85",
                unpack="tar",
            ),
        ),
        checks=(
            Check("md5", "cifar-100-python/train", "16019d7e3df5f24257cddd939b257f8d"),
            Check("md5", "cifar-100-python/test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),
            Check("md5", "cifar-100-python/meta", "7973b15100ade9c7d40fb424638fde48"),
        ),
    ),
    RegistryEntry(
        name="flowers102",
        label="Flowers102",
        paper_label="Flowers",
        used_for=("probe",),
        origin="files",
        url="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        citation="Nilsback and Zisserman, 2008",
        reference="Automated Flower Classification over a Large Number of Classes, ICVGIP",
        licence="CC BY 4.0",
        licence_note=f"{_NO_LICENCE} the paper.",
        items={"train": 1020, "val": 1020, "test": 6149},
        files=(
            RemoteFile(
                "102flowers.tgz",
                _FLOWERS + "102flowers.tgz",
                bytes=344862509,
                sha256="2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
                md5="52808999861908f626f3c1f4e79d11fa",
                unpack="tar",
                into="flowers-102",
            ),
            RemoteFile(
                "imagelabels.mat",
                _FLOWERS + "imagelabels.mat",
                bytes=502,
                sha256="4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
                md5="e0620be6f572b9609742df49c70aed4d",
                into="flowers-102",
            ),
            RemoteFile(
                "setid.mat",
                _FLOWERS + "setid.mat",
                bytes=14989,
                sha256="46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
                md5="a5357ecc9cb78c4bef273ce3793fc85c",
                into="flowers-102",
            ),
        ),
        checks=(
            Check("files", "flowers-102/jpg/*.jpg", 8189),
            Check("md5", "flowers-102/imagelabels.mat", "e0620be6f572b9609742df49c70aed4d"),
            Check("md5", "flowers-102/setid.mat", "a5357ecc9cb78c4bef273ce3793fc85c"),
        ),
    ),
    RegistryEntry(
        name="pets",
        label="Oxford-IIIT Pets",
        paper_label="Pets",
        used_for=("probe",),
        origin="files",
        url="https://www.robots.ox.ac.uk/~vgg/data/pets/",
        citation="Vedaldi, 2012",
        reference="Parkhi, Vedaldi, Zisserman and Jawahar: Cats and Dogs, CVPR",
        licence="CC BY 4.0",
        licence_note="Its page: CC BY-SA 4.0; the images' copyright stays with their owners.",
        items={"trainval": 3680, "test": 3669},
        files=(
            RemoteFile(
                "images.tar.gz",
                _PETS + "images.tar.gz",
                bytes=791918971,
                sha256="67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
                md5="5c4f3ee8e5d25df40f4fd59a7f44e54c",
                unpack="tar",
                into="oxford-iiit-pet",
            ),
            RemoteFile(
                "annotations.tar.gz",
                _PETS + "annotations.tar.gz",
                bytes=19173078,
                sha256="52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
                md5="95a8c909bbe2e81eed6a22bccdf3f68f",
                unpack="tar",
                into="oxford-iiit-pet",
            ),
        ),
        checks=(
            Check("files", "oxford-iiit-pet/images/*.jpg", 7390),
            Check("lines", "oxford-iiit-pet/annotations/trainval.txt", 3680),
            Check("lines", "oxford-iiit-pet/annotations/test.txt", 3669),
        ),
    ),
)
