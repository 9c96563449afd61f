"""The page itself, made with Gradio. It is served to this machine alone; nothing is counted, shared or loaded from elsewhere."""

import argparse
import html
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from mdc.app.answers import Caption, Score, left_out
from mdc.app.caption_options import unknown_in
from mdc.app.demo.answers import Demo, read
from mdc.app.demo.examples import Examples, examples
from mdc.app.model import load_from_args
from mdc.app.scores import APART, ranked
from mdc.data.formats.tar import MAX_FILE
from mdc.plan.records import UserError, text_lines

Looks = list[tuple[Any, str]]  # pictures of what each token looks at, with the token

_HOST = "127.0.0.1"
_HIDDEN = "▢"
_STYLE = """
table.moments, table.moments tr { border: 0; }
table.moments { border-collapse: collapse; font-size: 1rem; }
table.moments td { padding: .12rem .45rem; white-space: nowrap; border: 0; }
table.moments tr { animation: written .3s both; animation-delay: calc(var(--step) * .25s); }
@keyframes written { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { table.moments tr { animation: none; } }
table.moments td.step { color: gray; text-align: right; font-variant-numeric: tabular-nums; }
table.moments td.new { font-weight: 700; background: rgba(230, 60, 30, .18); border-radius: .25rem; }
table.moments td.hidden { color: gray; }
table.moments td.step { position: sticky; left: 0; background: var(--body-background-fill); }
div.moments, div.table { overflow-x: auto; }
/* Gradio keeps its number of columns on a phone, and hides those that do not fit */
.pictures .grid-container { grid-template-columns: repeat(auto-fill, minmax(5.5rem, 1fr)) !important; }
.pictures .grid-wrap { min-height: 0 !important; max-height: none !important; overflow: visible !important; }
:is(button, input, textarea):focus-visible { outline: 2px solid #ea580c !important; outline-offset: 1px; }
p.written { font-size: 1.35rem; margin: .2rem 0 .8rem; }
"""


def main(args: argparse.Namespace) -> None:
    """``args``: run, weights, port, open, params, scale. Serves until it is interrupted."""
    if not 0 <= args.port <= 65535:
        raise UserError(f"--port {args.port}: 1 to 65535, or 0 for any free port")
    gradio = _gradio()
    model = load_from_args(args)
    demo = Demo(model)
    # a termination signal cleans up like ctrl-c
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mdc-demo-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder  # pictures that people drop go with the page
        # Gradio's own themes load their fonts from a server
        theme = gradio.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
        page = build(gradio, demo, f"{model.name} ({model.weights} weights)", Path(folder))
        try:
            page.queue(default_concurrency_limit=2).launch(
                server_name=_HOST,
                server_port=args.port or _free_port(),
                share=False,
                inbrowser=args.open,
                quiet=True,
                footer_links=[],
                max_file_size=MAX_FILE,
                # another page's name for this machine must not reach it
                app_kwargs={"middleware": [_only_by_these_names()]},
                theme=theme,
                css=_STYLE,
                prevent_thread_lock=True,
            )
        except OSError:
            raise UserError(f"--port {args.port}: already in use; choose another, or 0 for any free port") from None
        print(f"{model.name}: http://{_HOST}:{page.server_port}  (Ctrl-C stops it)", flush=True)
        try:
            threading.Event().wait()  # Gradio's own waiting keeps the interrupt to itself
        finally:
            page.close(verbose=False)


def _gradio() -> Any:
    """The package, with telemetry disabled before the import. UserError if it is not installed."""
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "1"}
    for name in ("no_proxy", "NO_PROXY"):  # requests to its own page must not use a proxy
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), _HOST, "localhost")))
    try:
        import gradio
    except ImportError:
        raise UserError("mdc demo needs Gradio, which is not installed; pip install 'gradio>=6.12,<7'") from None
    return gradio


def _only_by_these_names() -> Any:
    from starlette.middleware import Middleware  # comes with Gradio
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    return Middleware(TrustedHostMiddleware, allowed_hosts=[_HOST, "localhost"])


