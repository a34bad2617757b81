"""An exported page translates as the run does: by plain JavaScript and by WebAssembly, in node and in a browser."""

import base64
import copy
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import VARIANTS
from tiny_trainer import random_translator
from torch import Tensor, nn

from mt_cli.data.batching import padding_mask, subsequent_mask
from mt_cli.data.spans import put_back
from mt_cli.data.tokenizer import Tokenizer, processor_of, train_tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.export.offline import FOLDER, SCRIPTS, _pieces, data_of, page_of
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import LoadedModel, load_model
from mt_cli.run.run_dir import RunDir, directions_of

NODE = shutil.which("node")
LINES = [
    "the red cat sees a house", "  THE RED CAT ", "the <br> red cat 😀 sees https://example.org/a, {name}!", "“the dog”", "", "123",
    "the dog sees the tree. the cat sees the house\x0bthe cat", "the żółw sees\u200b the cat ﬁ ２", "- the cat…", "The Red Cat Sees The House", "the red " * 60,
]  # fmt: skip


def in_node(data: dict[str, Any], weights: bytes, action: str, value: object, wasm: bool = True) -> Any:
    """What `action` makes of `value`, in JavaScript: it has the scripts, `data`, `bytes` and `wasm`."""
    if NODE is None:
        pytest.skip("no node on PATH")
    scripts = "\n".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    given = json.dumps({"data": data, "weights": base64.b64encode(weights).decode(), "value": value}).encode()
    program = f"""
        {scripts}
        const {{ data, weights, value }} = JSON.parse(require("fs").readFileSync(0, "utf8"));
        const bytes = new Uint8Array(Buffer.from(weights, "base64"));
        const wasm = {json.dumps(wasm)} ? require("fs").readFileSync({json.dumps(str(FOLDER / "product.wasm"))}) : null;
        const pause = async () => {{}};
        (async () => {action})().then((found) => console.log(JSON.stringify(found)));
    """
    answer = subprocess.run([NODE, "-e", program], input=given, capture_output=True, timeout=250)
    assert answer.returncode == 0, answer.stderr.decode()
    return json.loads(answer.stdout)


LOGITS = """{
    const model = new InferenceModel(data.config, data.network, bytes, wasm);
    if (model.memory.hasWasm !== Boolean(wasm)) throw new Error("WebAssembly was to be used, or not");
    return value.map(([src, tgtIn]) => {
        const state = model.start(src);
        return tgtIn.map((id) => [...model.advance(state, [id]).logits[0]]);
    });
}"""
TRANSLATE = """{
    const translators = loadTranslators(data, bytes, wasm);
    const found = [];
    for (const [name, line, n] of value) found.push(await translators.get(name).translate(line, n, pause));
    return found;
}"""
PARTS = """{
    const { splitter } = [...loadTranslators(data, bytes, wasm).values()][0];
    return value.map((line) => {
        const { parts, end, spans } = splitter.split(line);
        return [parts.map(({ ids, before, symbols, marks }) => [ids, putBack(before, spans), symbols.length, marks.length]), putBack(end, spans)];
    });
}"""


def loaded_directions(path: Path) -> list[LoadedModel]:
    run = RunDir.existing(path)
    loaded = load_model(run)
    return [loaded.for_direction(one, run) for one in directions_of(loaded.config)]


def rounded(model: Transformer) -> Transformer:
    """The network in float64 with the weights of a page, and what goes into each product rounded as there."""

    def round_input(layer: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        (x,) = inputs
        scale = x.abs().amax(1 if isinstance(layer, nn.Conv1d) else -1, keepdim=True) / 32767
        return torch.floor(x / scale.clamp(1e-30) + 0.5) * scale

    model = copy.deepcopy(model)
    for matrix in (parameter for parameter in model.parameters() if parameter.dim() > 1):
        scales = matrix.data.flatten(1).abs().amax(1).clamp(1e-30).view(-1, *[1] * (matrix.dim() - 1)) / 127
        matrix.data = torch.round(matrix.data / scales).double() * scales
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv1d)):
        layer.register_forward_pre_hook(round_input)
    return model.double().requires_grad_(False)


