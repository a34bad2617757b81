"""What the pages say can be done: their commands run, their files are there, and both READMEs say the same."""

import importlib.util
import random
import re
import shlex
import shutil
import webbrowser
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from test_errors import is_mt, run, shown
from test_structure import ORDER

from mt_cli.evaluation import comparison

REPOSITORY = Path(__file__).parents[1]
PAGES = {
    name: (REPOSITORY / name).read_text(encoding="utf-8")
    for name in [
        *("README.md", "README.zh-CN.md", "docs/guide.md", "docs/decoding-and-export.md", "docs/measurements.md"),
        *("docs/scaling.md", "docs/reliability.md", "benchmarks/README.md"),
    ]
}
README, CHINESE, GUIDE, DECODING = list(PAGES.values())[:4]
COMMANDS = sorted({line for text in PAGES.values() for line in shown(text) if is_mt(line)})


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_exists(command: str, mt):
    words = shlex.split(command)
    answer = mt(words[words.index("mt") + 1], "--help")
    assert answer.code == 0
    for option in (word for word in words if word.startswith("--")):
        assert option in answer.out.decode()
    for config in (word for word in words if re.match("(configs|benchmarks)/", word)):
        assert (REPOSITORY / config).is_file()


@pytest.mark.parametrize("page", PAGES)
def test_every_file_link_make_target_and_script_of_a_page_exists(page: str):
    text, makefile = PAGES[page], (REPOSITORY / "Makefile").read_text()
    for path in re.findall(r"\b(?:mt_cli|configs|docs|tests|benchmarks)/[\w./-]*", text):
        assert (REPOSITORY / path).exists() or path == "benchmarks/.envs", path
    for folder, files in re.findall(r"^    (mt_cli/\w+/)(.*)", text, re.MULTILINE):
        assert all((REPOSITORY / folder / file).is_file() for file in re.findall(r"[\w/]+\.py", files)), files
    for file, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
        target = (REPOSITORY / page).parent / file if file else REPOSITORY / page
        assert target.exists(), file
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings)], heading
    for make_target in re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{make_target}:", makefile, re.MULTILINE), make_target
    for script in re.findall(r"(?:^| |/)python (\S+\.py)", "\n".join(shown(text)), re.MULTILINE):
        assert (REPOSITORY / script).is_file(), script


CONFIG_LINE = next(line for line in shown(GUIDE) if line.startswith("data: {"))
NEEDS = {"ctranslate2": "ctranslate2", "marian": "safetensors"}
NOT_HERE = re.compile("mt fetch|configs/multi30k|opus-mt|runs/es-gn")  # wants the network
# What has learnt so little never ends a sentence by itself.
TINY = (
    "--set model.d_model=16 --set model.n_encoder_layers=1 --set model.n_decoder_layers=1 --set training.max_steps=2"
    " --set decoding.max_length_ratio=0.1"
)
SHORTER = {
    "--minutes 30": "--minutes 0.01",
    "mt serve runs/nb-en": "mt serve runs/nb-en --port 0",  # another process may have the usual one
    "mt train train.nb train.en": f"mt train train.nb train.en {TINY}",
    "mt train bible.nb bible.en": f"mt train bible.nb bible.en {TINY}",
    "mt train corpora": f"mt train corpora {TINY}",
    "mt train train.en train.nb": f"mt train train.en train.nb {TINY}",
    "mt train memory.tmx": f"mt train memory.tmx {TINY}",
    "mt check train.nb train.en --dropped": f"mt check train.nb train.en {TINY} --dropped",
    "--corrections": f"--corrections {TINY}",
    "max_steps=40000": "max_steps=3",
    # A network that has learnt nothing finds no translation, but draws one.
    "--monolingual news.": "--set data.monolingual.search=sampling --monolingual news.",
}


@pytest.fixture
def folder(tiny: Path, trained_run: Path) -> Path:
    """Entered, with everything that the commands of the pages name, in a tiny size."""
    config = yaml.safe_load(Path("tiny.yaml").read_text()) | yaml.safe_load(CONFIG_LINE)
    config["model"]["max_positions"] = 512
    config["training"] |= {"max_steps": 2, "validate_every_steps": 1}
    config["decoding"] = {"max_length_ratio": 0.1}
    kept = Path(shutil.copytree(trained_run, "runs/phrasebook")) / "config.yaml"
    kept.write_text(kept.read_text().replace("- train.", "- configs/train."))  # what it was trained on
    for name in ("configs", "moved", "corpora", "website"):
        Path(name).mkdir()
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        shutil.copy(name, f"configs/{name}")
    own = Path("tiny.yaml").read_text()
    for name in ("train", "dev"):
        own = own.replace(f"[{name}.en, {name}.de]", f"[configs/{name}.en, configs/{name}.de]")
    rng = random.Random(1)
    words = ["".join(rng.choices("abdefgiklmnoprstuv", k=6)) for _ in range(300)]
    for name, n_pairs, copies in (("train", 250, "moved"), ("dev", 12, "moved"), ("bible", 200, "corpora"), ("own", 60, "corpora")):  # fmt: skip
        sentences = [rng.choices(words, k=6) for _ in range(n_pairs)]
        for language, ending in (("nb", "et"), ("en", "")):
            Path(f"{name}.{language}").write_text("".join(f"{f'{ending} '.join(one)}{ending}\n" for one in sentences))
            shutil.copy(f"{name}.{language}", copies)
    for language, ending in (("nb", "et"), ("en", "")):  # of one language each
        sentences = [[f"{word}{ending}" for word in rng.choices(words, k=7)] for _ in range(100)]
        Path(f"news.{language}").write_text("".join(" ".join(one) + "\n" for one in sentences))
    sides = [Path(f"train.{language}").read_text().splitlines() for language in ("nb", "en")]
    unit = '<tu><tuv xml:lang="nb"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>{}</seg></tuv></tu>'
    for name, text in {
        "mine.yaml": yaml.safe_dump(config),
        "configs/phrasebook.yaml": own,
        "terms.tsv": "cat\tBaum\n",
        "memory.tmx": f"<tmx><body>{''.join(map(unit.format, *sides))}</body></tmx>",
        "words.tsv": "".join(f"{word}et\t{word}\n" for word in words),
        **dict.fromkeys(("text.nb", "text.zh", "text.en", "translations.txt"), "red cat\nhouse\n"),
        "app.po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "red"\nmsgstr ""\n',
        "menu.csv": "nb,en\nred,\n",
        "website/index.html": "<p>red</p>\n",
        "text-and-prefix.tsv": "red cat\trot\nhouse\t\n",
    }.items():
        Path(name).write_text(text, encoding="utf-8")
    return tiny