def _free_port() -> int:
    # Gradio does not treat 0 as any free port
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def build(gradio: Any, demo: Demo, title: str, folder: Path) -> Any:
    """The page of a run, as Gradio's blocks; ``folder``: for files of examples."""
    with gradio.Blocks(title=f"mdc demo: {title}", analytics_enabled=False) as page:
        gradio.Markdown(f"## {title}")
        with gradio.Row():
            with gradio.Column(scale=2):
                image = gradio.File(label="Image: drop a file here", file_types=None, elem_id="image")
                shown = gradio.Image(label="as it was read", interactive=False, height=260, buttons=[])
                _examples(gradio, demo, image, page, folder)
            with gradio.Column(scale=5):
                if demo.writes:
                    with gradio.Tab("Caption"):
                        _captions(gradio, demo, image)
                if demo.decoding == "unmask":
                    with gradio.Tab("Fill in"):
                        _gaps(gradio, demo, image)
                if demo.scores_captions:
                    with gradio.Tab("Score"):
                        _scores(gradio, demo, image)
                    with gradio.Tab("Zero-shot"):
                        _classes(gradio, demo, image)
        image.change(_with_user_errors(gradio, lambda path: read(path) if path else None), image, shown)
    return page


def _examples(gradio: Any, demo: Demo, image: Any, page: Any, folder: Path) -> None:
    """Examples are computed when the page is first opened; the page is usable meanwhile."""
    text = gradio.Markdown("Looking for examples …", elem_id="examples-text")
    gallery = gradio.Gallery(
        show_label=False,
        columns=4,
        height="auto",
        allow_preview=False,
        interactive=False,
        visible=False,
        elem_id="examples",
        elem_classes="pictures",
        buttons=[],
    )
    lock, cached = threading.Lock(), list[Examples]()

    def look() -> tuple[str, Any]:
        with lock:  # two people at once
            if not cached:
                cached.append(examples(demo.model, folder))
        return cached[0].text, gradio.Gallery([file for file, _ in cached[0].images], visible=bool(cached[0].images))

    def take(event: Any) -> str:
        return str(cached[0].images[event.index][0])

    take.__annotations__["event"] = gradio.SelectData  # by which Gradio knows what to give it
    page.load(look, None, [text, gallery])
    gallery.select(take, None, image)


def _captions(gradio: Any, demo: Demo, image: Any) -> None:
    options = _options(gradio, demo)
    button = gradio.Button("Caption", variant="primary", elem_id="caption")
    text, moments, looks = _answer(gradio, demo)

    def caption(path: str | None, *values: Any) -> tuple[str, str, Any]:
        chosen = {name: value for name, value in zip(options, values, strict=True) if value not in (None, "", 0)}
        return _shown(*demo.caption(_image(path), **chosen))

    button.click(_with_user_errors(gradio, caption), [image, *options.values()], [text, moments, looks])


def _options(gradio: Any, demo: Demo) -> dict[str, Any]:
    """Decoding options; 0 for `mdc caption`'s defaults."""
    number = gradio.Number
    with gradio.Row():
        if demo.decoding == "unmask":
            return {
                "length": number(label="tokens", info="0: the run's default", value=0, precision=0),
                "tokens_per_step": number(label="tokens per step", info="0: 1, as in the paper", value=0, precision=0),
                "threshold": number(label="or all of at least this probability", info="0: no", value=0),
                "temperature": number(label="temperature", info="0: the most likely", value=0),
            }
        if demo.decoding == "beam":
            return {
                "length": number(label="tokens", info="0: predicted end", value=0, precision=0),
                "beam": number(label="beams", info="0: 6; 1 is greedy", value=0, precision=0),
            }
        return {
            "policy": gradio.Radio(["posterior", "best_first"], label="policy", value="posterior"),
            "steps": number(label="sampling steps", info="0: 25", value=0, precision=0),
            "guidance": number(label="guidance", info="0: 1, no guidance", value=0),
        }


def _gaps(gradio: Any, demo: Demo, image: Any) -> None:
    text = gradio.Textbox(
        label="a caption with gaps", info="? marks a missing token", value="a ? and a ?", elem_id="gaps"
    )
    button = gradio.Button("Fill in", variant="primary", elem_id="fill")
    result, moments, looks = _answer(gradio, demo)

    def fill(path: str | None, gapped: str) -> tuple[str, str, Any]:
        if warning := left_out(unknown_in(gapped, demo.vocabulary)):
            gradio.Warning(warning)
        return _shown(*demo.caption(_image(path), gapped))

    for event in (button.click, text.submit):
        event(_with_user_errors(gradio, fill), [image, text], [result, moments, looks])


