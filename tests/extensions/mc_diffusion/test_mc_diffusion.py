"""MC-Diffusion through the real jobs: a tokenizer, the codes of a corpus, captioners on them, what is made of their captions."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from shown import read_rows
from small_project import config as config_of

from mdc.app.cli import main as mdc
from mdc.data.loader.center_crops import center_crops
from mdc.data.loader.precomputed_tokens import PrecomputedTokens
from mdc.data.shards.index import ShardReader, read_index
from mdc.extensions.mc_diffusion.image_tokenizers import job as tokenizer
from mdc.extensions.mc_diffusion.image_tokenizers.codes import CodesEncoder
from mdc.extensions.mc_diffusion.image_tokenizers.gumbel_vqgan import GumbelTokenizer, renamed
from mdc.extensions.mc_diffusion.image_tokenizers.vq_vae import nearest, perplexity, pixels
from mdc.extensions.mc_diffusion.jobs import TokenizerJob
from mdc.extensions.mc_diffusion.kinds import GumbelVqgan, VqVae
from mdc.extensions.mc_diffusion.mask_and_replace.loss import build_objective
from mdc.models.encoders.tower import TOWER, read_tower
from mdc.models.runs import open_run
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.read import read_job
from mdc.plan.processes.group import SINGLE_PROCESS
from mdc.plan.processes.interrupts import Interrupted
from mdc.plan.records import UserError, read_json, sha256_file
from mdc.training.corpus import Corpus
from mdc.training.objectives.objective import Setup
from mdc.training.precompute import import_encoder

RUN = "runs/described/on-codes/mcd/s0"
CODES = "encoded/vq/described"


def _call(r: Path, job: str, verb: str, out: Path, **more: Any) -> Call:
    return Call(read_job(config_of(r, job), verb), ScaleFolder(r), out, **more)


def _tower(r: Path, backbone: str = "on-codes") -> CodesEncoder:
    found, _ = open_run(r / f"runs/described/{backbone}/mcd/s0")
    assert isinstance(found.job.backbone, FrozenEncoderBackbone) and found.tower is not None
    tower = read_tower(found.tower, found.job.backbone.frozen)
    assert isinstance(tower, CodesEncoder)
    return tower


def _job(r: Path, recipe: dict[str, Any] | None = None, **entry: Any) -> TokenizerJob:
    """The project's tokenizer with other values."""
    job: TokenizerJob = read_job(config_of(r, "tokenizers/vq"), "tokenizer")
    assert isinstance(job.entry, VqVae)
    entry["recipe"] = job.entry.recipe.model_copy(update=recipe or {})
    return job.model_copy(update={"entry": job.entry.model_copy(update=entry)})


# --- the tokenizer --------------------------------------------------------------------------------------------------------


def test_its_record_tells_how_good_the_codes_are(r: Path) -> None:
    told = read_json(r / "tokenizers/vq/tokenizer.json")
    assert told["measured_on"] == "val" and told["images"] == 16
    assert 1 <= told["perplexity"] <= told["used"] <= 16 and 3 < told["psnr"] < 60
    assert set(told["outputs"]) == {"tokenizer.safetensors", "reconstructions.png"}


@pytest.mark.usefixtures("own_copy")
def test_it_learns(r: Path) -> None:
    """With more epochs the images that its codes stand for are nearer to the images."""
    psnr = []
    for epochs in (1, 12):
        tokenizer.main(Call(_job(r, {"epochs": epochs, "lr": 3e-3}), ScaleFolder(r), Path(f"vq-{epochs}")))
        psnr.append(read_json(Path(f"vq-{epochs}/tokenizer.json"))["psnr"])
    assert psnr[1] > psnr[0] + 2


