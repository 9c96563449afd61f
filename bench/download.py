"""Pairs a second through download and sharding, beside img2dataset's own command line on the same list and server.

A server in a process of its own answers with photos (synthetic ones, or those of a parquet file's column ``image``) for
seven rows in ten, and with 404 for the others, as much of a web list is. Both are timed from a process's start to the last
byte; their start-up, what each takes for a list of one row, is printed apart. With ``--list`` the rows are real (a TSV of
caption and URL without a header, as CC3M's) with every URL rewritten to that server, and every row must be accounted for.

    python bench/download.py --rows 6000
    python bench/download.py --list cc3m_validation.tsv --rounds 1
"""

import argparse
import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import rows

PHOTOS, DEAD = 64, 0.3
SETTINGS = {
    **{"image_size": 256, "timeout": 10, "deadline": 60, "retries": 1, "max_bytes": 50_000_000, "min_image_size": 16},
    **{"max_pixels": 89_478_485, "max_aspect": 20.0, "quality": 95, "respect_robots": True, "use_proxy": False},
    "allow_addresses": ["127.0.0.1/32"],
    "distributor": "local",
}


def digest(path: str) -> int:
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest())


def is_dead(path: str) -> bool:
    return digest(path) % 1000 < 1000 * DEAD


# --- the server ------------------------------------------------------------------------------------------------------


def photo(seed: int, quality: int, size: tuple[int, int] | None = None) -> bytes:
    """A JPEG with large shapes and some noise; without a ``size``, 256 pixels high and 256 to 384 wide."""
    from PIL import Image

    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    size = size or (int(draw.integers(256, 385)), 256)
    pixels = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=float)
    pixels = np.clip(pixels + draw.normal(0, 6, pixels.shape), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def photos(width: int, height: int, parquet: Path | None) -> list[bytes]:
    """Drawn photos, or the first images of a file."""
    if parquet is None:
        return [photo(seed, 88, (width, height)) for seed in range(PHOTOS)]
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(parquet) as file:
        return next(file.iter_batches(PHOTOS, columns=["image"])).column("image").to_pylist()


@contextmanager
def serving(folder: Path, images: list[bytes]) -> Iterator[str]:
    """The address of a server of these images, in a process of its own; ``folder`` holds them."""
    folder.mkdir(exist_ok=True)
    for number, image in enumerate(images):
        (folder / f"{number:03d}.jpg").write_bytes(image)
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


def serve(folder: Path) -> None:
    """Answer until standard input ends; the port is the first line on standard output."""
    images = [path.read_bytes() for path in sorted(folder.glob("*.jpg"))]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].decode()
            body = b"" if is_dead(path) else images[digest(path) % len(images)]
            status = b"404 Not Found" if is_dead(path) else b"200 OK"
            length = str(len(body)).encode()
            writer.write(
                b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: " + length + b"\r\n\r\n" + body
            )
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    asyncio.run(run())


# --- the list --------------------------------------------------------------------------------------------------------


def rewritten(path: Path, address: str) -> tuple[list[str], list[str]]:
    """Captions and URLs of a real list, each URL as a path of the local server."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [row[0] for row in rows], [f"{address}/{quote(row[1], safe='')}" for row in rows]


def write_list(folder: Path, captions: list[str], urls: list[str]) -> None:
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.table({"url": urls, "caption": captions}), folder / "list.parquet")


# --- the two ---------------------------------------------------------------------------------------------------------


def ours(folder: Path, settings: dict[str, Any]) -> tuple[float, float, dict[str, object]]:
    """Seconds of a new process until all is downloaded, and of the shards made of it, and the download's account."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--ours", str(folder), json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds = time.perf_counter() - began
    output = json.loads(done.stdout.splitlines()[-1])
    return seconds - output["sharded"], output["sharded"], output["account"]


def our_process(folder: Path, settings: dict[str, Any]) -> None:
    """What ``ours`` runs: the download, then its shards."""
    from mdc.data.obtain.urls import obtain
    from mdc.data.shards.parts import PartsWriter
    from mdc.data.sources.cleaned import InParts
    from mdc.data.sources.source import open_corpus

    columns = {"format": "parquet", "url_column": "url", "caption_column": "caption", "path": "list/list.parquet"}
    config = {"dataset": {"path": "ours", "list": columns, "subset": None}, "download": settings}
    account = obtain(config, None, folder)
    source = {"kind": "pairs", "dataset": "ours", "path": "ours", "from": "urls", "pairs": None, "val_fraction": 0.01}
    source |= {"caption_mode": "each", "max_pieces": None, "caption_field": None}
    began = time.perf_counter()
    opened = open_corpus(source, folder)
    assert isinstance(opened, InParts)
    writer = PartsWriter(opened, ("train", "val"), folder / "parts", folder / "state", {}, 77)
    writer.write(int(settings["processes"]))  # the tars stay in place; each shard is an index beside its tar
    print(json.dumps({"sharded": time.perf_counter() - began, "account": account}))


def start_up(place: Path, captions: list[str], urls: list[str], settings: dict[str, Any], alone: bool) -> None:
    """Tell what each takes for a list of one row."""
    write_list(place / "list", captions[:1], urls[:1])
    downloaded, sharded, _ = ours(place, settings)
    peer = "" if alone else f", img2dataset {theirs(place, settings)[0]:.1f} s"
    print(f"start-up, a list of one row: mdc {downloaded + sharded:.1f} s{peer}")