@pytest.mark.parametrize("switches", VARIANTS.values(), ids=VARIANTS)
def test_javascript_and_webassembly_compute_the_same_bits_and_what_the_network_computes_in_8_bits(switches):
    tokenizer = tokenizer_of("unigram", switches.get("tie_embeddings", "all") == "all")
    translator = random_translator(tokenizer, ffn_dim=28, **switches)
    data, weights = data_of([LoadedModel(translator.model, tokenizer, translator.config, {}, None)])
    rng = random.Random(0)
    pairs = [[[rng.randrange(4, 300) for _ in range(rng.randrange(1, 20))] for _ in range(2)] for _ in range(12)]
    found = in_node(data, weights, LOGITS, pairs)
    assert in_node(data, weights, LOGITS, pairs, wasm=False) == found
    model = rounded(translator.model)
    difference = 1e-3 if "gelu" in switches.values() else 1e-9  # the page's erf is exact to 1.6e-7
    for (src, tgt_in), logits in zip(pairs, found, strict=True):
        src_ids, tgt_ids = torch.tensor([src]), torch.tensor([tgt_in])
        hidden = model(src_ids, padding_mask(src_ids), tgt_ids, subsequent_mask(len(tgt_in)))
        expected = model.projection(hidden)[0]
        torch.testing.assert_close(torch.tensor(logits, dtype=torch.float64), expected, rtol=0, atol=difference)


def test_a_page_translates_as_the_run_does(trained_run):
    """Beside the weights as the page has them: a run of other bits may be undecided between two translations."""
    data, weights = data_of(loaded := loaded_directions(trained_run))
    model, tokenizer, config, _, profile = loaded[0]
    translator = Translator([rounded(model).float()], tokenizer, config, profile)
    data["decoding"]["beam_size"] = 3
    for n_texts, lines in ((1, LINES), (3, LINES[:-1])):
        found = in_node(data, weights, TRANSLATE, [["en-de", line, n_texts] for line in lines])
        expected = translator.translations(lines, beam_size=n_texts, n_best=n_texts)
        for one, own in zip(found, expected, strict=True):  # in 8 bits the last of a beam may be another one
            assert one["texts"][0] == own.text and len(set(own.texts).difference(one["texts"])) < 2, own.source


@pytest.mark.parametrize("src_lang", ["en", "tr"])
def test_its_parts_of_a_line_are_those_of_the_run(trained_run, src_lang):
    (loaded, *_), rng = loaded_directions(trained_run), random.Random(0)
    in_language = loaded.config.data.model_copy(update={"src_lang": src_lang})
    loaded = loaded._replace(config=loaded.config.model_copy(update={"data": in_language}))
    data, weights = data_of([loaded])
    changes = [
        "“", "”", "'", "’", "(", ")", "...", "…", "- ", "Dr. ", "U.S. ", "! ", "。", "，", " ", "\t", "\u00a0", "😀", "👨‍👩‍👧", "{name}",
        "<b>", "</b>", "żółw", "Ω", "２３", "\u200b", "\x0b", "\u2028", "@me", "12:30", "ﬁ", "\u0301", ". ", ", ", "\ue001", "İ", "ǅ", "²",
    ]  # fmt: skip
    lines = []
    for _ in range(400):
        line = rng.choice([str, str.upper, str.lower, str.title])(rng.choice(LINES))
        for _ in range(rng.randrange(5)):
            place = rng.choice([0, len(line), rng.randrange(len(line) + 1)])
            line = line[:place] + rng.choice(changes) + line[place:]
        lines.append(line + rng.choice(["", " ", ". The red cat sees a house."]))
    found = in_node(data, weights, PARTS, lines)
    splitter = Translator([loaded.model], loaded.tokenizer, loaded.config, loaded.profile)._splitter
    for line, own in zip(lines, found, strict=True):
        parts, end, spans = (source := splitter.split(line)).parts, source.end, source.spans
        expected = [[list(p.ids), put_back(p.before, spans), len(p.symbols), len(p.marks)] for p in parts]
        assert own == [expected, put_back(end, spans)], line


def tokenizer_of(algorithm: str, is_joint: bool = True) -> Tokenizer:
    lines = "the red cat sees a house|a tree, it's|die rote Katze 我们 sieht|cats, dogs & trees!|naïve żółw"
    text = lines.split("|") * 3
    sides = [lambda: iter(text)] if is_joint else [lambda: iter(text), lambda: iter(text[::-1])]
    return train_tokenizer(list(sides), algorithm, 330, ("<2de>",), "".join(chr(0xE000 + n) for n in range(8)))


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_its_tokenizer_is_that_of_the_run(algorithm):
    tokenizer, rng = tokenizer_of(algorithm), random.Random(1)
    alphabet = [*"thecatsdogrus ,.'&!我们ï😀Ω", " the ", "cat", "ees", "\ue000", "\ue003", "<s>", "<0x41>", "<2de>"]
    texts = [" ".join("".join(rng.choices(alphabet, k=rng.randrange(1, 40))).split()) for _ in range(500)]
    action = """{
        const tokenizer = new Tokenizer(data);
        return value.map((text) => {
            const ids = tokenizer.encode(text);
            return [ids, wordsOf(ids.map((id) => tokenizer.pieces[id]), /[a-z]\\n[a-z]/).map((word) => word.text).join("")];
        });
    }"""
    found = in_node(_pieces(tokenizer.models[0], tokenizer), b"", action, texts)
    processor = processor_of(tokenizer.models[0])
    for text, (ids, decoded) in zip(texts, found, strict=True):
        assert ids == list(processor.encode(text)), text
        assert decoded.lstrip(" ") == processor.decode(ids).lstrip(" ")