@pytest.mark.usefixtures("own_copy")
def test_an_interrupted_tokenizer_ends_in_the_same_bytes(r: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _job(r, {"epochs": 3})
    tokenizer.main(Call(job, ScaleFolder(r), Path("whole")))
    real = tokenizer.pixels

    def interrupted(images: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return real(images)

    monkeypatch.setattr(tokenizer, "pixels", interrupted)
    for done in range(1, 4):  # of two steps an epoch
        with pytest.raises(Interrupted, match=f"saved at step {done} of 6"):
            tokenizer.main(Call(job, ScaleFolder(r), Path("killed")))
    monkeypatch.setattr(tokenizer, "pixels", real)
    tokenizer.main(Call(job, ScaleFolder(r), Path("killed")))
    names = ("tokenizer.safetensors", "reconstructions.png")
    assert [sha256_file(Path("whole") / n) for n in names] == [sha256_file(Path("killed") / n) for n in names]
    assert not list(Path("killed/state").iterdir())


@pytest.mark.usefixtures("own_copy")
def test_too_few_images_are_one_line(r: Path) -> None:
    with pytest.raises(UserError, match="64 training images are too few for batches of 32 and 65 codes"):
        tokenizer.main(Call(_job(r, codes=65), ScaleFolder(r), Path("few")))


def test_the_nearest_code() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, codebook = torch.randn(50, 4, generator=generator), torch.randn(9, 4, generator=generator)
    codebook[5] = codebook[3]  # of equals the first
    expected = [min(range(9), key=lambda k, v=v: (float(((v - codebook[k]) ** 2).sum()), k)) for v in vectors]
    assert nearest(vectors, codebook).tolist() == expected and 5 not in expected
    assert perplexity(np.array([4, 4, 4, 4, 0])) == pytest.approx(4) and perplexity(np.array([7, 0])) == 1


def test_its_codes_are_the_quantisers(r: Path) -> None:
    """What its own library looks up in the end equals what ours does."""
    job = _job(r)
    assert isinstance(job.entry, VqVae)
    torch.manual_seed(0)
    model = tokenizer.Trained(job.entry)
    images = torch.rand(64, 3, 48, 48) * 2 - 1
    model.train()
    model(images)
    model.eval()
    with torch.no_grad():
        vectors = model.tokenizer.vectors(images)
        quantised, codes, _ = model.quantiser(vectors)
        own = model.settled()
        assert torch.equal(own.codes(vectors), codes)
        assert torch.allclose(own.codebook[codes], quantised, atol=1e-6)


# --- codes ----------------------------------------------------------------------------------------------------------------


def test_stored_codes_are_those_of_each_image_alone(r: Path) -> None:
    """So they do not depend on the batch; what a captioner reads of them are the codebook's vectors."""
    tower, corpus = _tower(r), r / "data/corpora/described/index.json"
    for split in ("train", "val"):
        stored = PrecomputedTokens(r / CODES / "encoded.json", read_index(corpus, verify="auto", kind="corpus"), split)
        reader = ShardReader(corpus, split)
        array = np.load(r / CODES / f"{split}-000000.npy")
        assert array.dtype == np.uint16 and array.shape == (len(reader), 36)
        for number in range(len(reader)):
            with torch.no_grad():
                codes = tower.codes(tower.prepared(center_crops(reader, [number], 48)[0]))
            assert codes[0].tolist() == array[number].tolist()
            assert torch.equal(stored.of([number])[0], tower.tokenizer.codebook[codes[0]].half())


def test_all_codes_are_counted(r: Path) -> None:
    told = read_json(r / CODES / "encoded.json")
    counted = np.bincount(np.load(r / CODES / "train-000000.npy").ravel(), minlength=16)
    assert counted.sum() == 32 * 36 and told["codes"] == 16
    assert told["used"] == int((counted > 0).sum()) and told["perplexity"] == pytest.approx(perplexity(counted))
    (shard,) = read_json(r / "data/corpora/described/index.json")["splits"]["train"]["shards"]
    assert told["splits"]["train"][0]["shard_sha256"] == shard["sha256"]


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (np.full((32, 36), 16, dtype=np.uint16), "codes above the codebook's 16"),
        (np.zeros((32, 36), dtype=np.int64), "holds int64"),
        (None, r"codebook\.npy: nothing can be read"),
    ],
)
def test_damaged_codes_are_one_line(r: Path, damage: np.ndarray | None, said: str) -> None:
    index = read_index(r / "data/corpora/described/index.json", verify="auto", kind="corpus")
    file = r / CODES / "train-000000.npy"
    (r / CODES / "codebook.npy" if damage is None else file).unlink()
    if damage is not None:
        np.save(file, damage)
    with pytest.raises(UserError, match=said):
        PrecomputedTokens(r / CODES / "encoded.json", index, "train").of([0])


def test_vectors_before_codes_are_of_the_same_encoder(r: Path) -> None:
    codes, before = _tower(r), _tower(r, "before-codes")
    images = codes.prepared(torch.randint(0, 256, (3, 3, 48, 48), dtype=torch.uint8))
    with torch.no_grad():
        vectors = before(images)[1]
        assert torch.equal(codes.codes(images), codes.tokenizer.codes(vectors))
        assert torch.equal(codes(images)[1], codes.tokenizer.codebook[codes.codes(images)])


# --- the VQGAN of others ---------------------------------------------------------------------------------------------------


def _vqgan() -> GumbelVqgan:
    return GumbelVqgan.model_validate(
        {"label": "", "kind": "gumbel_vqgan", "image_size": 64, "factor": 8, "path": "vqgan/last.ckpt"}
    )