def theirs(folder: Path, settings: dict[str, object]) -> tuple[float, int]:
    """Seconds of img2dataset's command line, and the images that it got."""
    options = {
        **{
            "url_list": folder / "list/list.parquet",
            "input_format": "parquet",
            "url_col": "url",
            "caption_col": "caption",
        },
        **{"output_folder": folder / "theirs", "output_format": "webdataset", "image_size": settings["image_size"]},
        **{"resize_mode": "keep_ratio", "resize_only_if_bigger": True, "encode_quality": settings["quality"]},
        **{"number_sample_per_shard": settings["rows_per_shard"], "processes_count": settings["processes"]},
        **{"thread_count": settings["threads"], "timeout": settings["timeout"], "retries": settings["retries"]},
        "extract_exif": False,
    }
    command = [
        str(Path(sys.executable).parent / "img2dataset"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    environment = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", "WANDB_MODE": "disabled"}
    began = time.perf_counter()
    with (folder / "theirs.log").open("w") as log:
        subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)
    seconds = time.perf_counter() - began
    stats = [json.loads(path.read_text()) for path in (folder / "theirs").glob("*_stats.json")]
    return seconds, sum(entry["successes"] for entry in stats)


def main() -> None:
    about, photo_size = __doc__.splitlines()[0], {"width": 400, "height": 300}
    parser = rows.parser(about, rows=6000, rows_per_shard=1000, rounds=2, processes=1, threads=32, **photo_size)
    parser.add_argument("--list", type=Path, help="a TSV of caption and URL without a header, instead of --rows")
    parser.add_argument("--images", type=Path, help="a parquet file with a column image, instead of synthetic photos")
    parser.add_argument("--alone", action="store_true", help="without img2dataset's own command line")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ours", nargs=2, help=argparse.SUPPRESS)
    args = rows.arguments(parser, rows=500, rounds=1)
    if args.serve:
        serve(args.serve)
        return
    if args.ours:
        our_process(Path(args.ours[0]), json.loads(args.ours[1]))
        return
    settings = {**SETTINGS, **{name: getattr(args, name) for name in ("processes", "threads", "rows_per_shard")}}
    with tempfile.TemporaryDirectory(prefix="mdc-bench-") as name:
        place = Path(name)
        with serving(place, photos(args.width, args.height, args.images)) as address:
            captions = [f"photo number {n} of many" for n in range(args.rows)]
            urls = [f"{address}/photo/{n}.jpg" for n in range(args.rows)]
            if args.list:
                captions, urls = rewritten(args.list, address)
            _rounds(place, captions, urls, address, settings, args)


def _rounds(
    place: Path,
    captions: list[str],
    urls: list[str],
    address: str,
    settings: dict[str, object],
    args: argparse.Namespace,
) -> None:
    speeds: dict[str, list[float]] = {"ours": [], "with shards": [], "img2dataset": []}
    start_up(place / "start-up", captions, urls, settings, args.alone)
    alive = {pair for pair in zip(urls, captions, strict=True) if not is_dead(pair[0].removeprefix(address))}
    for number in range(args.rounds):
        folder = place / f"round{number}"
        write_list(folder / "list", captions, urls)
        theirs_first = theirs(folder, settings) if number % 2 and not args.alone else None
        downloaded, sharded, account = ours(folder, settings)
        outcomes, left_out = account["outcomes"], account["left_out"]
        assert isinstance(outcomes, dict) and isinstance(left_out, dict)
        if sum(outcomes.values()) + sum(left_out.values()) != len(urls) or outcomes["obtained"] != len(alive):
            raise SystemExit(f"{len(urls)} rows, {len(alive)} pairs alive, but {outcomes}, left out {left_out}")
        count, pairs = len(urls), outcomes["obtained"]
        print(
            f"round {number}: {count} rows, {pairs} pairs obtained, every row accounted for: {account['reasons']}, {left_out}"
        )
        print(
            f"  mdc          {downloaded:6.1f} s, {count / downloaded:6.0f} rows/s, {pairs / downloaded:6.0f} pairs/s"
        )
        total = downloaded + sharded
        print(f"  with shards  {total:6.1f} s, {count / total:6.0f} rows/s, {pairs / total:6.0f} pairs/s")
        speeds["ours"].append(count / downloaded)
        speeds["with shards"].append(count / total)
        if not args.alone:
            seconds, got = theirs_first or theirs(folder, settings)
            speeds["img2dataset"].append(count / seconds)
            print(
                f"  img2dataset  {seconds:6.1f} s, {count / seconds:6.0f} rows/s, {got / seconds:6.0f} pairs/s ({got} pairs)"
            )
            print(f"  mdc is {seconds / downloaded:.2f} times as fast as img2dataset's own command line")
    what = f"download of {len(urls):,} rows, {100 * len(alive) / len(urls):.0f} % alive"
    setting = f"{rows.processes(args.processes)} of {rows.threads(args.threads)}"
    for label, key in ((what, "ours"), (f"{what}, and our shards of it", "with shards")):
        if args.alone:
            row = rows.missing(label, "img2dataset", "it was left out; `python bench/download.py` without --alone")
        else:
            row = rows.compared(label, "img2dataset", "rows/s", speeds[key], speeds["img2dataset"], setting)
        rows.write("download", [row], args.results)


if __name__ == "__main__":
    main()