def test_its_functions_are_exact():
    xs = [random.Random(n).uniform(-30, 30) for n in range(300)]
    found = torch.tensor(in_node({}, b"", "{ return value.map((x) => [exp(x), erf(x)]); }", xs), dtype=torch.float64)
    exact = torch.tensor(xs, dtype=torch.float64)
    torch.testing.assert_close(found[:, 0], exact.exp(), rtol=1e-10, atol=0)
    torch.testing.assert_close(found[:, 1], exact.erf(), rtol=0, atol=1.6e-7)


def test_the_webassembly_is_what_its_source_builds():
    wasmtime = pytest.importorskip("wasmtime")
    assert wasmtime.wat2wasm((FOLDER / "product.wat").read_text()) == (FOLDER / "product.wasm").read_bytes()


def test_a_page_takes_a_byte_for_each_weight(trained_run):
    loaded = loaded_directions(trained_run)
    data, weights = data_of(loaded)
    size = 4 * data["network"]["positions"]["columns"] * max(one["n_positions"] for one in data["directions"])
    for parameter in loaded[0].model.parameters():
        rows, columns = parameter.shape if parameter.dim() > 1 else (1, 0)
        size += rows * (columns + 4) if columns else 4 * len(parameter)
    assert len(weights) == size
    assert base64.b64encode(weights).decode() in (page := page_of(loaded))
    assert not re.search(r"https?://|src=|@import|url\(", re.sub(r'"SPANS":"[^"]*"', "", page)), "names other places"


def test_what_a_page_cannot_hold_is_one_line(mt, trained_run, tmp_path):
    for name, options, message in (
        ("page.txt", [], "name the file NAME.html"),
        ("page.html", ["--quantization", "int8"], "--to html writes 8 bits; leave out --quantization"),
        ("page.html", ["--tgt-lang", "fr"], "give --tgt-lang de"),
    ):
        answer = mt("export", trained_run, tmp_path / name, *options, "--to", "html")
        assert (answer.code, len(answer.said)) == (2, 1) and message in answer.said[0]
    assert not [*tmp_path.iterdir()]


def test_a_browser_opens_the_page_as_a_file_and_translates_what_is_typed(mt, trained_run, tmp_path, chromium):
    page = tmp_path / "page.html"
    answer = mt("export", trained_run, page, "--to", "html")
    assert answer.code == 0
    assert re.fullmatch(r".*page.html \(\d\.\d MB\) translates en to de; open it in a browser", answer.said[-1])
    chromium.requests.clear()
    chromium.show(page)
    chromium.click("#text")
    chromium.write("the red cat\nthe dog")
    chromium.wait("document.querySelectorAll('.said').length === 2")
    found = chromium.value("[...document.querySelectorAll('.said')].map((line) => line.textContent)")
    assert found == Translator.load(trained_run).translate(["the red cat", "the dog"])
    assert chromium.complaints == [] and all(address.startswith(("file:", "about:")) for address in chromium.requests)


def test_a_run_of_several_directions_is_one_page_for_all(mt, tiny):
    steps = ("training.max_steps=40", "training.validate_every_steps=40")
    sets = (f"--set={one}" for one in ("training.both_directions=1", "model.positions=rotary", *steps))
    answer = mt("train", "tiny.yaml", "--run-dir", "run", *sets)
    assert answer.code == 0, answer.err.decode()
    data, weights = data_of(loaded_directions(Path("run")))
    lines = {"de": "the red cat", "en": "die rote Katze"}
    asked = [["en-de", lines["de"], 1], ["de-en", lines["en"], 1]]
    expected = [[Translator.load("run", to=to).translate(line)] for to, line in lines.items()]
    assert [one["texts"] for one in in_node(data, weights, TRANSLATE, asked)] == expected
    said = mt("export", "run", "both.html", "--to", "html").said[-1]
    assert said.endswith("translates en to de and de to en; open it in a browser")