def _checkpoint(own: GumbelTokenizer) -> dict[str, torch.Tensor]:
    """Weights under the names of the checkpoint, and some that no encoder needs."""
    weights = dict(own.state_dict())
    found = {name: value for name, value in weights.items() if name.startswith(("encoder.", "quant_conv."))}
    found["quantize.proj.weight"] = weights["projection.weight"][..., None, None]
    found["quantize.proj.bias"], found["quantize.embed.weight"] = weights["projection.bias"], weights["codebook"]
    return {**found, "decoder.conv_in.weight": torch.zeros(3), "loss.discriminator": torch.zeros(2)}


def test_the_vqgan_is_that_of_diffusers() -> None:
    """Its encoder against theirs with the same weights, and the code is the most likely one."""
    from diffusers.models.autoencoders.vae import Encoder

    torch.manual_seed(0)
    own = GumbelTokenizer(_vqgan()).eval()
    theirs = Encoder(
        in_channels=3,
        out_channels=256,
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
        block_out_channels=(128, 128, 256, 512),
        layers_per_block=2,
        double_z=False,
    ).eval()
    theirs.load_state_dict(_for_diffusers(dict(own.encoder.state_dict())))
    images = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        assert torch.allclose(own.encoder(images), theirs(images), atol=1e-4)
        vectors = own.vectors(images)
        assert vectors.shape == (2, 64, 256)
        expected = (vectors @ own.projection.weight.T + own.projection.bias).argmax(dim=-1)
        assert torch.equal(own.codes(vectors), expected)


def _for_diffusers(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    attention = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}
    found = {}
    for name, value in weights.items():
        parts = name.split(".")
        if "attn" in parts or "attn_1" in parts:
            parts[-2] = attention[parts[-2]]
            value = value.flatten(1) if value.ndim == 4 else value
        text = ".".join(parts)
        for ours, other in (
            ("down.", "down_blocks."),
            (".block.", ".resnets."),
            (".attn.", ".attentions."),
            (".downsample.conv", ".downsamplers.0.conv"),
            ("mid.block_1", "mid_block.resnets.0"),
            ("mid.block_2", "mid_block.resnets.1"),
            ("mid.attn_1", "mid_block.attentions.0"),
            ("nin_shortcut", "conv_shortcut"),
            ("norm_out", "conv_norm_out"),
        ):
            text = text.replace(ours, other)
        found[text] = value
    return found


def test_the_vqgan_is_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    asked = {"job": "tokenizers/vqgan", "verb": "tokenizer", "scale": "paper", "fingerprint": "0" * 64, "inputs": []}
    job = TokenizerJob.model_validate({**asked, "name": "vqgan", "entry": _vqgan()})
    call = Call(job, ScaleFolder(tmp_path), tmp_path / "out")
    with pytest.raises(UserError, match=r"vqgan/last\.ckpt is not there; mdc data check vqgan"):
        tokenizer.main(call)
    own = GumbelTokenizer(_vqgan())
    (tmp_path / "vqgan").mkdir()
    torch.save({"state_dict": _checkpoint(own)}, tmp_path / "vqgan/last.ckpt")
    tokenizer.main(call)
    found = load_file(tmp_path / "out/tokenizer.safetensors")
    assert found.keys() == own.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in own.state_dict().items())
    assert read_json(tmp_path / "out/tokenizer.json")["parameters"] > 2e7

    broken = {name: value for name, value in _checkpoint(own).items() if name != "quantize.embed.weight"}
    torch.save(broken, tmp_path / "vqgan/last.ckpt")
    with pytest.raises(UserError, match=r"no Gumbel VQGAN, for it has no quantize\.embed\.weight"):
        tokenizer.main(call)
    assert renamed(_checkpoint(own)).keys() == own.state_dict().keys()


# --- captioners -------------------------------------------------------------------------------------------------------------


def test_a_run_leaves_the_average_of_its_weights(r: Path) -> None:
    """And is validated with it: the loss in its record is that of its checkpoint."""
    found, manifest = open_run(r / RUN)
    model = found.load()
    assert int(model.length) == manifest["length"]
    index, codes = r / "data/corpora/described/index.json", r / CODES / "encoded.json"
    corpus = Corpus(found.job, index, found.vocabulary, 0, SINGLE_PROCESS, {CODES: codes})
    protocol = found.job.protocol.pretrain
    objective = build_objective(model, Setup(found.job.method, protocol, found.vocabulary.mask_id, 16, "fp32"))
    sums = [objective.evaluate(objective.prepare(batch, held_out=True)) for batch in corpus.validation()]
    total, count = (float(sum(values)) for values in zip(*sums, strict=True))
    assert manifest["validation_loss"] == pytest.approx(total / count, rel=1e-5)
    assert manifest["segments"][-1]["last_step"] == 2