@pytest.mark.skipif(not shutil.which("bash"), reason="the pages are written for a shell")
@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/decoding-and-export.md"])
def test_the_commands_of_a_page_run_one_after_another(page, folder, mt, monkeypatch):
    def correct_and_stop(server, sockets):
        Path("runs/nb-en/corrections.tsv").write_text("nb\ten\ttime\nrød katt\tred cat\tnow\n")
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", correct_and_stop)
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    monkeypatch.setattr(comparison, "N_RESAMPLES", 100)
    monkeypatch.setattr(comparison, "N_TRIALS", 100)
    commands = [line for line in shown(PAGES[page]) if is_mt(line) and not NOT_HERE.search(line)]
    assert len(commands) >= 5
    for command in commands:
        if all(importlib.util.find_spec(package) for word, package in NEEDS.items() if word in command):
            for long, short in SHORTER.items():
                command = command.replace(long, short)
            answer = run(command, mt)
            assert answer.code == 0, (command, answer.err.decode())


def test_the_config_and_the_python_of_the_guide_run(folder, mt):
    Path("nb-en.yaml").write_text(CONFIG_LINE + "\n")
    small = [f"model.{key}=2" for key in ("n_heads", "n_encoder_layers", "n_decoder_layers")]
    sets = [*small, "model.d_model=16", "model.ffn_dim=16", "training.max_steps=2", "tokenizer.vocab_size=300"]
    answer = mt("train", "nb-en.yaml", *(word for one in sets for word in ("--set", one)))
    assert answer.code == 0, answer.err.decode()
    assert len(mt("translate", "runs/nb-en", stdin=b"red cat\nhouse\n").lines) == 2
    assert len(last_value(python_of(GUIDE, "From Python"))) == 2


def python_of(text: str, heading: str) -> str:
    section = re.split(r"\n#+ ", text.split(f"# {heading}\n")[1])[0]
    return "\n".join(line for line in shown(section) if not is_mt(line)).replace("我有一只猫", "the cat")


def last_value(code: str) -> Any:
    """Of the last line, after those before it have run."""
    *setup, last = code.strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(setup), names)
    return eval(last, names)


def test_ctranslate2_finds_with_the_options_of_the_page_what_mt_finds(folder: Path, mt):
    pytest.importorskip("ctranslate2")
    assert mt("export", "runs/phrasebook", "model", "--to", "ctranslate2").code == 0
    ours = mt("translate", "runs/phrasebook", "--beam-size", "5", "--length-normalization", "average", stdin=b"the cat")
    assert [last_value(python_of(DECODING, "CTranslate2 from Python"))] == ours.lines == ["die Katze"]


@pytest.mark.filterwarnings("ignore")
def test_the_exported_folder_is_read_by_hugging_face_as_the_page_says(folder: Path, mt):
    pytest.importorskip("transformers")
    assert mt("export", "runs/phrasebook", "hugging-face", "--to", "marian").code == 0
    assert last_value(python_of(DECODING, "Hugging Face")) == ["die Katze"]


def test_the_list_of_files_is_the_order_of_the_imports():
    lines = [line for line in shown(README) if re.match(r"mt_cli/\w+(/|\.py)", line)]
    named = [re.split("  +", line)[0].removeprefix("mt_cli/").split(", ") for line in lines]
    assert [re.sub(r"/$|\.py$", "", name) for names in named for name in names] == ORDER


def test_both_readmes_have_the_same_commands_output_figures_sections_links_and_names():
    def skeleton(text):
        return [
            # What stands beside a file of the package is said in the page's own language.
            [re.sub(r"^(mt_cli/.*?)  .*", r"\1", line) for line in shown(text)],
            [re.findall(r"\d[\d.,]*", line) for line in text.splitlines() if line.startswith("|")],
            [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)],
            re.findall(r"\]\(([^)]+)\)", text)[1:],
            set(re.findall(r"`[^`]+`", text)),
        ]

    for chinese, english in zip(skeleton(CHINESE), skeleton(README), strict=True):
        assert chinese == english
    assert "(README.zh-CN.md)" in README and "(README.md)" in CHINESE
