"""Batches, crops and features of labelled sets: the same bytes however many workers read the images, and decoded once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import toy
from data_samples import use_scenes, write_probe
from safetensors import safe_open

from mdc.data.formats.images import center_resize, decode
from mdc.data.loader import center_crops
from mdc.data.loader.batch import LabelledBatch
from mdc.data.loader.labelled import Kept, labelled_batches
from mdc.data.loader.workers import ahead
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.features import FeatureCache
from mdc.evaluation.predictors.encode import ImageEncoder
from mdc.evaluation.probe import main
from mdc.models.encoder import build_encoder
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.processes.lock import locked
from mdc.plan.processes.store import Store
from mdc.plan.records import UserError, write_json


@pytest.fixture(scope="module")
def probe_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of 70 images to train on and 23 to test on, in shards of 16."""
    path = tmp_path_factory.mktemp("probe_set") / "data/probes"
    with pytest.MonkeyPatch.context() as patch:
        use_scenes(patch)
        source = {"kind": "scenes", "task": "colour", "train": 70, "test": 23, "seed": 3, "pixels": 12}
        write_probe("colour", source, path / "colour", path, samples_per_shard=16)
    return path / "colour/index.json"


SIZE = toy.BACKBONE.image_size


def features(
    folder: Path, probe_set: Path, workers: int = 0, seed: int = 0, size: int = SIZE, **pixels: str
) -> torch.Tensor:
    backbone = toy.BACKBONE.model_copy(update={"image_size": size})
    encoder = ImageEncoder(build_encoder(backbone, seed), "patch_mean", "fp32", torch.device("cpu"))
    options = {"image_size": size, "batch_size": 9, "workers": workers, "pixels": pixels}
    cache = FeatureCache(encoder, Store(folder), identity={"weights": str(seed)}, **options)
    return cache.features(probe_set, read_index(probe_set), "train")[0]


def test_workers_change_no_batch_and_leave_the_global_generator_alone(probe_set: Path) -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    for split, count in (("train", 70), ("test", 23)):
        here, there = (list(labelled_batches(probe_set, split, image_size=8, batch_size=9, workers=w)) for w in (0, 2))
        assert [key for batch in there for key in batch.keys] == [f"{number:06d}" for number in range(count)]
        for ours, theirs in zip(here, there, strict=True):
            assert ours.keys == theirs.keys
            assert torch.equal(ours.images, theirs.images) and torch.equal(ours.labels, theirs.labels)
    assert torch.equal(torch.get_rng_state(), state)


def test_features_are_equal_to_the_bit_with_any_number_of_workers(probe_set: Path, tmp_path: Path) -> None:
    files = []
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        assert features(folder, probe_set, workers).shape == (70, toy.BACKBONE.width)
        left = sorted(folder.rglob("*.safetensors"))
        assert len(left) == 1 + 8, "the features, and the crops of each batch"
        files.append([(file.relative_to(folder), file.read_bytes()) for file in left])
    assert files[0] == files[1], "neither a feature nor a crop nor its name depends on workers"