# --- what is made of it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "used"), [("vq", ("encoder.", "codebook")), ("vq_continuous", ("encoder.",))])
def test_an_encoders_size_is_of_what_makes_its_tokens(r: Path, name: str, used: tuple[str, ...]) -> None:
    """Neither of the tokenizer's part that makes images again nor, before codes, of the codebook."""
    weights = load_file(r / "encoders" / name / TOWER)
    made = {key.removeprefix("tokenizer."): value.numel() for key, value in weights.items()}
    assert any(key.startswith("decoder.") for key in made) and "codebook" in made
    size = sum(count for key, count in made.items() if key.startswith(used))
    assert read_json(r / "encoders" / name / "encoder.json")["parameters"] == size
    assert read_json(r / "tokenizers/vq/tokenizer.json")["parameters"] == sum(made.values())


def test_tables_show_every_system_and_its_size(r: Path) -> None:
    rows = read_rows(r / "mcd_table1/mcd_table1_long.csv")
    labels = {"MC-Diffusion", "before codes", "MC-Diffusion · mismatched image", "most frequent training caption"}
    assert {row["method"] for row in rows} == labels
    text = (r / "mcd_table1/mcd_table1.md").read_text()
    models = text.split("### Models")[1]
    told = read_json(r / RUN / "run.json")
    frozen = read_json(r / "encoders/vq/encoder.json")["parameters"]
    assert f"| {told['parameters']['all'] / 1e3:.1f} | {(told['parameters']['all'] + frozen) / 1e3:.1f} |" in models
    # the paper's rows that are not run, and no note about ARC, which is not there
    assert "*DCC*" in text and "ARC" not in text
    assert "CIDEr on On codes, dev, by which the best is chosen: " in (r / "mcd_table3/mcd_table3.md").read_text()
    grid = read_rows(r / "mcd_grid/mcd_grid_long.csv")
    assert "MCS 3 as printed" in {row["method"] for row in grid}


def test_the_mismatched_row_is_of_other_images(r: Path) -> None:
    rows = parquet.read_table(r / "captions/described/on-codes/mcd/s0/best/codes/captions.parquet").to_pylist()
    by = {name: [row["caption"] for row in rows if row["system"] == name] for name in ("mcd", "mcd_other")}
    assert len(by["mcd"]) == len(by["mcd_other"]) == 8 and by["mcd"] != by["mcd_other"]


def test_the_figure_has_a_line_for_each_point(r: Path) -> None:
    rows = read_rows(r / "mcd_figure3/mcd_figure3.csv")
    points = {(row["curve"], row["guidance"]) for row in rows}
    assert points == {(curve, scale) for curve in ("cfg", "mcs") for scale in "13"}
    # the curves may share no CIDEr; and of eight images there is no verdict
    (claim,) = read_rows(r / "mcd_figure3/mcd_figure3_contrasts.csv")
    assert (claim["first"], claim["second"], claim["p"]) == ("mcs", "cfg", "")
    assert claim["direction"] == ("too few groups" if claim["value"] else "not compared")


def test_mdc_caption(r: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    image = tmp_path / "one.png"
    Image.new("RGB", (60, 50), (200, 30, 30)).save(image)

    def said(*words: str) -> dict[str, Any]:
        assert (
            mdc(["caption", str(image), "--run", str(r / "runs/described/on-codes/mcd_cfg/s0"), "--json", *words]) == 0
        )
        found: dict[str, Any] = json.loads(capsys.readouterr().out)[0]
        return found

    plain = said("--steps", "4")
    assert plain == said("--steps", "4", "--guidance", "1") != said("--steps", "4", "--guidance", "3")
    assert said("--steps", "4", "--seed", "1") != plain and said("--policy", "best_first")["caption"]


@pytest.mark.usefixtures("own_copy")
def test_another_codebook_in_its_place_is_refused(r: Path) -> None:
    path = r / "tokenizers/vq/tokenizer.safetensors"
    weights = load_file(path)
    weights["codebook"] += 1
    path.unlink()
    save_file(weights, path)
    with pytest.raises(UserError, match=r"tokenizer\.safetensors: not the file that .*--forcerun .*tokenizer\.json"):
        import_encoder.main(_call(r, "encoders/vq", "import-encoder", Path("again")))
    shutil.rmtree("again", ignore_errors=True)
    assert pixels(torch.tensor([[[[0, 255]]]], dtype=torch.uint8)).tolist() == [[[[-1.0, 1.0]]]]