def _scores(gradio: Any, demo: Demo, image: Any) -> None:
    gradio.Markdown(f"Score: {demo.estimator_text}.")
    text = gradio.Textbox(label="captions, one a line", lines=4, elem_id="captions")
    button = gradio.Button("Score", variant="primary", elem_id="score")
    table = gradio.HTML(elem_id="scores")

    def scores(path: str | None, typed: str) -> str:
        scored = demo.scores(_image(path), [line.strip() for line in text_lines(typed) if line.strip()])
        ranking, apart = (_scored(part) if part else "" for part in ranked(scored))
        return f"{ranking}<p>{APART[0].upper()}{APART[1:]}</p>{apart}" if apart else ranking

    button.click(_with_user_errors(gradio, scores), [image, text], table)


def _scored(scores: Sequence[Score]) -> str:
    rows = [
        [
            f"{score.score:.2f}",
            f"{score.error:.2f}",
            f"{score.score / len(score.tokens):.2f}" if score.tokens else "–",
            f"{score.caption} (without {', '.join(score.unknown)})" if score.unknown else score.caption,
        ]
        for score in scores
    ]
    return _table(["score", "± s.e.", "per token", "caption"], rows)


def _classes(gradio: Any, demo: Demo, image: Any) -> None:
    gradio.Markdown(f"The class is the one whose caption scores highest. Score: {demo.estimator_text}.")
    typed = gradio.Textbox(label="classes", info="with commas, or one a line; at least two", lines=2, elem_id="classes")
    template = gradio.Textbox(label="caption of a class", value="a photo of a {class}", elem_id="template")
    less = gradio.Checkbox(
        label="debiased", info="less what the words alone say, by held-out images; slower", visible=demo.can_debias
    )
    button = gradio.Button("Classify", variant="primary", elem_id="classify")
    table = gradio.HTML(elem_id="classified")

    def classify(path: str | None, names: str, caption: str, debiased: bool) -> str:
        result = demo.classes(_image(path), names, caption, debiased)
        shares = result.probabilities or {}
        ranked = sorted(result.scores, key=lambda name: -result.scores[name])
        rows = [[f"{result.scores[name]:.2f}", f"{shares[name]:.1%}" if shares else "–", name] for name in ranked]
        unknown = ", ".join(dict.fromkeys(chain(*result.unknown.values())))
        left_out = f"<p>Left out, as its vocabulary lacks them: {html.escape(unknown)}</p>"
        return _table(["score", "probability", "class"], rows) + left_out * bool(result.unknown)

    handler = _with_user_errors(gradio, classify)
    for event in (button.click, template.submit):
        event(handler, [image, typed, template, less], table)


def _answer(gradio: Any, demo: Demo) -> tuple[Any, Any, Any]:
    text = gradio.HTML(elem_classes="caption")
    moments = gradio.HTML(elem_classes="writing")
    gradio.Markdown(demo.looks_text)
    looks = gradio.Gallery(
        show_label=False,
        columns=6,
        height="auto",
        interactive=False,
        elem_classes="looks pictures",
        buttons=[],
        visible=demo.looks_anywhere,
    )
    return text, moments, looks


def _shown(caption: Caption, looks: Looks) -> tuple[str, str, Looks]:
    """A caption, its decoding step by step, and its attention, as HTML and gallery."""
    rows: list[str] = []
    for step in sorted({piece.step for piece in caption.pieces}):
        cells = []
        for piece in caption.pieces:
            kind = "hidden" if piece.step > step else "new" if piece.step == step > 0 else ""
            tip = (
                f' title="probability {piece.probability:.3f}"'
                if kind == "new" and piece.probability is not None
                else ""
            )
            cells.append(f'<td class="{kind}"{tip}>{_HIDDEN if kind == "hidden" else html.escape(piece.piece)}</td>')
        name = f"step {step}" if step else "given"
        rows.append(f'<tr style="--step: {len(rows)}"><td class="step">{name}</td>{"".join(cells)}</tr>')
    decoding = f'<div class="moments"><table class="moments">{"".join(rows)}</table></div>'
    return f'<p class="written">{html.escape(caption.text)}</p>', decoding, looks


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{html.escape(cell)}</th>' for cell in head)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f'<div class="table"><table>{"".join(lines)}</table></div>'


def _image(path: str | None) -> Any:
    if not path:
        raise UserError("drop an image first")
    return read(path)


def _with_user_errors(gradio: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    """``answer`` with UserErrors shown on the page."""

    def call(*inputs: Any) -> Any:
        try:
            return answer(*inputs)
        except UserError as error:
            raise gradio.Error(str(error), duration=None, print_exception=False) from None

    return call