def test_a_bad_runtime_is_one_line(probe_set: Path, tmp_path: Path) -> None:
    job = toy.probe_job(inputs=["data/probes/colour"], probes=["colour"])
    folder = ScaleFolder(probe_set.parents[3])
    for name, value in (("workers", -1), ("workers", 1.5), ("threads", 2)):
        write_json(tmp_path / "runtime.json", {name: value})
        with pytest.raises(UserError, match=rf"runtime\.json: {name}"):
            main(Call(job, folder, tmp_path / "out", runtime=tmp_path / "runtime.json"))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_sample_is_the_same_line_from_a_worker(
    probe_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    read = ShardReader.read

    def torn(self: ShardReader, number: int) -> tuple[str, bytes, dict[str, object]]:
        key, image, record = read(self, number)
        return key, image[: len(image) // 2] if number == 41 else image, record

    monkeypatch.setattr(ShardReader, "read", torn)
    with pytest.raises(UserError, match=r"^colour, split train: image of 000041 cannot be decoded \(\w+\)$"):
        features(tmp_path, probe_set, workers)
    for path in tmp_path.rglob("*.safetensors"):
        with safe_open(str(path), framework="pt") as file:
            assert len(file.get_tensor("images")) in (9, 70 % 9), "whole batches, and no features"


def test_results_keep_the_order_of_the_items_and_other_errors_stay_errors() -> None:
    assert list(ahead(_slow_when_even, range(7), 2)) == [10, 11, 12, 13, 14, 15, 16]
    assert list(ahead(_slow_when_even, range(0), 2)) == []
    with pytest.raises(ZeroDivisionError):
        list(ahead(_upside_down, [1, 0], 1))


def test_an_error_of_whoever_takes_the_results_ends_the_process_too() -> None:
    code = "from mdc.data.loader.workers import ahead\nresults = ahead(abs, range(100), 1)\nnext(results)\nraise RuntimeError"
    done = _run(code)
    assert done.returncode == 1 and done.stderr.rstrip().endswith("RuntimeError")


LONG = """
import torch
from mdc.data.loader.workers import ahead
print(sum(int(result.sum()) for result in ahead(torch.ones, [(3, 4), (5,)], 2)))
"""


def test_tensors_of_workers_arrive_where_the_temporary_folder_has_a_long_name(tmp_path: Path) -> None:
    """A socket's name has at most 107 characters."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    assert _run(LONG, TMPDIR=str(folder)).stdout == "17\n"
    nowhere = _run("import tempfile\ntempfile.mkdtemp = lambda **_: open('/none/x')" + LONG, TMPDIR=str(folder)).stderr
    assert "UserError: TMPDIR" in nowhere and str(folder) in nowhere


def test_a_result_that_cannot_be_sent_is_an_error_of_its_worker() -> None:
    code = "from mdc.data.loader.workers import ahead\nlist(ahead(lambda number: lambda: number, range(3), 1))"
    done = _run(code)
    assert done.returncode == 1 and "lambda" in done.stderr


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Of what fails only by standing still, whose limit has nothing to do with the machine's speed."""
    command, whole = [sys.executable, "-c", code], {**os.environ, **environment}
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=600)


def _slow_when_even(number: int) -> int:
    time.sleep(0.05 * (number % 2 == 0))
    return number + 10


def _upside_down(number: int) -> float:
    return 1 / number


KILLED = """
import sys, time
from pathlib import Path
from mdc.evaluation.features import FeatureCache
from mdc.data.loader import center_crops, labelled
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.processes.lock import locked
from mdc.plan.processes.store import Store
from mdc.data.shards.index import read_index

class Stopped:
    def encode(self, images):
        print("encodes", flush=True)
        time.sleep(1000)

manifest, folder = map(Path, sys.argv[1:])
cache = FeatureCache(Stopped(), Store(folder), image_size=224, batch_size=9, identity={}, pixels={}, workers=2)
with locked(folder / "locked"):
    cache.features(manifest, read_index(manifest), "train")
"""


def test_a_killed_job_leaves_nothing_half_written_and_no_worker(probe_set: Path, tmp_path: Path) -> None:
    """Though both workers wait for somebody to take a result that is larger than the pipe which it leaves by."""
    command = [sys.executable, "-c", KILLED, str(probe_set), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "encodes\n"
        workers = psutil.Process(job.pid).children()
        assert len(workers) == 2
        time.sleep(0.5)  # until both have filled it
        os.kill(job.pid, signal.SIGKILL)
    left = [path for path in tmp_path.rglob("*.safetensors") if not path.name.startswith(".")]
    assert left, "the first batch was there before it was encoded"
    for path in left:
        with safe_open(str(path), framework="pt") as file:
            assert file.get_tensor("images").shape == (9, 3, 224, 224), "crops, whole; and no features"
    _wait_for_the_end_of(workers)
    with locked(tmp_path / "locked", wait=True):  # a process has no command a moment before its files are closed
        pass


def _wait_for_the_end_of(workers: list[psutil.Process]) -> None:
    deadline = time.monotonic() + 600
    while any(map(_is_alive, workers)):
        assert time.monotonic() < deadline, "a worker outlives its job"
        time.sleep(0.2)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


# --- crops ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry an image that was decoded."""
    made: list[int] = []
    monkeypatch.setattr(center_crops, "decode", lambda data: made.append(len(data)) or decode(data))
    return made


def batches(probe_set: Path, batch_size: int, kept: Kept | None = None, image_size: int = 8) -> list[LabelledBatch]:
    return list(labelled_batches(probe_set, "train", image_size=image_size, batch_size=batch_size, kept=kept))


@pytest.mark.parametrize("batch_size", [9, 20, 33, 100])
def test_batches_are_those_of_the_images_one_by_one(probe_set: Path, tmp_path: Path, batch_size: int) -> None:
    """Decoded, decoded and kept, and read."""
    reader = ShardReader(probe_set, "train")
    samples = [reader.read(number) for number in range(70)]
    kept = Kept(Store(tmp_path), {"code": "c"})
    for found in (batches(probe_set, batch_size), *(batches(probe_set, batch_size, kept) for _ in range(2))):
        sizes = [len(batch) for batch in found]
        assert sizes == [batch_size] * (70 // batch_size) + [70 % batch_size] * bool(70 % batch_size)
        assert all(batch.images.shape == (len(batch), 3, 8, 8) for batch in found)
        assert [key for batch in found for key in batch.keys] == [key for key, _, _ in samples]
        labels = torch.cat([batch.labels for batch in found])
        assert labels.dtype == torch.int64 and labels.tolist() == [record["label"] for _, _, record in samples]
        for image, (_, data, _) in zip(torch.cat([batch.images for batch in found]), samples, strict=True):
            assert torch.equal(image, torch.from_numpy(center_resize(decode(data), 8)).permute(2, 0, 1))


def test_a_second_encoder_decodes_nothing(probe_set: Path, tmp_path: Path, decodings: list[int]) -> None:
    first = features(tmp_path, probe_set)
    assert len(decodings) == 70
    assert not torch.equal(first, features(tmp_path, probe_set, seed=1)) and len(decodings) == 70
    assert torch.equal(first, features(tmp_path, probe_set)) and len(decodings) == 70
    features(tmp_path, probe_set, size=2 * SIZE)
    assert len(decodings) == 140, "another size has crops of its own"
    features(tmp_path, probe_set, code="edited")
    assert len(decodings) == 210, "and so has other code"


def test_a_damaged_file_of_crops_is_made_again(probe_set: Path, tmp_path: Path, decodings: list[int]) -> None:
    kept = Kept(Store(tmp_path), {})
    whole = batches(probe_set, 20, kept)
    files = sorted(tmp_path.rglob("*.safetensors"), key=lambda path: path.stat().st_size)
    assert len(files) == 4
    files[-1].write_bytes(files[-1].read_bytes()[:200])
    files[0].unlink()
    decodings.clear()
    again = batches(probe_set, 20, kept)
    assert len(decodings) == 20 + 10
    assert all(torch.equal(ours.images, theirs.images) for ours, theirs in zip(whole, again, strict=True))


def test_crops_that_would_fill_the_store_are_not_kept(probe_set: Path, tmp_path: Path) -> None:
    size = 70 * 3 * 8 * 8
    for limit, files in ((2 * size - 1, 0), (2 * size, 4)):
        assert len(batches(probe_set, 20, Kept(Store(tmp_path, limit), {}))) == 4
        assert len(list(tmp_path.rglob("*.safetensors"))) == files
