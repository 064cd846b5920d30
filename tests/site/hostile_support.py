"""A demo whose every text is hostile, its twin with harmless texts, and the pages that the real chapters make of both.

The pins verify the bytes of the real splits, so a stranger's text can come in nowhere but through the demo, the judges
and a reader's own replies; the kernel that runs the chapters is given such a demo before the first cell.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbclient import NotebookClient

from traceaudit.instances import Instance, load_chapters
from traceaudit.linking import link_tables, link_values
from traceaudit.notebooks import check_ran, collect, fill_inline, set_title, strip_run, tags, to_bytes
from traceaudit.trail import receipt_page

from ..kernels import LocalKernel

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = [each for each in load_chapters(ROOT / "chapters" / "chapters.toml") if each.split == "demo"]
RECEIPT = Instance("trail-receipt", "demo", title="Receipt", page="report/trail-receipt-demo.ipynb")

# One kind of trouble a row; each one that could run sets the canary, each that could show an element has one.
PAYLOADS: Mapping[str, str] = {
    "script": "<script>window.__pwned='script'</script>",
    "image": "<img src=x onerror=\"window.__pwned='image'\">",
    "drawing": "<svg onload=window.__pwned='drawing'><script>window.__pwned='svg'</script></svg>",
    "attribute": "\" onmouseover=\"window.__pwned='attribute'\" autofocus onfocus='window.__pwned=1' x=\"",
    "link": "[go](javascript:window.__pwned='link') <javascript:window.__pwned=1> [d](data:text/html,<script>)",
    "picture": "![x](http://evil.example/x.png) <http://evil.example> http://evil.example www.evil.example a@b.example",
    "closes": "</span></td></tr></table></summary></details></figure></div></section></main></body> -->]]></style>",
    "comment": "<!-- x --><![CDATA[ y ]]><?php z ?><!DOCTYPE html>",
    "blocks": "a\n\n<div><h2>block</h2></div>\n\n# heading\n\n| a |\n|---|\n| c |\n\n---\n\n```{=html}\n<hr>\n```",
    "pipes": "a|b||c \\| d | e |\n|---|\n| f",
    "code": "`code` ``more`` ```{python}\nx\n``` ~~~ `{python} v.joint` `r 1`",
    "quarto": "{{< include /etc/passwd >}} {{% x %}} ::: {.callout-note} :::  [x]{.y onclick=z} {#sec-x}",
    "references": "[@cite] @fig-x [^1] [^1]: note [x][y] *[x]: abbreviation",
    "maths": "$x$ $$\\frac{1}{$$ \\(z\\) \\[w\\] $\\undefined{",
    "marks": "**b** __i__ *c* ~~s~~ ^p^ ~q~ ==h== # h 1. l - m > q + n :smile: &lt; &#60; &amp;lt;",
    "terminal": "\x1b[31mred\x1b[0m\x1b]8;;http://evil.example\x07x\x1b]8;;\x07 \x07\x08\x00\x7f\x9b2J\r\n",
    "direction": "\u202egnp.exe\u202c \u2067right\u2069 \u200f\u200e\u061c \u2066",
    "open direction": "\u202e\u202d\u2067\u2068",  # opened and never closed
    "unseen": "a\u200bb\u200c\u200d\ufeff\u2060\u00ad\U000e0041\u2028\u2029",
    "tower": "Z" + "\u0300\u0301\u0302\u0303\u0489" * 60,
    "long": "w" * 10_000,
    "faces": "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \u65e5\u672c\u8a9e",
    "leftward": "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627 12 (\u05d3)",
    "halves": "\ud800 \udfff x",
    "frame": "<iframe srcdoc='<script>parent.__pwned=1</script>'></iframe><base href=//evil.example>"
    "<meta http-equiv=refresh content=0;url=//evil.example><style>*{display:none}</style>"
    "<form action=//evil.example><input autofocus onfocus=x>",
}
# Labels become names of values, so they are ASCII; the harmless ones differ in signs alone, sign by sign, so that as
# many texts are contained in several of them.
LABELS = ("Label <b onclick=x>one</b> | `two` $x$", "Label </td> [three](x)")
HARMLESS_SIGNS = str.maketrans("<>=|`$[]()/", "0123456789,")


def words(name: str, hostile: bool, most: int | None = None) -> str:
    """A payload, or a harmless text in its place; cut to ``most`` characters."""
    text = PAYLOADS[name] if hostile else f"harmless text {list(PAYLOADS).index(name)}"
    return text[:most]


def poison(hostile: bool) -> None:
    """Give the demo of this process strange texts (or, for comparison, harmless ones) wherever it has any.

    Categories, locations, further fields, judges, published models, labels, and what the provenance says. The ids of
    traces stay: one that is no plain file name is refused before anything is scored.
    """
    from traceaudit.trail import demo, judges, pin, study

    known, build, runs = pin.taxonomy(), demo.build, judges.demo_runs
    extra = LABELS if hostile else tuple(label.translate(HARMLESS_SIGNS) for label in LABELS)
    pin.taxonomy = lambda folder=None: (*known, *extra)

    def hostile_build(taxonomy: tuple[str, ...], **more: Any) -> demo.Demo:
        built = build(known, **more)
        names = iter(list(PAYLOADS) * 4)
        gold = {trace: _annotated(data, names, hostile) for trace, data in built.gold.items()}
        rows = tuple(replace(built.published.rows[0], model=words(name, hostile)) for name in PAYLOADS)
        return replace(built, gold=gold, published=replace(built.published, rows=rows))

    def hostile_runs(*arguments: Any, **more: Any) -> tuple[Any, ...]:
        found = runs(*arguments, **more)
        kinds = zip(found, ("picture", "closes", "direction", "long"), strict=True)
        return tuple(replace(run, name=words(kind, hostile) + words("leftward", hostile)) for run, kind in kinds)

    provenance = study.Study.provenance

    def hostile_provenance(self: Any) -> dict[str, Any]:
        said = {words(name, hostile): {words("pipes", hostile): words(name, hostile)} for name in PAYLOADS}
        return provenance(self) | said | {"benchmark": words("script", hostile), "commit": words("drawing", hostile)}

    demo.build, study.demo_runs = hostile_build, hostile_runs
    study.Study.provenance = hostile_provenance
    study.SAYS["independent"] = words("blocks", hostile) + words("direction", hostile)


def _annotated(data: bytes, names: Any, hostile: bool) -> bytes:
    """A gold file with texts of ours: every second category, every location off the spans, what no one reads."""
    from traceaudit.trail.demo import STRAY

    text = data.decode()
    try:
        value = json.loads(text)
    except ValueError:  # the planted comma; its errors are counted, never shown
        return text.replace("invented evidence", words("marks", hostile)).encode()
    for place, error in enumerate(value["errors"]):
        if place % 2 and error["category"] is not None:
            error["category"] = words(next(names), hostile)
        if error["location"] == STRAY:
            error["location"] = "".join(PAYLOADS.values()) if hostile else "harmless place"
        error["evidence"] = words("frame", hostile)
        if "a torn" in error:
            error[words("attribute", hostile)] = words("script", hostile)
    return json.dumps(value).encode()


def write_replies(path: Path, ids: list[str], hostile: bool) -> None:
    """A judge's replies, one a line: a reply of every kind, and lines that belong to no trace."""
    rows: list[dict[str, Any]] = [
        {"trace_id": trace, "reply": {"errors": [{"category": words(name, hostile), "location": words(name, hostile)}]}}
        for trace, name in zip(ids, PAYLOADS, strict=False)
    ]
    rows[0]["reply"] = words("script", hostile)
    rows += [{"trace_id": words(name, hostile), "reply": "x"} for name in PAYLOADS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")


@dataclass(frozen=True)
class Made:
    """What became of one corpus.

    Attributes:
        root: A project that a renderer can render: the pages as the runner leaves them, and one page of plain words.
        receipt: The receipt as one HTML page.
        texts: chapter instance -> the texts among its values.
    """

    root: Path
    receipt: str
    texts: Mapping[str, tuple[str, ...]]


def make(folder: Path) -> dict[bool, Made]:
    """Run every demo chapter and the receipt over the hostile demo and over its twin, a kernel each, side by side."""
    names = {True: "hostile", False: "harmless"}

    async def both() -> list[Made]:
        return await asyncio.gather(*(_make(folder / name, hostile) for hostile, name in names.items()))

    return dict(zip(names, asyncio.run(both()), strict=True))


async def _make(root: Path, hostile: bool) -> Made:
    for name in ("report", "chapters"):
        (root / name).mkdir(parents=True)
    sources = {each: ROOT / "chapters" / f"{each.chapter}.ipynb" for each in INSTANCES}
    sources[RECEIPT] = receipt_page.chapter_path()
    executed = await _execute(sources, root / "replies.jsonl", hostile)
    texts = {}
    for each, page in executed.items():
        values, _, _ = collect(page, each.id)
        texts[each.id] = tuple(value.raw for value in values.values() if isinstance(value.raw, str))
        fill_inline(page, values, each.id)
        strip_run(page, "split = 'demo'")
        if each is RECEIPT:
            receipt = receipt_page.render(page)  # as it is sent to somebody: by itself, with no link to the site
        set_title(page, each.title)
        link_values(page, values)
        link_tables(page, each.page, each.id)
        (root / each.page).write_bytes(to_bytes(page))
    config = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))
    for name in ("pre-render", "post-render"):
        del config["project"][name]
    config["project"]["render"] = ["index.md", *(each.page for each in executed)]
    config["website"]["sidebar"]["contents"] = ["index.md"]
    (root / "_quarto.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    (root / "index.md").write_text("---\ntitle: Plain\n---\n\nWords.\n", encoding="utf-8")
    for name in ("chapters/style.css", "CITATION.cff"):
        shutil.copy(ROOT / name, root / name)
    return Made(root, receipt, texts)


async def _execute(sources: Mapping[Instance, Path], replies: Path, hostile: bool) -> dict[Instance, Any]:
    """All chapters in one kernel, one after another: starting a kernel takes longer than most of them."""
    first = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\nfrom tests.site import hostile_support\n"
        f"hostile_support.poison({hostile})\n"
        "from traceaudit.trail.receipt import open_scoring\n"
        "with open_scoring('demo', engine='independent') as opened:\n"
        f"    hostile_support.write_replies(Path({str(replies)!r}), list(opened.corpus.gold), {hostile})"
    )
    given = f'split, source, engine, predictions = "demo", "", "independent", {str(replies)!r}'
    whole = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(first, metadata={"chapter": ""})])
    for each, path in sources.items():
        for cell in nbformat.read(path, as_version=4).cells:
            whole.cells.append(cell)
            if "parameters" in tags(cell):
                whole.cells.append(nbformat.v4.new_code_cell(given, metadata={"tags": ["injected-parameters"]}))
            for added in whole.cells[-2:]:
                added.metadata.setdefault("chapter", each.id)
    with tempfile.TemporaryDirectory() as away:
        client = NotebookClient(
            whole, timeout=120, iopub_timeout=60, raise_on_iopub_timeout=True, kernel_name="python3",
            kernel_manager_class=LocalKernel, resources={"metadata": {"path": away}},
        )  # fmt: skip
        await client.async_execute()
    check_ran(whole, "hostile" if hostile else "harmless")
    return {
        each: nbformat.v4.new_notebook(cells=[cell for cell in whole.cells if cell.metadata["chapter"] == each.id])
        for each in sources
    }
