"""How a translator holds under changes that people make in text, also one that is not mt:

    .venv/bin/python benchmarks/robustness.py test.zh test.en FOLDER [--run RUN]

Writes the sources under each change into FOLDER, as NAME.src. A translator writes NAME.out beside each of them, line for line;
with --run it is that run of mt. As soon as they are there, the same command prints the table: a row for each change.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mt_cli import Translator
from mt_cli.data.corpus import read_lines
from mt_cli.data.languages import languages_of_files
from mt_cli.evaluation.comparison import TestSet
from mt_cli.evaluation.metrics import bleu_tokenizer, count_texts
from mt_cli.evaluation.robustness import Change, changed_sets, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", help="a run of mt, which translates what is not translated yet")
    arguments = parser.parse_args()
    languages = languages_of_files(str(arguments.source), str(arguments.reference))
    if languages is None:
        parser.error("the names of the files do not tell the languages, as test.zh and test.en do")
    plain = TestSet("as it is", read_lines(arguments.source), [read_lines(arguments.reference)])
    sets = [(Change("as it is", str), plain), *changed_sets(plain, *languages)]
    translator = Translator.load(arguments.run) if arguments.run else None
    arguments.folder.mkdir(exist_ok=True)
    outputs = dict[str, list[str]]()
    for change, one in sets:
        file = arguments.folder / f"{change.name.replace(' ', '-')}.src"
        file.write_text("".join(f"{line}\n" for line in one.sources), encoding="utf-8")
        translated = file.with_suffix(".out")
        if translator is not None and not translated.exists():
            translated.write_text("".join(f"{line}\n" for line in translator.translate(one.sources)), encoding="utf-8")
        if translated.exists():
            outputs[change.name] = read_lines(translated)
    if len(outputs) < len(sets):
        print(f"translate {arguments.folder}/*.src into files that end in .out, then give the same command again")
        return
    tokenizer = bleu_tokenizer("auto", languages[1])
    print("| change | BLEU | chrF | translations that differ by more | spans kept |\n|---|---:|---:|---:|---:|")
    for change, one in sets:
        counts = count_texts(outputs[change.name], one.references, tokenizer)
        bleu, chrf = counts["bleu"].score(), counts["chrf"].score()
        differing, kept = held(change, outputs["as it is"], outputs[change.name])
        print(
            f"| {change.name} | {bleu:.1f} | {chrf:.1f} | {differing:.1%} | {'' if kept is None else f'{kept:.1%}'} |"
        )


if __name__ == "__main__":
    main()
